/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports that run among threads of one process: every case, and for UCX every way of large messages. */
#include <pthread.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "base/settings.h"
#include "test/helpers/transport_cases.h"
#include "test/helpers/transport_inproc.h"
#include "net/ucx/transport_ucx.h"

enum { MAX_RANKS = 5 };

static struct settings settings;

/* Threads that gather like processes would. */
struct world {
	const struct transport_row *row;
	pthread_barrier_t barrier;
	unsigned char *gathered;
	int number; /* of the case */
	uint64_t comm_id;
};

static void barrier(struct cases_rank *me)
{
	pthread_barrier_wait(&((struct world *)me->world)->barrier);
}

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct cases_rank *me = ctx;
	struct world *w = me->world;

	if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		w->gathered = malloc(bytes * (size_t)me->size);
	barrier(me);
	memcpy(w->gathered + bytes * (size_t)me->rank, in, bytes);
	barrier(me);
	memcpy(out, w->gathered, bytes * (size_t)me->size);
	if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		free(w->gathered);
	return 0;
}

static void *run_rank(void *arg)
{
	static const unsigned char needed[MAX_RANKS] = { 1, 1, 1, 1, 1 };
	struct cases_rank *me = arg;
	struct world *w = me->world;
	const corale_bootstrap bootstrap = { me->rank, me->size, me, allgather };
	struct transport_params params = { .rank = me->rank,
					   .size = me->size,
					   .comm_id = w->comm_id,
					   .needed = needed,
					   .settings = &settings,
					   .slots = cases_slots(me),
					   .on_control = cases_on_control,
					   .on_failure = cases_on_failure,
					   .handler_ctx = me };
	if (transport_open(w->row, &params, &bootstrap, &me->t))
		abort();
	me->ops = me->t->ops;
	cases_run(w->number, me);
	transport_close(me->t);
	return NULL;
}

static void run(const struct transport_row *row, int number, int size)
{
	static uint64_t comm_ids = 1000;
	struct world w = { .row = row, .number = number, .comm_id = comm_ids++ };
	struct cases_rank ranks[MAX_RANKS];
	pthread_t threads[MAX_RANKS];

	memset(ranks, 0, sizeof(ranks));
	pthread_barrier_init(&w.barrier, NULL, (unsigned)size);
	for (int r = 0; r < size; r++) {
		ranks[r].rank = r;
		ranks[r].size = size;
		ranks[r].barrier = barrier;
		ranks[r].world = &w;
		assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
	}
	for (int r = 0; r < size; r++)
		pthread_join(threads[r], NULL);
	pthread_barrier_destroy(&w.barrier);
}

#ifdef __SANITIZE_ADDRESS__
const char *__lsan_default_suppressions(void);

/* The process's UCX worker lives until its end, with what UCX allocated for it. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libucs.so\n";
}
#endif

/* A transport, and for UCX the way of large messages. */
static const struct variant {
	const char *name;
	const struct transport_row *row;
	const char *message;
} variants[] = {
	{ "inproc", &transport_inproc, "auto" },       { "ucx by am", &transport_ucx, "am" },
	{ "ucx by tag", &transport_ucx, "tag" },       { "ucx by put", &transport_ucx, "put" },
	{ "ucx as measured", &transport_ucx, "auto" },
};

struct test {
	const struct variant *variant;
	int number;
	char name[80];
};

static void run_case(void **state)
{
	const struct test *test = *state;
	int ranks = cases_ranks(test->number);

	snprintf(settings.ucx_message, sizeof(settings.ucx_message), "%s", test->variant->message);
	if (ranks) {
		run(test->variant->row, test->number, ranks);
		return;
	}
	run(test->variant->row, test->number, 1);
	run(test->variant->row, test->number, 2);
	run(test->variant->row, test->number, MAX_RANKS);
}

/* Whoever reads the log at INFO sees to which networks the process is open. */
static void tells_devices(void **state)
{
	char path[] = "/tmp/transport_test.XXXXXX", line[1024];
	int told = 0, fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(settings.ucx_message, sizeof(settings.ucx_message), "am");
	log_open(LOG_INFO, path);
	run(&transport_ucx, 0, 2);
	log_open(LOG_WARN, NULL);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		told += strstr(line, "network devices ") != NULL;
	if (file)
		fclose(file);
	unlink(path);
	assert_int_equal(told, 2);
}

int main(int argc, char **argv)
{
	enum { MOST = 80, VARIANTS = sizeof(variants) / sizeof(variants[0]) };
	static struct test tests[MOST];
	static char *none[] = { NULL };
	struct CMUnitTest units[MOST] = { { 0 } }; /* cmocka passes over the rest */
	char why_not[200];
	int count = 0;

#ifdef __SANITIZE_THREAD__
	/* UCX's hooks of memory calls crash under this sanitizer; UCX reads its variables when it is loaded. */
	if (!getenv("UCX_MEM_EVENTS")) {
		setenv("UCX_MEM_EVENTS", "n", 1);
		setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
		execv("/proc/self/exe", argv);
	}
#endif
	if (settings_parse(none, &settings))
		return 1;
	for (int v = 0; v < VARIANTS; v++) {
		for (int i = 0; i < cases_count() && count < MOST; i++) {
			if (!variants[v].row->probe(variants[v].row, 0, why_not, sizeof(why_not)))
				break;
			struct test *test = &tests[count];
			test->variant = &variants[v];
			test->number = i;
			snprintf(test->name, sizeof(test->name), "%s: %s", variants[v].name, cases_name(i));
			units[count++] = (struct CMUnitTest){ .name = test->name,
							      .test_func = run_case,
							      .initial_state = test };
		}
	}
	if (transport_ucx.probe(&transport_ucx, 0, why_not, sizeof(why_not)))
		units[count] = (struct CMUnitTest)cmocka_unit_test(tells_devices);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(units, NULL, NULL);
}
