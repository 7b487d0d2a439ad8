/*
 * The plans that the host engine runs, run by GPUs: every element against a replay of the same plan by one thread
 * on the host. Needs CUDA; skipped without it. An argument leaves out calls of more bytes than that.
 * shapes: 4:0
 */
#include <mpi.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "corale.h"
#include "cuda/device.h"
#include "gpu_group.h"
#include "plan/plan_eval.h"
#include "plan/planner.h"
#include "reference.h"
#include "replay.h"

enum { REPEATS = 11, POISON = 0xa5 };
static const double WAIT_S = 60;

struct run {
	corale_coll coll;
	const char *algo;
	size_t count, offset; /* offset: elements by which buffers are misaligned */
	int in_place, copy_engines;
	unsigned stall_us; /* of rank 1's blocks, with each action */
};

static int number, failures;
static size_t most_bytes = SIZE_MAX;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One case of the TAP that rank 0 prints; good only if it is on all ranks. */
static void report(int good, const char *text)
{
	int rank, all;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	number++;
	failures += !all;
	if (rank == 0)
		printf("%sok %d - %s\n", all ? "" : "not ", number, text);
	fflush(stdout);
}

/* ---- Running -------------------------------------------------------------------------------------------- */

static int wait_for(struct gpu_group *g)
{
	double deadline = now() + WAIT_S;
	int ret;
	while ((ret = device_cuda.query(g->device, g->stream)) == CORALE_INPROGRESS) {
		if (now() > deadline) {
			fprintf(stderr, "rank %d: the stream is stuck\n", g->rank);
			return CORALE_ETIMEDOUT;
		}
		sched_yield();
	}
	if (ret) {
		struct device_failure f = { 0 };
		device_cuda.failure(g->device, &f);
		fprintf(stderr,
			"rank %d: %s: program %d channel %d ring %d, %s peer %d: message %llu, expected "
			"%llu, got %llu\n",
			g->rank, corale_strerror(ret), f.program, f.channel, f.ring,
			f.sending ? "to" : "from", f.peer, (unsigned long long)f.message,
			(unsigned long long)f.expected, (unsigned long long)f.got);
	}
	return ret;
}

static int start(struct gpu_group *g, const struct plan *plan, const struct run *r, const float *send,
		 float *recv)
{
	struct plan_env env;
	struct device_binding binding = { .send = send,
					  .recv = recv,
					  .op = CORALE_SUM,
					  .signature = 1000 + g->calls++,
					  .copy_engines = r->copy_engines,
					  .stall_us = g->rank == 1 ? r->stall_us : 0 };
	plan_env_init(&env, plan, &g->topo->map, g->rank, 0, r->count);
	return device_cuda.run(g->device, plan, &env, &binding, g->stream);
}

static const struct reference *inputs(int ranks)
{
	static struct reference ref;
	ref = (struct reference){ CORALE_FLOAT32, CORALE_SUM, ranks, REFERENCE_RANDOM, 7 };
	return &ref;
}

/* Rank 0 replays the plan for all ranks and tells the result; also 0 if ranks' results differ from each other. */
static int expect(const struct gpu_group *g, const struct plan *plan, const struct run *r, float *expected)
{
	int good = 1;
	if (g->rank == 0) {
		void *send[GPU_GROUP_MOST_RANKS], *recv[GPU_GROUP_MOST_RANKS];
		for (int q = 0; q < g->ranks; q++) {
			send[q] = malloc(r->count * sizeof(float) + 1);
			recv[q] = r->in_place ? send[q] : malloc(r->count * sizeof(float) + 1);
			reference_fill(inputs(g->ranks), q, 0, r->count, send[q]);
		}
		good = replay(plan, &g->topo->map, r->count, send, recv) == 0;
		memcpy(expected, recv[0], r->count * sizeof(float));
		for (int q = 0; q < g->ranks; q++) {
			good &= !memcmp(expected, recv[q], r->count * sizeof(float));
			free(send[q]);
			if (!r->in_place)
				free(recv[q]);
		}
	}
	MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Bcast(expected, (int)r->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
	return good;
}

static size_t count_wrong(const struct gpu_group *g, const struct run *r, const float *got,
			  const float *expected)
{
	size_t wrong = 0;
	for (size_t i = 0; i < r->count; i++) {
		if (!memcmp(&got[i], &expected[i], sizeof(float)))
			continue;
		if (!wrong++)
			fprintf(stderr, "rank %d: element %zu is %.9g, not %.9g\n", g->rank, i,
				(double)got[i], (double)expected[i]);
	}
	return wrong;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Median over calls of the slowest rank's time, in us. */
static double measure(struct gpu_group *g, const struct plan *plan, const struct run *r, const float *send,
		      float *recv)
{
	double us[REPEATS];
	for (int i = 0; i < REPEATS; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double begin = now();
		int ret = start(g, plan, r, send, recv);
		if (!ret)
			ret = wait_for(g);
		us[i] = ret ? INFINITY : (now() - begin) * 1e6;
	}
	MPI_Allreduce(MPI_IN_PLACE, us, REPEATS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(us, REPEATS, sizeof(us[0]), by_value);
	return us[REPEATS / 2];
}

/* Runs, compares, and runs again for the clock (out of place: in place the input is gone). */
static int execute(struct gpu_group *g, const struct plan *plan, const struct run *r, double *us)
{
	size_t bytes = r->count * sizeof(float), room = (bytes / 64 + 2) * 64;
	char *buffers = NULL;
	float *host = malloc(bytes + 1), *expected = malloc(bytes + 1);
	int ret = device_cuda.alloc(g->device, 2 * room, (void **)&buffers);
	if (ret)
		return ret;
	float *send = (float *)buffers + r->offset,
	      *recv = r->in_place ? send : (float *)(buffers + room) + r->offset;
	memset(host, POISON, bytes);
	ret = device_cuda.copy(g->device, recv, host, bytes);
	reference_fill(inputs(g->ranks), g->rank, 0, r->count, host);
	if (!ret)
		ret = device_cuda.copy(g->device, send, host, bytes);
	int good = expect(g, plan, r, expected);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!ret)
		ret = start(g, plan, r, send, recv);
	if (!ret)
		ret = wait_for(g);
	memset(host, POISON, bytes);
	if (!ret)
		ret = device_cuda.copy(g->device, host, recv, bytes);
	if (!ret && (!good || count_wrong(g, r, host, expected)))
		ret = CORALE_EINTERNAL;
	MPI_Allreduce(MPI_IN_PLACE, &ret, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	*us = ret || r->in_place ? 0 : measure(g, plan, r, send, recv);
	ret = isinf(*us) ? CORALE_EINTERNAL : ret;
	device_cuda.free(g->device, buffers);
	free(host);
	free(expected);
	return ret;
}

static void try_run(struct gpu_group *g, const struct run *r)
{
	struct plan plan;
	char text[200];
	double us = 0;
	if (r->count * sizeof(float) > most_bytes)
		return;
	int ret = gpu_group_build(g, r->coll, r->algo, r->count, &plan);
	if (!ret)
		ret = execute(g, &plan, r, &us);
	snprintf(text, sizeof(text),
		 "%s: %s%s, %zu bytes%s%s%s: %d programs, %d channels, chunks of %u: %.1f us%s",
		 g->shape->name, r->algo, r->copy_engines ? " by copy engines" : "", r->count * sizeof(float),
		 r->in_place ? ", in place" : "", r->offset ? ", misaligned" : "",
		 r->stall_us ? ", a late rank" : "", ret ? 0 : plan.nprograms, ret ? 0 : plan.channels,
		 ret ? 0 : plan.chunk_bytes, us, ret ? ", failed" : "");
	report(!ret, text);
	if (ret) { /* the communicator is done for */
		MPI_Barrier(MPI_COMM_WORLD);
		gpu_group_close(g);
		if (gpu_group_open(g, g->shape,
				   10)) /* after a fault of the GPU nothing works any more in this process */
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* ---- Cases ---------------------------------------------------------------------------------------------- */

static void try_sizes(struct gpu_group *g, const char *algo)
{
	static const size_t bytes[] = { 8, 4 << 10, 1 << 20, 64 << 20 };
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		try_run(g, &(struct run){ .algo = algo, .count = bytes[i] / sizeof(float) });
	try_run(g, &(struct run){ .algo = algo, .count = 100003, .offset = 1 });
	try_run(g, &(struct run){ .algo = algo, .count = 300007, .in_place = 1 });
	try_run(g, &(struct run){ .algo = algo, .count = 1 << 20, .stall_us = 1000 });
}

/* Plans take turns without a pause between calls, so that a lane's messages of different plans follow each other. */
static void try_turns(struct gpu_group *g)
{
	static const char *const algos[] = { "oneshot", "twoshot", "ring", "doubling" };
	enum { ALGOS = 4, TURNS = 200 };
	const struct run r = { .count = 50021 };
	struct plan plans[ALGOS];
	float *buffers = NULL, *host = malloc(r.count * sizeof(float)),
	      *expected = malloc(r.count * sizeof(float));
	int ret = device_cuda.alloc(g->device, (1 + ALGOS) * r.count * sizeof(float), (void **)&buffers);
	reference_fill(inputs(g->ranks), g->rank, 0, r.count, host);
	if (!ret)
		ret = device_cuda.copy(g->device, buffers, host, r.count * sizeof(float));
	for (int k = 0; k < ALGOS; k++)
		ret = ret ? ret : gpu_group_build(g, CORALE_ALL_REDUCE, algos[k], r.count, &plans[k]);
	for (int i = 0; !ret && i < TURNS; i++) {
		int k = (i * 7 + i / 5) % ALGOS;
		ret = start(g, &plans[k], &r, buffers, buffers + (size_t)(1 + k) * r.count);
	}
	if (!ret)
		ret = wait_for(g);
	for (int k = 0; !ret && k < ALGOS; k++) {
		int good = expect(g, &plans[k], &r, expected);
		ret = device_cuda.copy(g->device, host, buffers + (size_t)(1 + k) * r.count,
				       r.count * sizeof(float));
		if (!good || count_wrong(g, &r, host, expected))
			ret = CORALE_EINTERNAL;
	}
	report(!ret, "200 calls of four plans take turns on the same lanes");
	device_cuda.free(g->device, buffers);
	free(host);
	free(expected);
}

/* Rank 0 makes another call than the others: everybody gets an error. */
static void try_mismatch(const struct gpu_shape *shape)
{
	struct gpu_group g;
	struct plan plan;
	struct run r = { .algo = "twoshot", .count = 5000 };
	float *buffers = NULL;
	int ret = gpu_group_open(&g, shape, 10);
	if (!ret)
		ret = device_cuda.alloc(g.device, 2 * r.count * sizeof(float), (void **)&buffers);
	if (!ret)
		ret = gpu_group_build(&g, CORALE_ALL_REDUCE, r.algo, r.count, &plan);
	g.calls += g.rank == 0;
	if (!ret)
		ret = start(&g, &plan, &r, buffers, buffers + r.count);
	int code = ret ? 0 : wait_for(&g);
	report(code == CORALE_EMISMATCH || code == CORALE_EABORTED,
	       "a different call is an error on every rank");
	code = start(&g, &plan, &r, buffers, buffers + r.count);
	report(code == CORALE_ECOMM, "the communicator refuses later calls");
	device_cuda.free(g.device, buffers);
	gpu_group_close(&g);
}

/* The last rank makes no call: the others get an error in time, and their copy streams drain. */
static void try_absent(const struct gpu_shape *shape, const char *algo, int copy_engines)
{
	struct gpu_group g;
	struct plan plan;
	struct run r = { .algo = algo, .count = 5 << 20, .copy_engines = copy_engines };
	float *buffers = NULL;
	char text[100];
	int code = 0, ret = gpu_group_open(&g, shape, 1);
	if (!ret)
		ret = device_cuda.alloc(g.device, 2 * r.count * sizeof(float), (void **)&buffers);
	if (!ret)
		ret = gpu_group_build(&g, CORALE_ALL_REDUCE, r.algo, r.count, &plan);
	double begin = now();
	if (!ret && g.rank < g.ranks - 1)
		ret = start(&g, &plan, &r, buffers, buffers + r.count);
	if (!ret && g.rank < g.ranks - 1)
		code = wait_for(&g);
	snprintf(text, sizeof(text), "%s%s: a rank that does not come is an error on the others within 3 s",
		 algo, copy_engines ? " by copy engines" : "");
	report(!ret && now() - begin < 3 &&
		   (g.rank == g.ranks - 1 || code == CORALE_ETIMEDOUT || code == CORALE_EABORTED),
	       text);
	device_cuda.free(g.device, buffers);
	gpu_group_close(&g);
}

static void run_all(void)
{
	static const struct gpu_shape flat = { "flat", 0, 8, 4, 128 << 10, 0 };
	static const struct gpu_shape nodes = { "2 fake nodes", 2, 8, 4, 128 << 10, 0 };
	static const struct gpu_shape bulk = { "bulk", 0, 1, 2, 16 << 20, 16 << 20 };
	static const struct gpu_shape large = { "large", 0, 1, 2, 32 << 20, 32 << 20 };
	struct gpu_group g;
	if (gpu_group_open(&g, &flat, 10) == 0) {
		try_sizes(&g, "oneshot");
		try_sizes(&g, "twoshot");
		try_sizes(&g, "ring");
		try_sizes(&g, "doubling");
		try_sizes(&g, "ce");
		/* the root runs ahead of its readers for as long as they let it */
		try_run(&g,
			&(struct run){
			    .coll = CORALE_BROADCAST, .algo = "flat", .count = 4 << 20, .stall_us = 1000 });
		try_turns(&g);
		gpu_group_close(&g);
	}
	if (gpu_group_open(&g, &nodes, 10) == 0) {
		try_sizes(&g, "hier_ring");
		if (g.topo->map.nodes > 1)
			try_sizes(&g, "hier_doubling");
		gpu_group_close(&g);
	}
	if (gpu_group_open(&g, &bulk, 10) == 0) {
		try_run(&g, &(struct run){ .algo = "ce", .count = (64 << 20) + 5, .copy_engines = 1 });
		try_run(&g, &(struct run){ .algo = "ce", .count = 64 << 20, .copy_engines = 1 });
		try_run(&g, &(struct run){
				.algo = "ce", .count = (64 << 20) + 5, .copy_engines = 1, .in_place = 1 });
		try_run(&g, &(struct run){
				.algo = "ce", .count = 64 << 20, .copy_engines = 1, .stall_us = 5000 });
		try_run(&g, &(struct run){ .algo = "ce", .count = 64 << 18, .copy_engines = 1 });
		try_run(&g, &(struct run){ .algo = "ce", .count = 2, .copy_engines = 1 });
		gpu_group_close(&g);
	}
	if (gpu_group_open(&g, &large, 10) == 0) {
		try_run(&g, &(struct run){ .algo = "ce", .count = 64 << 20, .copy_engines = 1 });
		try_run(&g, &(struct run){ .algo = "ce", .count = 128 << 20, .copy_engines = 1 });
		gpu_group_close(&g);
	}
	for (int i = 0; i < 5; i++) /* whoever is late must learn of it, too */
		try_mismatch(&flat);
	try_absent(&flat, "ring", 0);
	try_absent(&bulk, "ce", 1);
}

int main(int argc, char **argv)
{
	char why[200];
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1)
		most_bytes = strtoull(argv[1], NULL, 0);
	int usable = device_cuda.available(why, sizeof(why));
	MPI_Allreduce(MPI_IN_PLACE, &usable, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (usable) {
		run_all();
	} else {
		number = 1;
		if (rank == 0)
			printf("ok 1 # SKIP no CUDA: %s\n", why);
	}
	if (rank == 0)
		printf("1..%d\n", number);
	MPI_Finalize();
	return failures != 0;
}
