/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that leave a communicator over nodes by destroy, exit, abort, revoke or death, as processes of one host that CORALE_NODE_SIZE divides: calls that do
 * not need them go on, the others fail, name them and say how they left. Ranks leave quietly, as those of the NCCL interface do; "loud": as of corale.h.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "base/settings.h"
#include "comm/comm_create.h"
#include "comm/comm_doors.h"
#include "health/presence.h"
#include "test/helpers/busy.h"
#include "test/helpers/forked.h"

enum { RANKS = 4, LEAVER = 1, LIMIT_MS = 2000, SETTLE_MS = 200, LARGE = 3 << 20 };

enum leaving { DESTROYS, EXITS, ABORTS, REVOKES, IS_KILLED };

struct scene {
	const char *name;
	enum leaving how;
	int node_size, loud;
	const char *word; /* in the error line of a call that needs the rank */
};

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	const struct forked *r = ctx;
	return forked_gather(r->sockets, r->rank, r->size, in, bytes, out);
}

static corale_comm *join(struct forked *r, int loud)
{
	const corale_bootstrap bootstrap = {
		.rank = r->rank, .size = r->size, .ctx = r, .allgather = allgather
	};
	const struct comm_traits traits = { .leaves_quietly = !loud };
	corale_comm *comm = NULL;
	const int ret = corale_private_comm_create(&bootstrap, NULL, NULL, &traits, NULL, NULL, &comm);
	if (ret)
		forked_fault(r, "creation: %s", corale_strerror(ret));
	return comm;
}

static int reduce(corale_comm *comm)
{
	int32_t mine = 1, sum = 0;
	return corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
}

static void expect(struct forked *r, corale_comm *comm, int got, int expected, const char *what)
{
	if (got != expected)
		forked_fault(r, "%s: %s, expected %s; last error: %s", what, corale_strerror(got),
			     corale_strerror(expected), corale_comm_last_error(comm));
}

/* Those that are left send to each other, in a ring, small messages and large ones. */
static void exchange_without(struct forked *r, corale_comm *comm)
{
	static unsigned char out[LARGE], in[LARGE];
	const int next = (r->rank + 1) % RANKS == LEAVER ? LEAVER + 1 : (r->rank + 1) % RANKS,
		  before =
		      (r->rank + RANKS - 1) % RANKS == LEAVER ? LEAVER - 1 : (r->rank + RANKS - 1) % RANKS;
	for (int i = 0; i < 6; i++) {
		const size_t bytes = i % 2 ? LARGE : 8;
		memset(out, 16 * i + r->rank, bytes);
		corale_group_begin();
		corale_send(out, bytes, CORALE_UINT8, next, comm, NULL);
		corale_recv(in, bytes, CORALE_UINT8, before, comm, NULL);
		expect(r, comm, corale_group_end(), 0, "an exchange without the rank that left");
		if (in[0] != 16 * i + before || in[bytes - 1] != 16 * i + before)
			forked_fault(r, "rank %d sent %d", before, in[0]);
	}
}

static int process_stays(enum leaving how)
{
	return how != EXITS && how != IS_KILLED;
}

/* A process that stays does so until all others have looked at what they see of it. */
static void await_others(struct forked *r, enum leaving how)
{
	const char mine = 0;
	char all[RANKS];
	if (process_stays(how) && forked_gather(r->sockets, r->rank, RANKS, &mine, 1, all))
		forked_fault(r, "the ranks do not meet");
}

static void leave(struct forked *r, corale_comm *comm, enum leaving how)
{
	switch (how) {
	case DESTROYS:
		corale_comm_destroy(comm);
		break;
	case EXITS:
		exit(0);
	case ABORTS:
		comm_quit(comm);
		break;
	case REVOKES:
		comm_revoke(comm);
		break;
	default:
		kill(getpid(), SIGKILL);
	}
	await_others(r, how);
}

/* The first call that needs the rank, then all others. */
static void call_in_vain(struct forked *r, corale_comm *comm, const char *word)
{
	const int64_t start = clock_ns();
	expect(r, comm, reduce(comm), CORALE_EPEER, "a call that needs the rank");
	const double ms = (double)(clock_ns() - start) * 1e-6;
	const char *text = corale_comm_last_error(comm);
	if (!strstr(text, "rank 1") || !strstr(text, word))
		forked_fault(r, "\"%s\" should name rank 1 and \"%s\"", text, word);
	if (ms > LIMIT_MS * busy_times())
		forked_late(r, "the call failed after %.0f ms", ms);
	expect(r, comm, reduce(comm), CORALE_ECOMM, "the next call");
}

static int play(struct forked *r)
{
	const struct scene *s = r->arg;
	corale_comm *comm = join(r, s->loud);
	if (!comm)
		return 1;
	expect(r, comm, reduce(comm), 0, "a call of all");
	if (r->rank == LEAVER) {
		clock_sleep_ms(s->loud ? SETTLE_MS
				       : 0); /* a loud end ends calls of others, the last one too */
		leave(r, comm, s->how);
		return r->faults;
	}
	clock_sleep_ms(2 * SETTLE_MS);
	const int ends_at_once = s->loud && s->how >= EXITS;
	if (!ends_at_once)
		expect(r, comm, corale_comm_async_error(comm), 0, "when a rank has left");
	if (!ends_at_once)
		exchange_without(r, comm);
	if (ends_at_once)
		expect(r, comm, corale_comm_async_error(comm), CORALE_EPEER, "when a rank has failed");
	else
		call_in_vain(r, comm, s->word);
	if (ends_at_once && !strstr(corale_comm_last_error(comm), s->word))
		forked_fault(r, "\"%s\" should say \"%s\"", corale_comm_last_error(comm), s->word);
	await_others(r, s->how);
	corale_comm_destroy(comm);
	return r->faults;
}

/* The first call that fails is a collective, or a receive. */
static int fails_in_pairs;

static int needs_leaver(corale_comm *comm)
{
	char byte;
	return fails_in_pairs ? corale_recv(&byte, 1, CORALE_UINT8, LEAVER, comm, NULL) : reduce(comm);
}

/*
 * Rank 0 fails in a call that needs the rank that left, while others have not made the calls before it: these end well, though the ranks have been told when
 * they make them.
 */
static int fail_early(struct forked *r)
{
	enum { COUNT = 1000 };
	const struct scene *s = r->arg;
	corale_comm *comm = join(r, s->loud);
	int32_t mine[COUNT] = { r->rank, 7 }, got[COUNT] = { 0 };
	if (!comm)
		return 1;
	expect(r, comm, reduce(comm), 0, "a call of all");
	if (r->rank > LEAVER)
		clock_sleep_ms(2 * SETTLE_MS * r->rank);
	expect(r, comm, corale_broadcast(mine, got, COUNT, CORALE_INT32, 0, comm, NULL), 0,
	       "a collective before the call that fails");
	if (got[0] != 0 || got[1] != 7)
		forked_fault(r, "the broadcast brought %d, %d", (int)got[0], (int)got[1]);
	if (r->rank == LEAVER) {
		leave(r, comm, s->how);
	} else {
		if (r->rank == 0)
			expect(r, comm, corale_send(mine, COUNT, CORALE_INT32, RANKS - 1, comm, NULL), 0,
			       "a send before the call that fails");
		if (r->rank == RANKS - 1)
			expect(r, comm, corale_recv(got, COUNT, CORALE_INT32, 0, comm, NULL), 0,
			       "a receive before the call that fails");
		expect(r, comm, needs_leaver(comm), CORALE_EPEER, "a call that needs the rank");
		if (!strstr(corale_comm_last_error(comm), "rank 1") ||
		    !strstr(corale_comm_last_error(comm), s->word))
			forked_fault(r, "\"%s\" should name rank 1 and \"%s\"", corale_comm_last_error(comm),
				     s->word);
		await_others(r, s->how);
	}
	corale_comm_destroy(comm);
	return r->faults;
}

/* Two ranks have never met; one of them has left when the other one first waits for it. */
static int leave_unmet(struct forked *r)
{
	const struct scene *s = r->arg;
	corale_comm *comm = join(r, s->loud);
	char byte;
	if (!comm)
		return 1;
	if (r->rank == LEAVER) {
		leave(r, comm, s->how);
		return r->faults;
	}
	clock_sleep_ms(SETTLE_MS);
	const int64_t start = clock_ns();
	if (r->rank == RANKS - 1)
		expect(r, comm, corale_recv(&byte, 1, CORALE_UINT8, LEAVER, comm, NULL), CORALE_EPEER,
		       "a receive from a rank that left");
	const double ms = (double)(clock_ns() - start) * 1e-6;
	const char *text = corale_comm_last_error(comm);
	const char *word =
	    process_stays(s->how) ? s->word : "has died, or its node or link is lost"; /* it can't say more */
	if (r->rank == RANKS - 1 && (!strstr(text, "waits for rank 1") || !strstr(text, word)))
		forked_fault(r, "\"%s\" should name rank 1 and \"%s\"", text, word);
	if (ms > LIMIT_MS * busy_times())
		forked_late(r, "the call failed after %.0f ms", ms);
	if (process_stays(s->how))
		await_others(r, s->how);
	else
		clock_sleep_ms(LIMIT_MS);
	corale_comm_destroy(comm);
	return r->faults;
}

/* Everybody exits without destroy behind a last call, in which a large message leaves the process late. */
static int exit_all(struct forked *r)
{
	static int32_t mine[LARGE], sum[LARGE];
	corale_comm *comm = join(r, 0);
	for (int i = 0; comm && i < 5; i++)
		expect(r, comm, reduce(comm), 0, "a call");
	for (int i = 0; i < LARGE; i++)
		mine[i] = r->rank + i;
	if (comm)
		expect(r, comm, corale_broadcast(mine, sum, LARGE, CORALE_INT32, 0, comm, NULL), 0,
		       "the last call");
	for (int i = 0; i < LARGE; i++)
		if (sum[i] != i) {
			forked_fault(r, "element %d is %d", i, (int)sum[i]);
			break;
		}
	exit(r->faults);
}

/* The root of a last broadcast ends at once, although the others make it later. */
static int root_ends_first(struct forked *r)
{
	enum { AT_ONCE_MS = 500, LATE_MS = 1000 };
	int32_t data = r->rank ? 0 : 7;
	corale_comm *comm = join(r, 0);
	if (comm)
		expect(r, comm, reduce(comm), 0, "a call");
	clock_sleep_ms(r->rank ? LATE_MS : 0);
	const int64_t start = clock_ns();
	if (comm)
		expect(r, comm, corale_broadcast(&data, &data, 1, CORALE_INT32, 0, comm, NULL), 0,
		       "the last broadcast");
	corale_comm_destroy(comm);
	const double ms = (double)(clock_ns() - start) * 1e-6;
	if (data != 7)
		forked_fault(r, "got %d", (int)data);
	if (!r->rank && ms > AT_ONCE_MS * busy_times())
		forked_late(r, "the end took %.0f ms", ms);
	clock_sleep_ms(r->rank ? 0 : 2 * LATE_MS); /* the process stays */
	return r->faults;
}

/* ---- How a rank left is heard behind all else ---- */

static int late_ms;

struct told {
	struct comm *comm;
	int rank;
	enum window_left how;
};

void __real_presence_told(struct comm *comm, int rank, enum window_left how);
void __wrap_presence_told(struct comm *comm, int rank, enum window_left how);

static void *tell_late(void *arg)
{
	const struct told told = *(struct told *)arg;
	free(arg);
	clock_sleep_ms(late_ms);
	__real_presence_told(told.comm, told.rank, told.how);
	return NULL;
}

/* In front of the library's. */
void __wrap_presence_told(struct comm *comm, int rank, enum window_left how)
{
	pthread_t thread;
	struct told *told = late_ms ? malloc(sizeof *told) : NULL;
	if (!told) {
		__real_presence_told(comm, rank, how);
		return;
	}
	*told = (struct told){ comm, rank, how };
	if (pthread_create(&thread, NULL, tell_late, told))
		abort();
	pthread_detach(thread);
}

/* One rank hears it last, to which others tell that the communicator ends; loud: all do. */
static int hear_late(struct forked *r)
{
	enum { LATE_MS = 150 };
	const struct scene *s = r->arg;
	corale_comm *comm = join(r, s->loud);
	if (!comm)
		return 1;
	expect(r, comm, reduce(comm), 0, "a call of all");
	if (r->rank == LEAVER) {
		clock_sleep_ms(SETTLE_MS);
		leave(r, comm, s->how);
		return r->faults;
	}
	late_ms = s->loud || r->rank == 0 ? LATE_MS : 0;
	call_in_vain(r, comm, s->word);
	await_others(r, s->how);
	clock_sleep_ms(2 * LATE_MS);
	corale_comm_destroy(comm);
	return r->faults;
}

static const struct scene scenes[] = {
	{ "destroy", DESTROYS, 1, 0, "has destroyed the communicator" },
	{ "exit", EXITS, 1, 0, "has called exit()" },
	{ "abort", ABORTS, 1, 0, "has aborted the communicator" },
	{ "abort, nodes of 2", ABORTS, 2, 0, "has aborted the communicator" },
	{ "revoke", REVOKES, 1, 0, "has revoked the communicator" },
	{ "killed", IS_KILLED, 1, 0, "has died, or its node or link is lost" },
	{ "destroy, nodes of 2", DESTROYS, 2, 0, "has destroyed the communicator" },
	{ "exit, nodes of 2", EXITS, 2, 0, "has called exit()" },
	{ "killed, nodes of 2", IS_KILLED, 2, 0, "has died" },
	{ "destroy, loud", DESTROYS, 1, 1, "has destroyed the communicator" },
	{ "exit, loud", EXITS, 1, 1, "has called exit() without corale_comm_destroy" },
	{ "killed, loud", IS_KILLED, 1, 1, "has died, or its node or link is lost" },
};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* Settings are read once a process, so each scene has one of its own. */
static int apart(int (*body)(struct forked *r), const struct scene *s)
{
	int status;
	const int victim = s->how == IS_KILLED ? LEAVER : FORKED_NOBODY;
	const pid_t child = fork();
	if (child == 0) {
		setenv("CORALE_DEBUG", "none", 0);
		setenv("CORALE_NODE_SIZE", s->node_size == 1 ? "1" : "2", 1);
		if (body == leave_unmet) /* a creation that times links makes connections */
			setenv("CORALE_NET_RATES", "built-in", 1);
		exit(forked_run(RANKS, victim, body, s) != 0);
	}
	return waitpid(child, &status, 0) != child || status;
}

static void run_scene(void **state)
{
	assert_int_equal(apart(play, *state), 0);
}

static void run_fail_early(void **state)
{
	for (int i = 0; i < SCENES; i++)
		for (fails_in_pairs = 0; fails_in_pairs < 2; fails_in_pairs++)
			if (scenes[i].how == ABORTS)
				assert_int_equal(apart(fail_early, &scenes[i]), 0);
}

static void run_unmet(void **state)
{
	for (int i = 0; i < SCENES; i++)
		if (scenes[i].node_size == 1 && !scenes[i].loud)
			assert_int_equal(apart(leave_unmet, &scenes[i]), 0);
}

static void run_exit_all(void **state)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(apart(exit_all, &scenes[i % 2 ? 6 : 1]), 0);
}

/* Messages go as between nodes of one host that share memory; its connection for notes says that a rank has died. */
static void run_killed_sharing(void **state)
{
	const char *tls = getenv("UCX_TLS");
	setenv("UCX_TLS", "posix,cma,tcp,self", 0);
	for (int i = 0; i < SCENES; i++)
		if (scenes[i].how == IS_KILLED || scenes[i].how == DESTROYS)
			assert_int_equal(apart(play, &scenes[i]), 0);
	if (!tls)
		unsetenv("UCX_TLS");
}

static void run_root_ends_first(void **state)
{
	assert_int_equal(apart(root_ends_first, &scenes[0]), 0);
}

static void run_hear_late(void **state)
{
	for (int i = 0; i < SCENES; i++)
		if (scenes[i].how == DESTROYS)
			assert_int_equal(apart(hear_late, &scenes[i]), 0);
}

static int has_network(void)
{
	int status;
	const pid_t child = fork();
	if (child == 0) {
		const struct settings *settings;
		_exit(settings_get(&settings) || !forked_has_ucx());
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* leaving_test [NAME]: the cases of this name only; it may have * and ?. */
int main(int argc, char **argv)
{
	enum { OTHERS = 6 };
	struct CMUnitTest tests[SCENES + OTHERS] = {
		{ "all exit", run_exit_all, NULL, NULL, NULL },
		{ "a call fails before others have made those before it", run_fail_early, NULL, NULL, NULL },
		{ "ranks that have not met", run_unmet, NULL, NULL, NULL },
		{ "killed, with shared memory", run_killed_sharing, NULL, NULL, NULL },
		{ "the root ends first", run_root_ends_first, NULL, NULL, NULL },
		{ "how a rank left is heard late", run_hear_late, NULL, NULL, NULL },
	};
	if (!has_network()) {
		printf("1..0 # SKIP there is no UCX in this build\n");
		return 0;
	}
	for (int i = 0; i < SCENES; i++)
		tests[i + OTHERS] = (struct CMUnitTest){ scenes[i].name, run_scene, NULL, NULL,
							 (void *)(uintptr_t)&scenes[i] };
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("tests", tests, SCENES + OTHERS, NULL, NULL);
}
