/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls between nodes that stand still: each rank that waits says once a stall, within seconds, whom it waits for and whether that one
 * answers; a rank that goes on has lost nothing. Ranks are threads, each a node of its own; those of GPUs have a proxy and host memory in
 * place of the GPU's. Settings are read once a process: each case runs this program again.
 */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "health/watch.h"
#include "comm/gpu.h"
#include "health/gpu_health.h"
#include "call/signature.h"
#include "net/proxy.h"
#include "test/helpers/team.h"

/* Lines come after two seconds; a test machine may be busy. */
enum {
	RANKS = 3,
	LATE = 2,
	COUNT = 8,
	LARGE = 4 << 20,
	LIMIT_S = 8,
	LOG_BYTES = 16384,
	TICK_US = 30000,
	AFTER_US = 600000
};

static char log_path[64];

/* How often a text is in the log of this process's lines of a rank; rank -1: of any. */
static int told(int rank, const char *text)
{
	char log[LOG_BYTES], prefix[32];
	int found = 0;
	FILE *file = fopen(log_path, "re");
	if (!file)
		return 0;
	snprintf(prefix, sizeof(prefix), " rank %d: ", rank);
	while (fgets(log, sizeof(log), file))
		found += strstr(log, text) && (rank < 0 || strstr(log, prefix));
	fclose(file);
	return found;
}

static void show_log(void)
{
	char line[LOG_BYTES];
	FILE *file = fopen(log_path, "re");
	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "# %s", line);
	if (file)
		fclose(file);
}

static void expect_lines(struct team_member *m, int rank, const char *text, int lines)
{
	int n = told(rank, text);
	if (n != lines)
		team_fault(m, "%d lines of rank %d say \"%s\", expected %d", n, rank, text, lines);
}

/* ---- Host memory -------------------------------------------------------------------------------------------- */

static void progress(corale_comm *handle)
{
	struct transport *transport = comm_get(handle, "test")->engine.transport;
	transport->ops->progress(transport);
}

/* The late rank comes when all others have complained; answering meanwhile, or as if its process were stopped. */
static void be_late(struct team_member *m, int answers)
{
	const double begin = clock_s();
	while (told(-1, "silent for") < RANKS - 1 && clock_s() - begin < LIMIT_S) {
		if (answers)
			progress(m->comm);
		usleep(1000);
	}
	if (told(-1, "silent for") != RANKS - 1)
		team_fault(m, "%d of %d ranks have complained", told(-1, "silent for"), RANKS - 1);
}

static void reduce_late(struct team_member *m, int answers, const char *text)
{
	int32_t mine[COUNT], sum[COUNT];
	char name[64];
	for (int i = 0; i < COUNT; i++)
		mine[i] = i + m->rank;
	if (m->rank == LATE)
		be_late(m, answers);
	team_expect(m, corale_all_reduce(mine, sum, COUNT, CORALE_INT32, CORALE_SUM, m->comm, NULL), 0,
		    "the call");
	for (int i = 0; i < COUNT; i++)
		if (sum[i] != RANKS * i + RANKS * (RANKS - 1) / 2)
			team_fault(m, "element %d is %d", i, (int)sum[i]);
	team_barrier(m);
	snprintf(name, sizeof(name), "rank %d (process %d of host ", LATE, (int)getpid());
	if (m->rank == 0) {
		expect_lines(m, 0, "silent for", 1);
		expect_lines(m, 1, "silent for", 1);
		expect_lines(m, LATE, "silent for", 0);
		expect_lines(m, -1, "all_reduce(count 8, int32, sum), call 1", RANKS - 1);
		if (!told(-1, name) || !told(-1, text))
			team_fault(m, "no line says \"%s\" and \"%s\"", name, text);
	}
}

static void stopped(struct team_member *m)
{
	reduce_late(m, 0, "it does not answer: it is outside of calls, its link is cut, or it is stopped");
}

static void answering(struct team_member *m)
{
	reduce_late(m, 1, "it answers, but has not made the call");
}

/* Rank 0 waits for a message of the late rank, rank 1 for it to take a large one. */
static void pairs(struct team_member *m)
{
	int32_t *data = calloc(LARGE, sizeof(*data));
	const int to = (m->rank + 1) % RANKS, from = (m->rank + RANKS - 1) % RANKS;
	if (!data)
		abort();
	data[0] = m->rank;
	if (m->rank == LATE)
		be_late(m, 1);
	if (m->rank == 1)
		team_expect(m, corale_send(data, LARGE, CORALE_INT32, to, m->comm, NULL), 0, "send");
	if (m->rank != 1)
		team_expect(m, corale_recv(data, LARGE, CORALE_INT32, from, m->comm, NULL), 0, "recv");
	if (m->rank == LATE)
		team_expect(m, corale_send(data, LARGE, CORALE_INT32, to, m->comm, NULL), 0, "send");
	if (data[0] != 1)
		team_fault(m, "received %d", (int)data[0]);
	team_barrier(m);
	if (m->rank == 0) {
		expect_lines(m, 0, "recv(count 4194304, int32, peer 2); it answers, but has not sent", 1);
		expect_lines(m, 1, "send(count 4194304, int32, peer 2); it answers, but has not sent", 1);
	}
	free(data);
}

/* ---- GPUs --------------------------------------------------------------------------------------------------- */

enum { ONE_END = 22 /* lines: words, and two messages of one with their headers and inline areas */ };

/* A communicator with what a CUDA one has of its own for other nodes. Its memory outlives the member, as the proxy's thread may use it. */
struct fake {
	struct comm *comm;
	struct remote remote;
	struct remote_progress *calls;
};

static void open_fake(struct team_member *m, struct fake *f, int moves)
{
	f->comm = comm_get(m->comm, "test");
	f->comm->gpu_journal = gpu_journal_create();
	f->remote =
	    (struct remote){ .slots = { [REMOTE_OF_PLANS] = { REMOTE_LINE, 2 } }, .peers = RANKS - 1 };
	f->remote.memory = calloc(1 + ONE_END, REMOTE_LINE);
	if (!f->comm->gpu_journal || !f->remote.memory || gpu_indices_open(f->comm))
		abort();
	f->calls = remote_progress_of(&f->remote);
	const struct proxy_params params = { .rails = { f->comm->engine.transport },
					     .nrails = 1,
					     .remote = f->remote,
					     .bytes = (1 + ONE_END) * REMOTE_LINE,
					     .ranks = f->comm->gpu_rank + 1,
					     .rank = m->rank };
	team_barrier(m);
	int ret = moves ? proxy_open(&params, &f->comm->proxy) : proxy_create(&params, &f->comm->proxy);
	team_expect(m, ret, 0, "a proxy");
	team_barrier(m);
}

static void close_fake(struct team_member *m, struct fake *f)
{
	struct transport *transport = f->comm->engine.transport;
	struct proxy *proxy = f->comm->proxy;
	team_barrier(m);
	proxy_stop(proxy, 1);
	watch_remove(f->comm); /* which looks at the transport */
	transport_close(transport);
	f->comm->engine.transport = NULL;
	f->comm->proxy = NULL;
	corale_comm_destroy(m->comm);
	m->comm = NULL;
	team_barrier(m);
	if (proxy_free(proxy))
		free(f->remote.memory);
	else
		team_fault(m, "the memory of messages is still in use when all have closed");
}

static void note_call(struct fake *f, struct call call)
{
	gpu_journal_add(f->comm->gpu_journal, &call, 1);
	if (!call_is_pair(&call))
		signature_next(f->comm, &call);
}

static const struct call reduction = { .record.coll = CORALE_ALL_REDUCE,
				       .record.count = COUNT,
				       .record.type = CORALE_INT32,
				       .record.op = CORALE_SUM };

/* Looks as the watch thread does until the rank has complained so often, and a while longer. */
static void look(struct team_member *m, struct fake *f, int lines)
{
	const double begin = clock_s();
	int64_t after_us = AFTER_US;
	while (after_us > 0 && clock_s() - begin < LIMIT_S) {
		team_expect(m, gpu_remote_look(f->comm), 0, "gpu_remote_look");
		after_us -= told(m->rank, "silent for") >= lines ? TICK_US : 0;
		usleep(TICK_US);
	}
	expect_lines(m, m->rank, "silent for", lines);
}

static void set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Rank 0's kernel waits. What keeps rank 1: nothing has been made, or the GPU is busy; or it is silent, and rank 2's kernel waits, too. */
static void gpu_case(struct team_member *m, struct call call, int called, int enqueued, int silent,
		     const char *text)
{
	struct fake f;
	open_fake(m, &f, m->rank != 1 || !silent);
	if (m->rank != 1 || called)
		note_call(&f, call);
	if (m->rank == 1 && enqueued)
		proxy_expect(f.comm->proxy);
	if (m->rank != 1)
		set(&f.calls->begun, 1);
	team_barrier(m);
	if (m->rank == 0) {
		look(m, &f, 1);
		expect_lines(m, 0, text, 1);
		expect_lines(m, 0, "rank 1 (process ", 1);
	}
	if (m->rank == 0 && silent) { /* it went on; then a stall of another call */
		set(&f.calls->ended, 1);
		team_expect(m, gpu_remote_look(f.comm), 0, "gpu_remote_look");
		set(&f.calls->begun, 2);
		look(m, &f, 2);
	}
	team_expect(m, corale_comm_async_error(m->comm), 0, "after silence");
	team_barrier(m);
	if (m->rank == 1 && enqueued)
		proxy_unexpect(f.comm->proxy, 0);
	set(&f.calls->ended, f.calls->begun);
	close_fake(m, &f);
}

static void gpu_silent(struct team_member *m)
{
	gpu_case(m, reduction, 1, 0, 1,
		 "all_reduce(count 8, int32, sum), call 1; it does not answer: its link is cut");
}

static void gpu_absent(struct team_member *m)
{
	gpu_case(m, reduction, 0, 0, 0, "it answers, but has not made the call");
}

static void gpu_busy(struct team_member *m)
{
	gpu_case(m, reduction, 1, 1, 0, "its GPU is busy");
}

static void gpu_idle(struct team_member *m)
{
	gpu_case(m, reduction, 1, 0, 0, "no call is under way on its GPU");
}

/* A receive from rank 1: rank 2 is idle, too, but nobody waits for it. */
static void gpu_pair(struct team_member *m)
{
	struct fake f;
	open_fake(m, &f, 1);
	if (m->rank == 0) {
		note_call(&f,
			  (struct call){ .record.coll = CORALE_RECV, .record.count = 1, .record.root = 1 });
		set(&f.calls->begun, 1);
		look(m, &f, 1);
		expect_lines(m, 0, "rank 1 (process ", 1);
		expect_lines(m, 0, "other rank", 0);
		set(&f.calls->ended, 1);
	}
	close_fake(m, &f);
}

/* The call is enqueued behind other work of this GPU: it waits for nobody. */
static void gpu_own_work(struct team_member *m)
{
	struct fake f;
	open_fake(m, &f, m->rank == 0);
	if (m->rank == 0) {
		note_call(&f, reduction);
		proxy_expect(f.comm->proxy);
		for (int i = 0; i < 3000000 / TICK_US; i++, usleep(TICK_US))
			team_expect(m, gpu_remote_look(f.comm), 0, "gpu_remote_look");
		expect_lines(m, 0, "silent for", 0);
		proxy_unexpect(f.comm->proxy, 0);
	}
	close_fake(m, &f);
}

/* What the transport refuses ends the call at once, by name, and is no silence. */
static void gpu_refused(struct team_member *m)
{
	struct fake f;
	open_fake(m, &f, 1);
	if (m->rank == 0) {
		const double begin = clock_s();
		int ret = 0;
		remote_offset offset;
		struct transport *transport = f.comm->engine.transport;
		note_call(&f, reduction);
		team_expect(m, proxy_open_end(f.comm->proxy, 0, REMOTE_IN, 0, &offset), 0, "proxy_open_end");
		(transport->ops->fail)(transport, CORALE_ENOMEM); /* cmocka has a macro of that name */
		set(&f.calls->begun, 1);
		while (!ret && clock_s() - begin < LIMIT_S) {
			usleep(TICK_US);
			ret = gpu_remote_look(f.comm);
		}
		team_expect(m, ret, CORALE_ETRANSPORT, "gpu_remote_look");
		expect_lines(m, 0, "inproc has refused or lost a message to or from rank ", 1);
		expect_lines(m, 0, "silent for", 0);
		set(&f.calls->ended, 1);
	}
	close_fake(m, &f);
}

static const struct {
	const char *name;
	void (*body)(struct team_member *m);
} cases[] = {
	{ "a rank that is stopped", stopped },
	{ "a rank that has not made the call", answering },
	{ "sends and receives", pairs },
	{ "GPUs: a rank that is stopped", gpu_silent },
	{ "GPUs: a rank that has not made the call", gpu_absent },
	{ "GPUs: a rank whose GPU is busy", gpu_busy },
	{ "GPUs: a rank that replays nothing", gpu_idle },
	{ "GPUs: a receive", gpu_pair },
	{ "GPUs: this rank's own work", gpu_own_work },
	{ "GPUs: a message that is refused", gpu_refused },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static int run_here(int i)
{
	snprintf(log_path, sizeof(log_path), "/tmp/corale_stall_test_%d", (int)getpid());
	unlink(log_path);
	setenv("CORALE_LOG_FILE", log_path, 1);
	int faults = team_run(RANKS, NULL, cases[i].body, NULL);
	if (faults)
		show_log();
	unlink(log_path);
	return faults != 0;
}

static void run_case(void **state)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", (int)(intptr_t)*state);
	assert_int_equal(team_spawn("CORALE_DEBUG=warn CORALE_NODE_SIZE=1", number), 0);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES];
	if (argc > 1)
		return run_here(atoi(argv[1]) % CASES);
	for (int i = 0; i < CASES; i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, run_case, NULL, NULL, (void *)(intptr_t)i };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
