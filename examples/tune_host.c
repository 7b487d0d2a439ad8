/* SPDX-License-Identifier: BSD-3-Clause */
/* The rates of hosts, measured by two ranks of a node, in batches. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "base/wait.h"
#include "corale_mpi.h"
#include "plan/cost/cost.h"
#include "reduce/reduce.h"
#include "tune.h"
#include "plans/planned.h"

enum {
	ROUNDS = 1000, /* of a batch, */
	MOST_BATCHES = 4096, /* of which there are so many at most */
	CHUNK = 256 << 10, /* what the planner has a message carry where it is folded */
	SLOTS = 8, /* of a window, used in turn */
	VECTOR = 64 << 20, /* a user's buffer, from no cache */
	STEP_CALLS = 1000,
	POLLS_A_PAUSE = 10000
};

/* In memory of both ranks. */
struct shared {
	_Alignas(128) _Atomic uint32_t asked; /* written by the rank that leads; LAST ends the measurement */
	_Alignas(128) _Atomic uint32_t answered; /* and by the other one */
	_Alignas(128) float data[SLOTS][CHUNK / sizeof(float)];
};
static const uint32_t last = UINT32_MAX;

struct batches {
	int64_t until;
	int n;
	double ns[MOST_BATCHES];
};

static int failed(const char *what)
{
	return log_error(CORALE_ENOMEM, -1, "corale-tune: no memory for %s", what);
}

/* ---- Batches ---------------------------------------------------------------------------------------------- */

static struct batches *new_batches(double seconds)
{
	struct batches *batches = malloc(sizeof(*batches));
	if (batches) {
		batches->n = 0;
		batches->until = wait_now_ns() + (int64_t)(seconds * 1e9);
	}
	return batches;
}

static int are_done(const struct batches *batches)
{
	return batches->n == MOST_BATCHES || (batches->n && wait_now_ns() > batches->until);
}

static void add_batch(struct batches *batches, double ns)
{
	batches->ns[batches->n++] = ns;
}

static int by_time(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Of the batches a fifth is faster: what else runs on the machine makes many slower and none faster. 0: there are none. Frees them. */
static double time_of(struct batches *batches)
{
	sort_items(batches->ns, (size_t)batches->n, sizeof(*batches->ns), by_time);
	const double ns = batches->n ? batches->ns[batches->n / 5] : 0;
	free(batches);
	return ns;
}

/* ---- Shared memory ---------------------------------------------------------------------------------------- */

static struct shared *open_shared(const struct tune_pair *pair, MPI_Win *window)
{
	struct shared *shared;
	MPI_Aint bytes;
	int unit;
	MPI_Win_allocate_shared(pair->leads ? sizeof(*shared) : 0, 1, MPI_INFO_NULL, pair->comm, &shared,
				window);
	MPI_Win_shared_query(*window, 0, &bytes, &unit, &shared);
	if (pair->leads)
		memset(shared, 0, sizeof(*shared));
	MPI_Barrier(pair->comm);
	return shared;
}

/* Until the word has another value than before. */
static uint32_t await(_Atomic uint32_t *word, uint32_t before)
{
	uint32_t value;
	for (int polls = 1; (value = atomic_load_explicit(word, memory_order_acquire)) == before; polls++)
		if (polls % POLLS_A_PAUSE == 0)
			wait_pause();
	return value;
}

static void ask(struct shared *shared, uint32_t n)
{
	atomic_store_explicit(&shared->asked, n, memory_order_release);
	await(&shared->answered, n - 1);
}

static void answer(struct shared *shared, uint32_t n)
{
	atomic_store_explicit(&shared->answered, n, memory_order_release);
}

/* ---- A word to and fro ------------------------------------------------------------------------------------ */

static void answer_words(struct shared *shared)
{
	for (uint32_t n = 0; (n = await(&shared->asked, n)) != last;)
		answer(shared, n);
}

static void ask_words(struct shared *shared, struct batches *batches)
{
	uint32_t n = 0;
	while (!are_done(batches)) {
		const int64_t start = wait_now_ns();
		for (int i = 0; i < ROUNDS; i++)
			ask(shared, ++n);
		add_batch(batches, (double)(wait_now_ns() - start) / ROUNDS / 2);
	}
	atomic_store(&shared->asked, last);
}

int tune_latency(const struct tune_pair *pair, struct tuning *out)
{
	struct batches *batches = new_batches(pair->seconds);
	MPI_Win window;
	if (!batches)
		return failed("times");
	struct shared *shared = open_shared(pair, &window);
	if (pair->leads)
		ask_words(shared, batches);
	else
		answer_words(shared);
	MPI_Win_free(&window);
	const double ns = time_of(batches);
	if (pair->leads)
		tuning_set(out, tuning_find("host.node_ns"), ns);
	return 0;
}

/* ---- A vector: one rank copies chunks of it into shared memory, the other one folds each from there into its own -------------------- */

static float *chunk_of(float *vector, uint32_t n)
{
	return vector + n % (VECTOR / CHUNK) * (CHUNK / sizeof(float));
}

static void copy_vectors(struct shared *shared, float *vector, struct batches *batches)
{
	uint32_t n = 0;
	while (!are_done(batches)) {
		const int64_t start = wait_now_ns();
		memcpy(shared->data[n % SLOTS], chunk_of(vector, n), CHUNK);
		add_batch(batches, (double)(wait_now_ns() - start));
		ask(shared, ++n);
	}
	atomic_store(&shared->asked, last);
}

static void fold_vectors(struct shared *shared, float *vector, struct batches *batches)
{
	const struct reduce_spec spec = { CORALE_FLOAT32, CORALE_SUM, 2, { 0 } };
	for (uint32_t n = 0; (n = await(&shared->asked, n)) != last; answer(shared, n)) {
		float *own = chunk_of(vector, n);
		const struct reduce_input inputs[] = { { shared->data[(n - 1) % SLOTS], REDUCE_LOCAL },
						       { own, REDUCE_LOCAL } };
		const int64_t start = wait_now_ns();
		reduce_fold(&spec, own, inputs, 2, CHUNK / sizeof(float), 1);
		if (batches->n < MOST_BATCHES)
			add_batch(batches, (double)(wait_now_ns() - start));
	}
}

int tune_bytes(const struct tune_pair *pair, struct tuning *out)
{
	struct batches *batches = new_batches(pair->seconds);
	float *vector = malloc(VECTOR);
	double copy, fold;
	MPI_Win window;
	if (!batches || !vector) {
		free(batches);
		free(vector);
		return failed("vectors");
	}
	for (size_t i = 0; i < VECTOR / sizeof(float); i++)
		vector[i] = 1; /* pages of its own */
	struct shared *shared = open_shared(pair, &window);
	if (pair->leads)
		copy_vectors(shared, vector, batches);
	else
		fold_vectors(shared, vector, batches);
	copy = fold = time_of(batches);
	MPI_Bcast(&fold, 1, MPI_DOUBLE, 1, pair->comm);
	MPI_Win_free(&window);
	free(vector);
	if (pair->leads) {
		tuning_set(out, tuning_find("host.node_gbs"), CHUNK / copy);
		tuning_set(out, tuning_find("host.reduce_gbs"), 2 * CHUNK / fold); /* of all inputs */
	}
	return 0;
}

/* ---- A step: what a small call takes beyond what the model says of one whose steps are free ---------------- */

static int time_calls(const struct tune_pair *pair, corale_comm *comm, double *ns)
{
	struct batches *batches = new_batches(pair->seconds);
	float data[2] = { 0 };
	int ret = batches ? 0 : failed("times"), done = 0;
	while (!ret && !done) {
		const int64_t start = wait_now_ns();
		for (int i = 0; i < STEP_CALLS && !ret; i++)
			ret = corale_all_reduce(data, data, 2, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
		add_batch(batches, (double)(wait_now_ns() - start) / STEP_CALLS);
		done = are_done(batches);
		MPI_Bcast(&done, 1, MPI_INT, 0, pair->comm);
	}
	*ns = batches ? time_of(batches) : 0;
	return ret;
}

/* The model's time of the same call with steps of step_ns, and otherwise the rates that were measured. */
static int model_call(const struct comm *comm, const struct tuning *tuning, double step_ns, double *ns)
{
	const struct plan_key key = planner_key(CORALE_ALL_REDUCE, 2, CORALE_FLOAT32, CORALE_SUM);
	struct rates_links links = *rates_of_hosts();
	struct topo topo = *comm->topo;
	struct plan plan;
	char error[256];
	if (planner_plan(&comm->plans.planner, &key, NULL, &plan, error, sizeof(error)))
		return log_error(CORALE_EINTERNAL, comm->rank, "corale-tune: %s", error);
	tuning_apply_links(tuning, TUNING_HOST, &links);
	links.step_ns = step_ns;
	topo_set_hosts(&topo, &links);
	*ns = cost_of_plan(&topo, &plan, 2);
	return 0;
}

/* No step is free, though a word to and fro may have taken longer than the call's messages. */
static const double least_step_ns = 10;

static int find_step(const struct comm *comm, double call_ns, struct tuning *tuning)
{
	double without, with;
	int ret = model_call(comm, tuning, 0, &without);
	ret = ret ? ret : model_call(comm, tuning, 100, &with);
	const double step_ns = ret ? 0 : (call_ns - without) / (with - without) * 100;
	if (!ret)
		tuning_set(tuning, tuning_find("host.step_ns"),
			   step_ns > least_step_ns ? step_ns : least_step_ns);
	return ret;
}

int tune_step(const struct tune_pair *pair, struct tuning *out)
{
	corale_comm *handle;
	double ns;
	int ret = corale_comm_create_mpi(pair->comm, NULL, &handle);
	if (ret)
		return ret;
	ret = time_calls(pair, handle, &ns);
	if (!ret && pair->leads)
		ret = find_step(comm_get(handle, "corale-tune"), ns, out);
	corale_comm_destroy(handle);
	return ret;
}

/* ---- Between nodes ---------------------------------------------------------------------------------------- */

void tune_network(const struct comm *comm, struct tuning *out)
{
	const struct topo *topo = comm->topo;
	tuning_set(out, tuning_find("network.rail_ns"), topo->rail.latency_ns);
	tuning_set(out, tuning_find("network.rail_gbs"), topo->rail.bytes_per_ns);
	tuning_set(out, tuning_find("network.send_ns"), topo->rail.send_ns);
	tuning_set(out, tuning_find("network.recv_ns"), topo->rail.recv_ns);
	tuning_set(out, tuning_find("network.net_gbs"), topo->net_bytes_per_ns);
}
