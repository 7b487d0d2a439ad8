/* The bootstrap over TCP: groups of threads and processes; what is refused; strangers; ranks that die, are late or leave. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/wait.h"
#include "boot/boot_tcp.h"
#include "boot/boot_wire.h"
#include "corale.h"

enum { MOST = 64, TEXT = 640 };

/* Tests that fork come first in the table; the thread sanitizer allows no threads in a child of a process with threads. */
#ifdef __SANITIZE_THREAD__
enum { FORKS_WITH_THREADS = 0 };
#else
enum { FORKS_WITH_THREADS = 1 };
#endif

struct rank {
	unsigned char id[BOOT_ID_BYTES];
	int rank, size, result;
	struct boot_options options;
	double delay;
	int rounds; /* all-gathers */
	size_t bytes;
	char text[TEXT]; /* the last error */
};

static void nap(double s)
{
	struct timespec t = { .tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9) };
	nanosleep(&t, NULL);
}

static double seconds(void)
{
	return (double)wait_now_ns() / 1e9;
}

static const struct boot_options on_lo = { .ifname = "=lo", .family = 4, .timeout_s = 20 };

static void make_id(unsigned char id[BOOT_ID_BYTES])
{
	assert_int_equal(boot_id_create(&on_lo, id), 0);
}

/* size ranks of a new group. */
static void make_ranks(struct rank *r, int size)
{
	memset(r, 0, (size_t)size * sizeof(*r));
	make_id(r[0].id);
	for (int i = 0; i < size; i++) {
		memcpy(r[i].id, r[0].id, BOOT_ID_BYTES);
		r[i].rank = i;
		r[i].size = size;
		r[i].options = on_lo;
		r[i].rounds = 2;
		r[i].bytes = 24;
	}
}

static unsigned char content(int rank, int round, size_t at)
{
	return (unsigned char)(rank * 37 + round * 11 + (int)(at * 7 % 251));
}

/* One all-gather with known content: 0, an error, or CORALE_EINTERNAL if something else arrived. */
static int gather(struct boot *b, int round, size_t bytes)
{
	size_t size = (size_t)b->size;
	unsigned char *in = malloc(bytes + 1), *out = malloc(bytes * size + 1);
	for (size_t i = 0; i < bytes; i++)
		in[i] = content(b->rank, round, i);
	memset(out, 0xee, bytes * size + 1);
	int ret = boot_allgather(b, bytes ? in : NULL, bytes, bytes ? out : NULL),
	    wrong = out[bytes * size] != 0xee;
	for (int r = 0; !ret && r < b->size; r++)
		for (size_t i = 0; i < bytes; i++)
			wrong |= out[(size_t)r * bytes + i] != content(r, round, i);
	free(in);
	free(out);
	return !ret && wrong ? CORALE_EINTERNAL : ret;
}

static void keep_text(struct rank *r)
{
	snprintf(r->text, sizeof(r->text), "%s", r->result ? log_last_error() : "");
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	struct boot *b;
	nap(r->delay);
	r->result = boot_tcp_open(r->id, r->rank, r->size, &r->options, &b);
	if (r->result) {
		keep_text(r);
		return NULL;
	}
	for (int i = 0; !r->result && i < r->rounds; i++)
		r->result = gather(b, i, r->bytes);
	keep_text(r);
	b->ops->close(b);
	return NULL;
}

static void run(struct rank *r, int n)
{
	pthread_t threads[MOST];
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &r[i]), 0);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void expect_all(const struct rank *r, int n, int result, const char *part)
{
	for (int i = 0; i < n; i++) {
		if (r[i].result != result || !strstr(r[i].text, part))
			print_message("rank %d: %d '%s', expected %d '%s'\n", r[i].rank, r[i].result,
				      r[i].text, result, part);
		assert_int_equal(r[i].result, result);
		assert_non_null(strstr(r[i].text, part));
	}
}

/* ---- Processes */

static pid_t maker_pid;
static int maker_pipe[2];

/* A process that makes an id and is no rank. */
static void start_maker(unsigned char id[BOOT_ID_BYTES])
{
	int pipe_out[2];
	assert_int_equal(pipe(pipe_out) | pipe(maker_pipe), 0);
	maker_pid = fork();
	if (maker_pid == 0) {
		char end;
		close(maker_pipe[1]);
		if (boot_id_create(&on_lo, id) || write(pipe_out[1], id, BOOT_ID_BYTES) != BOOT_ID_BYTES)
			_exit(1);
		_exit(read(maker_pipe[0], &end, 1) < 0); /* until the other end is closed */
	}
	close(pipe_out[1]);
	assert_int_equal(read(pipe_out[0], id, BOOT_ID_BYTES), BOOT_ID_BYTES);
	close(pipe_out[0]);
	close(maker_pipe[0]);
}

static void stop_maker(void)
{
	int status;
	close(maker_pipe[1]);
	waitpid(maker_pid, &status, 0);
	assert_int_equal(status, 0);
}

/* In a child: writes its result to a pipe. */
static pid_t fork_rank(struct rank *r, int to, void *(*work)(void *))
{
	pid_t pid = fork();
	if (pid)
		return pid;
	close(maker_pipe[1]);
	work(r);
	_exit(write(to, r, sizeof(*r)) != sizeof(*r));
}

/* Takes the results of n processes, by rank. */
static void take_results(struct rank *r, int from, int n)
{
	struct rank one;
	for (int i = 0; i < n; i++) {
		assert_int_equal(read(from, &one, sizeof(one)), sizeof(one));
		r[one.rank] = one;
	}
}

static void prepare_processes(struct rank *r, int size)
{
	memset(r, 0, (size_t)size * sizeof(*r));
	start_maker(r[0].id);
	for (int i = 0; i < size; i++) {
		r[i] = r[0];
		r[i].rank = i;
		r[i].size = size;
		r[i].options = on_lo;
		r[i].rounds = 3;
		r[i].bytes = 100;
	}
}

static void wait_for(pid_t pid, int expected)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, expected);
}

static void test_processes(void **state)
{
	(void)state;
	struct rank r[8];
	pid_t pids[8];
	int results[2];
	prepare_processes(r, 8);
	assert_int_equal(pipe(results), 0);
	for (int i = 0; i < 8; i++)
		pids[i] = fork_rank(&r[i], results[1], rank_main);
	take_results(r, results[0], 8);
	for (int i = 0; i < 8; i++)
		wait_for(pids[i], 0);
	expect_all(r, 8, 0, "");
	close(results[0]);
	close(results[1]);
	stop_maker();
}

/* Dies in between two all-gathers. */
static void *dying_main(void *arg)
{
	struct rank *r = arg;
	struct boot *b;
	if (!boot_tcp_open(r->id, r->rank, r->size, &r->options, &b) && !gather(b, 0, r->bytes))
		kill(getpid(), SIGKILL);
	return NULL;
}

static void test_death(void **state)
{
	(void)state;
	struct rank r[4];
	pid_t pids[4];
	int results[2];
	char expected[64];
	prepare_processes(r, 4);
	assert_int_equal(pipe(results), 0);
	double start = seconds();
	for (int i = 0; i < 4; i++)
		pids[i] = fork_rank(&r[i], results[1], i == 2 ? dying_main : rank_main);
	r[2] = r[3];
	struct rank got[4];
	take_results(got, results[0], 3);
	got[2] = got[3];
	snprintf(expected, sizeof(expected), "rank 2 (process %d on ", (int)pids[2]);
	for (int i = 0; i < 4; i++)
		wait_for(pids[i], i == 2 ? SIGKILL : 0);
	expect_all(got, 4, CORALE_EPEER, expected);
	assert_true(seconds() - start < 5);
	close(results[0]);
	close(results[1]);
	stop_maker();
}

/* The process that relays is the one that dies. */
static void test_maker_dies(void **state)
{
	(void)state;
	struct rank r[2];
	pid_t pid;
	int results[2];
	char expected[64];
	prepare_processes(r, 2);
	assert_int_equal(pipe(results), 0);
	pid = fork_rank(&r[1], results[1], rank_main); /* rank 0 never comes */
	nap(0.3);
	kill(maker_pid, SIGKILL);
	wait_for(maker_pid, SIGKILL);
	assert_int_equal(read(results[0], &r[1], sizeof(r[1])), sizeof(r[1]));
	wait_for(pid, 0);
	snprintf(expected, sizeof(expected), "process %d on ", (int)maker_pid);
	expect_all(&r[1], 1, CORALE_EPEER, expected);
	close(maker_pipe[1]);
	close(results[0]);
	close(results[1]);
}

static void test_stale_process(void **state)
{
	(void)state;
	struct rank r = { .size = 2, .options = on_lo };
	int results[2];
	start_maker(r.id);
	stop_maker();
	r.options.timeout_s = 2;
	r.rounds = 1;
	assert_int_equal(pipe(results), 0);
	pid_t pid = fork_rank(&r, results[1], rank_main);
	take_results(&r, results[0], 1);
	wait_for(pid, 0);
	expect_all(&r, 1, CORALE_EPEER, "stale id: nobody listens at 127.0.0.1:");
	close(results[0]);
	close(results[1]);
}

/* The maker's children are the ranks. */
static void test_forked_ranks(void **state)
{
	(void)state;
	struct rank r[4];
	pid_t pids[4];
	int results[2];
	if (!FORKS_WITH_THREADS)
		return;
	make_ranks(r, 4);
	maker_pipe[1] = -1;
	assert_int_equal(pipe(results), 0);
	for (int i = 0; i < 4; i++)
		pids[i] = fork_rank(&r[i], results[1], rank_main);
	take_results(r, results[0], 4);
	for (int i = 0; i < 4; i++)
		wait_for(pids[i], 0);
	expect_all(r, 4, 0, "");
	close(results[0]);
	close(results[1]);
}

/* ---- Threads */

static void test_threads(void **state)
{
	(void)state;
	struct rank r[8];
	make_ranks(r, 8);
	run(r, 8);
	expect_all(r, 8, 0, "");
}

static void test_sizes(void **state)
{
	(void)state;
	static const size_t bytes[] = { 0, 1, 1 << 20 };
	struct rank r[5];
	for (size_t i = 0; i < 3; i++) {
		make_ranks(r, 5);
		for (int k = 0; k < 5; k++) {
			r[k].bytes = bytes[i];
			r[k].rounds = 4;
		}
		run(r, 5);
		expect_all(r, 5, 0, "");
	}
	make_ranks(r, 1);
	run(r, 1);
	expect_all(r, 1, 0, "");
}

static void test_64(void **state)
{
	(void)state;
	static struct rank r[64];
	make_ranks(r, 64);
	run(r, 64);
	expect_all(r, 64, 0, "");
}

static void test_late(void **state)
{
	(void)state;
	struct rank r[3];
	make_ranks(r, 3);
	r[1].delay = 1;
	run(r, 3);
	expect_all(r, 3, 0, "");
}

static void test_missing(void **state)
{
	(void)state;
	struct rank r[8];
	make_ranks(r, 8);
	for (int i = 0; i < 8; i++)
		r[i].options.timeout_s = 1;
	struct rank come[6] = { r[0], r[1], r[2], r[4], r[6], r[7] };
	double start = seconds();
	run(come, 6);
	expect_all(come, 6, CORALE_ETIMEDOUT, "ranks 3, 5 of 8");
	assert_true(seconds() - start < 3);
}

static void test_missing_gather(void **state)
{
	(void)state;
	struct rank r[3];
	make_ranks(r, 3);
	struct boot *idle;
	r[2].rounds = 0;
	for (int i = 0; i < 3; i++)
		r[i].options.timeout_s = 1;
	assert_int_equal(boot_tcp_open(r[2].id, 2, 3, &on_lo, &idle), 0);
	pthread_t thread[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, rank_main, &r[i]);
	while (idle->ops->poll(idle) == 0)
		;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	expect_all(r, 2, CORALE_ETIMEDOUT, "rank 2 of 3 in all-gather 1");
	idle->ops->close(idle);
}

static void test_closed(void **state)
{
	(void)state;
	struct rank r[3];
	make_ranks(r, 3);
	r[1].rounds = 1;
	run(r, 3);
	struct rank others[2] = { r[0], r[2] };
	assert_int_equal(r[1].result, 0);
	expect_all(others, 2, CORALE_EPEER, "rank 1 (process ");
}

/* ---- Refused */

static void test_twice(void **state)
{
	(void)state;
	struct rank r[4];
	make_ranks(r, 4);
	r[2].rank = 1;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "rank 1 came twice");
}

static void test_wrong_size(void **state)
{
	(void)state;
	struct rank r[4];
	make_ranks(r, 4);
	r[2].size = 5;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "must give the same number");
}

static void test_wrong_bytes(void **state)
{
	(void)state;
	struct rank r[3];
	make_ranks(r, 3);
	r[1].bytes = 25;
	run(r, 3);
	expect_all(r, 3, CORALE_EMISMATCH, "25");
}

/* Alters one byte of rank 1's id; the others must only wait for it. */
static void check_altered(size_t at, int change, int result, const char *text)
{
	struct rank r[2];
	make_ranks(r, 2);
	r[1].id[at] = (unsigned char)(r[1].id[at] ^ change);
	r[0].options.timeout_s = r[1].options.timeout_s = 1;
	run(r, 2);
	expect_all(&r[1], 1, result, text);
	expect_all(&r[0], 1, CORALE_ETIMEDOUT, "rank 1 of 2");
}

static void test_wrong_key(void **state)
{
	(void)state;
	check_altered(64, 1, CORALE_EINVAL, "wrong key");
	check_altered(95, 0x80, CORALE_EINVAL, "wrong key");
}

static void test_altered_id(void **state)
{
	(void)state;
	check_altered(7, 1, CORALE_EINVAL,
		      "made by another NCCL library: is every process started under corale-run?");
	check_altered(8, 2, CORALE_ENOTSUP, "version 3 of the protocol");
	check_altered(12, 4, CORALE_EINVAL, "damaged"); /* flags */
	check_altered(16, 1, CORALE_EINVAL, "damaged"); /* family */
	check_altered(18, 1, CORALE_EPEER, "stale id"); /* port */
	check_altered(40, 1, CORALE_EPEER, "stale id: another process listens"); /* process */
	check_altered(48, 1, CORALE_EPEER, "stale id: process "); /* name */
	check_altered(127, 1, CORALE_EINVAL, "damaged"); /* zeros */
}

static void test_arguments(void **state)
{
	(void)state;
	struct boot *b;
	unsigned char id[BOOT_ID_BYTES];
	make_id(id);
	assert_int_equal(boot_tcp_open(id, 2, 2, &on_lo, &b), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "rank 2 of 2"));
	assert_int_equal(boot_tcp_open(id, -1, 2, &on_lo, &b), CORALE_EINVAL);
	assert_int_equal(boot_tcp_open(id, 0, 0, &on_lo, &b), CORALE_EINVAL);
	assert_int_equal(boot_tcp_open(id, 0, 65, &on_lo, &b), CORALE_ENOTSUP);
	assert_non_null(strstr(log_last_error(), "65 ranks; at most 64"));
}

static void test_used_id(void **state)
{
	(void)state;
	struct rank r[2];
	make_ranks(r, 2);
	run(r, 2);
	expect_all(r, 2, 0, "");
	r[0].options.timeout_s = r[1].options.timeout_s = 1;
	run(r, 2);
	expect_all(r, 2, CORALE_EPEER, "stale id");
}

/* A rank that comes after its group has failed is told why. */
static void test_late_reason(void **state)
{
	(void)state;
	struct rank r[4];
	make_ranks(r, 4);
	r[2].size = 5;
	r[3].delay = 0.5;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "must give the same number");
}

struct test_case {
	const char *name;
	void (*run)(void **state);
};

/* By name for test/mutants.sh. Those that fork ranks come first. */
static const struct test_case cases[] = {
	{ "processes", test_processes },
	{ "a rank dies", test_death },
	{ "the maker dies", test_maker_dies },
	{ "the maker has ended", test_stale_process },
	{ "forked ranks", test_forked_ranks },
	{ "threads", test_threads },
	{ "sizes", test_sizes },
	{ "64 ranks", test_64 },
	{ "late", test_late },
	{ "missing", test_missing },
	{ "missing in an all-gather", test_missing_gather },
	{ "closed", test_closed },
	{ "a rank twice", test_twice },
	{ "wrong size", test_wrong_size },
	{ "wrong bytes", test_wrong_bytes },
	{ "wrong key", test_wrong_key },
	{ "altered id", test_altered_id },
	{ "arguments", test_arguments },
	{ "used id", test_used_id },
	{ "late reason", test_late_reason },
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* Without an argument: all cases; else that of this number. */
int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES];
	int only = argc > 1 ? atoi(argv[1]) : -1, n = 0;
	for (int i = 0; i < CASES; i++)
		if (only < 0 || only == i)
			tests[n++] = (struct CMUnitTest){ .name = cases[i].name, .test_func = cases[i].run };
	log_open(LOG_NONE, NULL);
	return _cmocka_run_group_tests("boot", tests, (size_t)n, NULL, NULL);
}
