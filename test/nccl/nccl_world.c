/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs ranks of the NCCL door as processes or threads, each case in processes of its own and under a deadline. */
#include "test/helpers/unit.h"
#include "nccl_world.h"
#include "test/helpers/late.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/reference.h"

enum { MAX_PRINTED = 12, MAX_CASES = 40, DEADLINE_S = 100, AWAIT_S = 20 };

/* ---- What ranks use ---- */

void world_barrier(struct world_rank *me)
{
	pthread_barrier_wait(&me->world->barrier);
}

void world_await(struct world_rank *me, int flag, int value)
{
	const double until = clock_s() + AWAIT_S;
	while (atomic_load(&me->world->flags[flag]) < value && clock_s() < until)
		clock_sleep_ms(1);
	if (atomic_load(&me->world->flags[flag]) < value)
		world_fault(me, "flag %d did not become %d", flag, value);
}

void world_fault(struct world_rank *me, const char *format, ...)
{
	char text[1600];
	va_list args;
	atomic_fetch_add(&me->world->faults, 1);
	if (atomic_fetch_add(&me->world->printed, 1) >= MAX_PRINTED)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "# rank %d of %d: %s\n", me->rank, me->size, text);
}

void world_expect(struct world_rank *me, ncclResult_t got, ncclResult_t expected, const char *what)
{
	if (got != expected)
		world_fault(me, "%s: got %d, expected %d; last error: %s", what, (int)got, (int)expected,
			    ncclGetLastError(NULL));
}

void world_expect_text(struct world_rank *me, const char *text, const char *what)
{
	if (me->world->threads && me->size > 1)
		return; /* the text is the process's: another rank's may have followed */
	if (!strstr(ncclGetLastError(NULL), text))
		world_fault(me, "%s: the last error lacks '%s': %s", what, text, ncclGetLastError(NULL));
}

void world_id(struct world_rank *me, int id)
{
	if (me->rank == 0)
		WORLD_OK(me, ncclGetUniqueId(&me->world->ids[id]));
	world_barrier(me);
}

ncclComm_t world_comm(struct world_rank *me, int id)
{
	ncclComm_t comm = NULL;
	world_id(me, id);
	WORLD_OK(me, ncclCommInitRank(&comm, me->size, me->world->ids[id], me->rank));
	return comm;
}

void world_check(struct world_rank *me, ncclComm_t comm, const char *what)
{
	int size = 0, rank = -1;
	WORLD_OK(me, ncclCommCount(comm, &size));
	WORLD_OK(me, ncclCommUserRank(comm, &rank));
	int64_t mine[3] = { rank + 1, -rank, 5 }, sum[3] = { 0 };
	world_expect(me, ncclAllReduce(mine, sum, 3, ncclInt64, ncclSum, comm, NULL), ncclSuccess, what);
	if (sum[0] != (int64_t)size * (size + 1) / 2 || sum[1] != -(int64_t)size * (size - 1) / 2 ||
	    sum[2] != 5 * (int64_t)size)
		world_fault(me, "%s: wrong sums %lld %lld %lld of %d ranks", what, (long long)sum[0],
			    (long long)sum[1], (long long)sum[2], size);
}

uint32_t world_random(struct world_rank *me)
{
	me->seed = me->seed * 1664525u + 1013904223u;
	return me->seed >> 8;
}

/* ---- Names ---- */

corale_type world_type(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
		return CORALE_INT8;
	case ncclUint8:
		return CORALE_UINT8;
	case ncclInt32:
		return CORALE_INT32;
	case ncclUint32:
		return CORALE_UINT32;
	case ncclInt64:
		return CORALE_INT64;
	case ncclUint64:
		return CORALE_UINT64;
	case ncclFloat16:
		return CORALE_FLOAT16;
	case ncclFloat32:
		return CORALE_FLOAT32;
	case ncclFloat64:
		return CORALE_FLOAT64;
	case ncclBfloat16:
		return CORALE_BFLOAT16;
	case ncclFloat8e4m3:
		return CORALE_FLOAT8_E4M3;
	case ncclFloat8e5m2:
		return CORALE_FLOAT8_E5M2;
	default:
		abort();
	}
}

corale_op world_op(int op)
{
	switch (op) {
	case ncclSum:
		return CORALE_SUM;
	case ncclProd:
		return CORALE_PROD;
	case ncclMax:
		return CORALE_MAX;
	case ncclMin:
		return CORALE_MIN;
	case ncclAvg:
		return CORALE_AVG;
	default:
		return CORALE_NUM_OPS;
	}
}

const char *world_type_name(ncclDataType_t type)
{
	static const char *const names[] = { "int8",    "uint8",    "int32",      "uint32",
					     "int64",   "uint64",   "float16",    "float32",
					     "float64", "bfloat16", "float8e4m3", "float8e5m2" };
	return names[type];
}

/* ---- One case ---- */

static void set_environment(const char *settings)
{
	char *copy = strdup(settings ? settings : ""), *rest;
	setenv("CORALE_NCCL_DEVICE", "host", 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	setenv("CORALE_NCCL_TIMEOUT", "60", 1);
	setenv("CORALE_NCCL_INIT_TIMEOUT", "60", 1);
	setenv("CORALE_DEBUG", "none", 0); /* most cases make errors */
	for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
		char *equals = strchr(word, '=');
		*equals = '\0';
		setenv(word, equals + 1, 1);
	}
	free(copy);
}

struct world_thread {
	pthread_t thread;
	struct world_rank me;
	const struct world_case *c;
};

static void *run_thread(void *arg)
{
	struct world_thread *t = arg;
	t->c->body(&t->me);
	return NULL;
}

static void run_threads(struct world *world, const struct world_case *c)
{
	struct world_thread threads[WORLD_RANKS];
	for (int r = 0; r < c->ranks; r++) {
		threads[r] = (struct world_thread){ .me = { world, r, c->ranks, NULL, (unsigned)r * 77u + 1 },
						    .c = c };
		if (pthread_create(&threads[r].thread, NULL, run_thread, &threads[r]))
			abort();
	}
	for (int r = 0; r < c->ranks; r++)
		pthread_join(threads[r].thread, NULL);
}

static void run_rank(struct world *world, const struct world_case *c, int rank)
{
	struct world_rank me = { world, rank, c->ranks, NULL, (unsigned)rank * 77u + 1 };
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left when the test is killed */
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		signal(signals[i], SIG_DFL); /* cmocka's would go on with its next test in this process */
	set_environment(c->settings);
	if (world->threads)
		run_threads(world, c);
	else
		c->body(&me);
	exit(0);
}

static struct world *open_world(int size, int threads)
{
	pthread_barrierattr_t attributes;
	struct world *world =
	    mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (world == MAP_FAILED)
		abort();
	world->size = size;
	world->threads = threads;
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&world->barrier, &attributes, (unsigned)size);
	pthread_barrierattr_destroy(&attributes);
	return world;
}

/* How a process ended that had to end well. */
static void judge(struct world *world, const struct world_case *c, int rank, int status)
{
	struct world_rank me = { world, rank, c->ranks, NULL, 0 };
	if (!c->may_die && status)
		world_fault(&me, "the process ended with status 0x%x", (unsigned)status);
}

static void wait_for_all(struct world *world, const struct world_case *c, int n)
{
	const double until = clock_s() + DEADLINE_S;
	int left = n;
	while (left > 0) {
		for (int r = 0, status; r < n; r++) {
			if (!world->pids[r] || waitpid(world->pids[r], &status, WNOHANG) != world->pids[r])
				continue;
			judge(world, c, r, status);
			world->pids[r] = 0;
			left--;
		}
		if (left && clock_s() > until)
			break;
		clock_sleep_ms(1);
	}
	for (int r = 0; left > 0 && r < n; r++) {
		if (!world->pids[r])
			continue;
		struct world_rank me = { world, r, n, NULL, 0 };
		world_late(&me, "still runs after %d s", DEADLINE_S);
		kill(world->pids[r], SIGKILL);
		waitpid(world->pids[r], NULL, 0);
	}
}

static int run_case(const struct world_case *c, int threads)
{
	struct world *world = open_world(c->ranks, threads);
	const int n = threads ? 1 : c->ranks;
	const double start = clock_s();
	fflush(NULL);
	for (int r = 0; r < n; r++) {
		const pid_t child = fork();
		if (!child)
			run_rank(world, c, r);
		if (child < 0)
			abort();
		world->pids[r] = child; /* by one writer: the memory is the child's too */
	}
	wait_for_all(world, c, n);
	fprintf(stderr, "# %s: %s, %.1f s\n", c->name, threads ? "threads" : "processes", clock_s() - start);
	const int faults = atomic_load(&world->faults);
	late_tell(faults, atomic_load(&world->late));
	munmap(world, sizeof *world);
	return faults;
}

static int run_kinds(const struct world_case *c)
{
	int faults = 0;
	if (c->kinds & WORLD_PROCESSES)
		faults += run_case(c, 0);
	if (c->kinds & WORLD_THREADS)
		faults += run_case(c, 1);
	return faults;
}

static void run_one_test(void **state)
{
	assert_int_equal(run_kinds(*state), 0);
}

int world_main(int argc, char **argv, const struct world_case *cases, int n)
{
	struct CMUnitTest tests[MAX_CASES];
	if (argc > 1)
		return run_kinds(&cases[atoi(argv[1]) % n]) != 0;
	for (int i = 0; i < n; i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, run_one_test, NULL, NULL,
						(void *)(uintptr_t)&cases[i] };
	return _cmocka_run_group_tests("tests", tests, (size_t)n, NULL, NULL);
}
