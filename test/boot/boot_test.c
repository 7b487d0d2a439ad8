/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap over TCP: groups of threads and processes; what is refused; strangers; ranks that die, are late or leave. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "base/interfaces.h"
#include "base/log.h"
#include "base/wait.h"
#include "boot/boot_tcp.h"
#include "boot/boot_wire.h"
#include "corale.h"
#include "test/helpers/late.h"

enum { MOST = 256, TEXT = 640 };

/* Tests that fork come first: the thread sanitizer allows no threads in a child of a process with threads. */
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

static const struct boot_options on_lo = { .ifname = "=lo", .family = 4, .timeout_s = 20 };

/* By name for test/mutants/mutants.sh. Those that fork ranks come first. */
#define CASE(function, name) UNIT_CASE(function, name, __LINE__, NULL, NULL)
#define FORKS(function, name) UNIT_CASE(function, name, __LINE__ - 10000, NULL, NULL)

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
	clock_sleep_s(r->delay);
	r->result = boot_tcp_open(r->id, r->rank, r->size, &r->options, &b);
	if (r->result) {
		keep_text(r);
		return NULL;
	}
	for (int i = 0; !r->result && i < r->rounds; i++)
		r->result = gather(b, i, r->bytes);
	keep_text(r);
	boot_close(b);
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

FORKS(test_processes, "processes")
{
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

FORKS(test_death, "a rank dies")
{
	struct rank r[4];
	pid_t pids[4];
	int results[2];
	char expected[64];
	prepare_processes(r, 4);
	assert_int_equal(pipe(results), 0);
	double start = clock_s();
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
	assert_true(is_in_time(clock_s() - start, 5));
	close(results[0]);
	close(results[1]);
	stop_maker();
}

/* A process that makes an id, and has descriptors for a few ranks only. Its log goes to fd. */
static pid_t start_short_of_descriptors(unsigned char id[BOOT_ID_BYTES], const char *log)
{
	int pipe_out[2];
	assert_int_equal(pipe(pipe_out), 0);
	pid_t pid = fork();
	if (pid)
		assert_int_equal(read(pipe_out[0], id, BOOT_ID_BYTES), BOOT_ID_BYTES);
	else {
		struct rlimit few;
		getrlimit(RLIMIT_NOFILE, &few);
		few.rlim_cur = (rlim_t)pipe_out[1] + 8;
		log_open(LOG_WARN, log);
		if (boot_id_create(&on_lo, id) || setrlimit(RLIMIT_NOFILE, &few) ||
		    write(pipe_out[1], id, BOOT_ID_BYTES) != BOOT_ID_BYTES)
			_exit(1);
		pause();
	}
	close(pipe_out[0]);
	close(pipe_out[1]);
	return pid;
}

static void read_log(int fd, char *text, size_t bytes);

/* A listener without descriptors says so, once, and what to do. */
FORKS(test_descriptors, "the maker has too few descriptors")
{
	struct rank r[20];
	if (!FORKS_WITH_THREADS)
		return;
	char path[] = "/tmp/boot_test_XXXXXX", text[8192];
	int fd = mkstemp(path), status;
	memset(r, 0, sizeof(r));
	pid_t maker = start_short_of_descriptors(r[0].id, path);
	for (int i = 0; i < 20; i++) {
		r[i] = r[0];
		r[i].rank = i;
		r[i].size = 20;
		r[i].rounds = 1;
		r[i].options = on_lo;
		r[i].options.timeout_s = 1;
	}
	run(r, 20);
	kill(maker, SIGKILL);
	waitpid(maker, &status, 0);
	for (int i = 0; i < 20; i++)
		expect_all(&r[i], 1, CORALE_ETIMEDOUT, "");
	read_log(fd, text, sizeof(text));
	close(fd);
	unlink(path);
	char *line = strstr(text, "bootstrap: accepting the connections of ranks");
	assert_non_null(line);
	assert_non_null(strstr(line, "raise the limit (ulimit -n)"));
	assert_null(strstr(line + 1, "bootstrap: accepting"));
	assert_null(strstr(text, "cannot accept"));
}

/* The process that relays is the one that dies. */
FORKS(test_maker_dies, "the maker dies")
{
	struct rank r[2];
	pid_t pid;
	int results[2];
	char expected[64];
	prepare_processes(r, 2);
	assert_int_equal(pipe(results), 0);
	pid = fork_rank(&r[1], results[1], rank_main); /* rank 0 never comes */
	clock_sleep_s(0.3);
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

FORKS(test_stale_process, "the maker has ended")
{
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
FORKS(test_forked_ranks, "forked ranks")
{
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

/* A process of its own, because a process has one listener. 2: this host has no IPv6. */
static int ipv6_main(void)
{
	struct rank r[3];
	memset(r, 0, sizeof(r));
	struct boot_options o = { .ifname = "=lo", .family = 6, .timeout_s = 20 };
	if (boot_id_create(&o, r[0].id))
		return 2;
	for (int i = 0; i < 3; i++) {
		r[i] = r[0];
		r[i].rank = i;
		r[i].size = 3;
		r[i].options = o;
		r[i].rounds = 2;
	}
	run(r, 3);
	return r[0].result || r[1].result || r[2].result;
}

FORKS(test_ipv6, "IPv6")
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(ipv6_main());
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		print_message("# no IPv6 on lo\n");
	else
		assert_int_equal(status, 0);
}

/* ---- Threads */

CASE(test_threads, "threads")
{
	struct rank r[8];
	make_ranks(r, 8);
	run(r, 8);
	expect_all(r, 8, 0, "");
}

CASE(test_sizes, "sizes")
{
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

CASE(test_64, "64 ranks")
{
	static struct rank r[64];
	make_ranks(r, 64);
	run(r, 64);
	expect_all(r, 64, 0, "");
}

/* Ranks beyond those of one word of bits: all come; some do not; one leaves; one comes twice; some make a child. */
CASE(test_256, "256 ranks")
{
	static struct rank r[256];
	make_ranks(r, 256);
	run(r, 256);
	expect_all(r, 256, 0, "");
}

CASE(test_many_missing, "of 200 ranks some are missing")
{
	static struct rank r[200];
	int come = 0;
	make_ranks(r, 200);
	for (int i = 0; i < 200; i++) {
		r[i].options.timeout_s = 2;
		if (i != 3 && !(i >= 70 && i <= 72) && i != 190 && i != 191)
			r[come++] = r[i];
	}
	run(r, come);
	expect_all(r, come, CORALE_ETIMEDOUT, "ranks 3, 70 to 72, 190, 191 of 200");
}

CASE(test_many_closed, "of 150 ranks one has closed")
{
	static struct rank r[150];
	make_ranks(r, 150);
	r[130].rounds = 1;
	run(r, 150);
	assert_int_equal(r[130].result, 0);
	r[130] = r[129];
	expect_all(r, 150, CORALE_EPEER, "rank 130 (process ");
}

CASE(test_many_twice, "of 100 ranks one twice")
{
	static struct rank r[100];
	make_ranks(r, 100);
	r[66].rank = 99;
	run(r, 100);
	expect_all(r, 100, CORALE_EMISMATCH, "rank 99 came twice");
}

static void *upper_main(void *arg)
{
	struct rank *r = arg;
	struct boot *b, *child;
	int ranks[100];
	for (int i = 0; i < 100; i++)
		ranks[i] = 149 - i;
	r->result = boot_tcp_open(r->id, r->rank, r->size, &r->options, &b);
	if (!r->result)
		r->result = gather(b, 0, 8);
	if (!r->result && r->rank >= 50) {
		r->result = boot_child(b, ranks, 100, 7, &child);
		if (!r->result)
			r->result = child->rank == 149 - r->rank ? gather(child, 0, 8) : CORALE_EINTERNAL;
		if (!r->result)
			boot_close(child);
	}
	keep_text(r);
	boot_close(b);
	return NULL;
}

static void run_main(struct rank *r, int n, void *(*work)(void *));

CASE(test_many_children, "a child of 100 ranks")
{
	static struct rank r[150];
	make_ranks(r, 150);
	run_main(r, 150, upper_main);
	expect_all(r, 150, 0, "");
}

CASE(test_missing_text, "text of missing ranks")
{
	char text[256];
	struct boot_missing m = { .ranks = 0 }, again;
	for (int r = 0; r < 1000; r += r % 8 == 5 ? 3 : 1) /* 0 to 5, 8 to 13, ... */
		boot_missing_add(&m, r);
	assert_int_equal(m.ranks, 750);
	assert_int_equal(m.nranges, BOOT_RANGES);
	assert_true(boot_missing_has(&m, 505) && !boot_missing_has(&m, 510) && boot_missing_has(&m, 509));
	assert_false(boot_missing_has(&m, 512)); /* one range too many */
	boot_missing_text(&m, text, sizeof(text));
	assert_int_equal(strncmp(text, "0 to 5, 8 to 13, ", 17), 0);
	assert_non_null(strstr(text, " and "));
	assert_non_null(strstr(text, " more"));
	struct frame *f = boot_missing_frame(1, &m);
	assert_true(boot_missing_decode(frame_payload(f), f->bytes - FRAME_HEADER_BYTES, 1000, &again));
	assert_memory_equal(&again, &m, sizeof(m));
	assert_false(boot_missing_decode(frame_payload(f), f->bytes - FRAME_HEADER_BYTES, 500, &again));
	assert_false(boot_missing_decode(frame_payload(f), f->bytes - FRAME_HEADER_BYTES - 1, 1000, &again));
	frame_free(f);
}

CASE(test_late, "late")
{
	struct rank r[3];
	make_ranks(r, 3);
	r[1].delay = 1;
	run(r, 3);
	expect_all(r, 3, 0, "");
}

CASE(test_missing, "missing")
{
	struct rank r[8];
	make_ranks(r, 8);
	for (int i = 0; i < 8; i++)
		r[i].options.timeout_s = 1;
	struct rank come[6] = { r[0], r[1], r[2], r[4], r[6], r[7] };
	double start = clock_s();
	run(come, 6);
	expect_all(come, 6, CORALE_ETIMEDOUT, "ranks 3, 5 of 8");
	assert_true(is_in_time(clock_s() - start, 3));
}

CASE(test_missing_gather, "missing in an all-gather")
{
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
	while (boot_poll(idle) == 0)
		;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	expect_all(r, 2, CORALE_ETIMEDOUT, "rank 2 of 3 in all-gather 1");
	boot_close(idle);
}

CASE(test_closed, "closed")
{
	struct rank r[3];
	make_ranks(r, 3);
	r[1].rounds = 1;
	run(r, 3);
	struct rank others[2] = { r[0], r[2] };
	assert_int_equal(r[1].result, 0);
	expect_all(others, 2, CORALE_EPEER, "rank 1 (process ");
	expect_all(others, 2, CORALE_EPEER, "has closed its bootstrap while other ranks wait for it");
}

/* ---- Refused */

CASE(test_twice, "a rank twice")
{
	struct rank r[4];
	make_ranks(r, 4);
	r[2].rank = 1;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "rank 1 came twice");
}

CASE(test_wrong_size, "wrong size")
{
	struct rank r[4];
	make_ranks(r, 4);
	r[2].size = 5;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "must give the same number");
}

CASE(test_wrong_bytes, "wrong bytes")
{
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
	r[0].options.timeout_s = r[1].options.timeout_s = 0.6;
	run(r, 2);
	expect_all(&r[1], 1, result, text);
	expect_all(&r[0], 1, CORALE_ETIMEDOUT, "rank 1 of 2");
}

CASE(test_wrong_key, "wrong key")
{
	check_altered(64, 1, CORALE_EINVAL, "wrong key");
	check_altered(95, 0x80, CORALE_EINVAL, "wrong key");
}

CASE(test_altered_id, "altered id")
{
	check_altered(7, 1, CORALE_EINVAL,
		      "made by another NCCL library: is every process started under corale-run?");
	check_altered(8, 1, CORALE_ENOTSUP, "version 3 of the protocol");
	check_altered(12, 4, CORALE_EINVAL, "damaged"); /* flags */
	check_altered(16, 1, CORALE_EINVAL, "damaged"); /* family */
	check_altered(18, 1, CORALE_EPEER, "stale id"); /* port */
	check_altered(40, 1, CORALE_EPEER, "stale id: another process listens"); /* process */
	check_altered(48, 1, CORALE_EPEER, "stale id: process "); /* name */
	check_altered(127, 1, CORALE_EINVAL, "damaged"); /* zeros */
}

/* No route leads to the broadcast address. */
CASE(test_unreachable, "unreachable")
{
	struct rank r[2];
	make_ranks(r, 2);
	memset(r[1].id + 20, 255, 4);
	r[1].options.timeout_s = 1;
	run(&r[1], 1);
	expect_all(&r[1], 1, CORALE_EPEER, "cannot connect to 255.255.255.255:");
	expect_all(&r[1], 1, CORALE_EPEER, "must be reachable");
}

CASE(test_arguments, "arguments")
{
	struct boot *b;
	unsigned char id[BOOT_ID_BYTES];
	make_id(id);
	assert_int_equal(boot_tcp_open(id, 2, 2, &on_lo, &b), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "rank 2 of 2"));
	assert_int_equal(boot_tcp_open(id, -1, 2, &on_lo, &b), CORALE_EINVAL);
	assert_int_equal(boot_tcp_open(id, 0, 0, &on_lo, &b), CORALE_EINVAL);
	assert_int_equal(boot_tcp_open(id, 0, BOOT_MAX_RANKS + 1, &on_lo, &b), CORALE_ENOTSUP);
	assert_non_null(strstr(log_last_error(), "65537 ranks; at most 65536"));
}

CASE(test_used_id, "used id")
{
	struct rank r[2];
	make_ranks(r, 2);
	run(r, 2);
	expect_all(r, 2, 0, "");
	run(r, 2);
	expect_all(r, 2, CORALE_EPEER, "stale id: it has already made a group of 2 ranks, which is complete");
}

/* While the group lives, a rank that comes by its id is refused and ends nothing. */
CASE(test_id_in_use, "an id in use")
{
	unsigned char id[BOOT_ID_BYTES];
	struct boot *ranks[2], *late;
	int in = 5, out[2], done[2] = { 0 };
	make_id(id);
	for (int round = 0; round < 2; round++) {
		for (int r = 0; r < 2; r++) {
			if (!round)
				assert_int_equal(boot_tcp_open(id, r, 2, &on_lo, &ranks[r]), 0);
			assert_int_equal(boot_start(ranks[r], &in, sizeof in, out), 0);
			done[r] = 0;
		}
		while (!done[0] || !done[1])
			for (int r = 0; r < 2; r++)
				if (!done[r])
					assert_in_range(done[r] = boot_poll(ranks[r]), 0, 1);
		if (round)
			break;
		assert_int_equal(boot_tcp_open(id, 1, 2, &on_lo, &late), 0);
		assert_int_equal(boot_allgather(late, &in, sizeof in, out), CORALE_EPEER);
		assert_non_null(
		    strstr(log_last_error(), "already made a group of 2 ranks, which is still in use"));
		boot_close(late);
	}
	for (int r = 0; r < 2; r++)
		boot_close(ranks[r]);
}

/* A rank that comes after its group has failed is told why. */
CASE(test_late_reason, "late reason")
{
	struct rank r[4];
	make_ranks(r, 4);
	r[2].size = 5;
	r[3].delay = 0.5;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "must give the same number");
}

/* ---- A hand-made rank, to alter what no honest rank sends */

static int raw_connect(const unsigned char id[BOOT_ID_BYTES])
{
	struct boot_id decoded;
	struct sockaddr_storage name;
	struct timeval patience = { .tv_sec = 10 };
	assert_int_equal(boot_id_decode(id, &decoded), BOOT_ID_GOOD);
	socklen_t length = boot_address_to_socket(&decoded.address, &name);
	int fd = socket(name.ss_family, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&name, length) == 0)
		return fd;
	close(fd);
	return -1;
}

static int receive_all(int fd, unsigned char *to, size_t bytes)
{
	while (bytes) {
		ssize_t n = recv(fd, to, bytes, 0);
		if (n <= 0)
			return 0;
		to += n;
		bytes -= (size_t)n;
	}
	return 1;
}

/* The kind of the next frame, 0 if the connection has ended. */
static uint32_t raw_receive(int fd, unsigned char payload[8192], size_t *bytes)
{
	unsigned char header[FRAME_HEADER_BYTES];
	if (!receive_all(fd, header, sizeof(header)))
		return 0;
	*bytes = (uint32_t)frame_get(header, 4);
	assert_true(*bytes <= 8192);
	return receive_all(fd, payload, *bytes) ? (uint32_t)frame_get(header + 4, 4) : 0;
}

static void raw_send(int fd, uint32_t kind, uint64_t number, const void *payload, size_t bytes)
{
	struct frame *f = frame_new(kind, number, bytes);
	if (bytes)
		memcpy(frame_payload(f), payload, bytes);
	assert_int_equal(send(fd, f->data, f->bytes, MSG_NOSIGNAL), (ssize_t)f->bytes);
	frame_free(f);
}

static void raw_hello(const unsigned char id[BOOT_ID_BYTES], int rank, int size, struct boot_hello *h)
{
	struct boot_id decoded;
	assert_int_equal(boot_id_decode(id, &decoded), BOOT_ID_GOOD);
	*h = (struct boot_hello){ .version = BOOT_PROTOCOL,
				  .process = decoded.process,
				  .name = decoded.name,
				  .rank = rank,
				  .size = size };
	boot_peer_fill(&h->peer);
	h->peer.listener = decoded.address;
}

/* Connects and sends the proof of h. */
static int raw_prove(const unsigned char id[BOOT_ID_BYTES], const struct boot_hello *h,
		     unsigned char proof[BOOT_PROOF_BYTES])
{
	struct boot_id decoded;
	unsigned char payload[8192], challenge[BOOT_NONCE_BYTES];
	size_t bytes;
	int fd = raw_connect(id);
	assert_true(fd >= 0);
	assert_int_equal(raw_receive(fd, payload, &bytes), BOOT_CHALLENGE);
	assert_true(boot_challenge_decode(payload, bytes, challenge));
	boot_id_decode(id, &decoded);
	boot_hello_encode(h, proof);
	boot_prove(decoded.key, challenge, proof, NULL, proof + BOOT_HELLO_BYTES);
	raw_send(fd, BOOT_HELLO, 0, proof, BOOT_PROOF_BYTES);
	return fd;
}

static void expect_refusal(int fd, int code, const char *text)
{
	unsigned char payload[8192];
	size_t bytes;
	struct boot_reason reason;
	assert_int_equal(raw_receive(fd, payload, &bytes), BOOT_REFUSE);
	assert_true(boot_reason_decode(payload, bytes, &reason));
	if (!strstr(reason.text, text))
		print_message("refused: '%s', expected '%s'\n", reason.text, text);
	assert_non_null(strstr(reason.text, text));
	assert_int_equal(reason.code, code);
	assert_int_equal(raw_receive(fd, payload, &bytes), 0);
	close(fd);
}

/* An honest hand-made rank is accepted; the same bytes on another connection are not. */
CASE(test_replay, "replay")
{
	struct rank r[2];
	struct boot_hello h;
	unsigned char proof[BOOT_PROOF_BYTES], payload[8192];
	size_t bytes;
	make_ranks(r, 2);
	raw_hello(r[0].id, 0, 2, &h);
	int fd = raw_prove(r[0].id, &h, proof);
	assert_int_equal(raw_receive(fd, payload, &bytes), BOOT_ACCEPT);
	assert_int_equal(bytes, BOOT_ACCEPT_BYTES);
	int again = raw_connect(r[0].id);
	assert_int_equal(raw_receive(again, payload, &bytes), BOOT_CHALLENGE);
	raw_send(again, BOOT_HELLO, 0, proof, sizeof(proof));
	expect_refusal(again, CORALE_EINVAL, "wrong key");
	close(fd);
}

/* A proof of which one byte is wrong, the first or the last. */
CASE(test_wrong_proof, "wrong byte of an HMAC")
{
	static const size_t wrong[] = { 0, 1, HMAC_BYTES - 1 };
	for (size_t i = 0; i < 3; i++) {
		unsigned char id[BOOT_ID_BYTES], payload[8192], proof[BOOT_PROOF_BYTES];
		struct boot_id decoded;
		struct boot_hello h;
		size_t bytes;
		make_id(id);
		raw_hello(id, 0, 2, &h);
		boot_id_decode(id, &decoded);
		boot_hello_encode(&h, proof);
		int fd = raw_connect(id);
		assert_int_equal(raw_receive(fd, payload, &bytes), BOOT_CHALLENGE);
		boot_prove(decoded.key, payload + 12, proof, NULL, proof + BOOT_HELLO_BYTES);
		proof[BOOT_HELLO_BYTES + wrong[i]] ^= 1;
		raw_send(fd, BOOT_HELLO, 0, proof, sizeof(proof));
		expect_refusal(fd, CORALE_EINVAL, "wrong key");
	}
}

/* A stranger's frame is refused by its header; the listener does not wait for its end. */
CASE(test_long_frame, "long frame")
{
	unsigned char id[BOOT_ID_BYTES], payload[8192], header[FRAME_HEADER_BYTES] = { 0 };
	size_t bytes;
	make_id(id);
	int fd = raw_connect(id);
	assert_int_equal(raw_receive(fd, payload, &bytes), BOOT_CHALLENGE);
	frame_put(header, BOOT_PROOF_BYTES + 1, 4);
	frame_put(header + 4, BOOT_HELLO, 4);
	double start = clock_s();
	assert_int_equal(send(fd, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
	assert_int_equal(raw_receive(fd, payload, &bytes), 0);
	assert_true(is_in_time(clock_s() - start, 2));
	close(fd);
}

/* One field of an honest HELLO is altered, after which it is proved with the right key. */
static void check_hello(void (*alter)(struct boot_hello *h), int code, const char *text, int others)
{
	struct rank r[2];
	struct boot_hello h;
	unsigned char proof[BOOT_PROOF_BYTES];
	pthread_t thread;
	make_ranks(r, 2);
	r[0].options.timeout_s = 1;
	assert_int_equal(pthread_create(&thread, NULL, rank_main, &r[0]), 0);
	clock_sleep_s(0.3); /* the honest rank is there first */
	raw_hello(r[0].id, 1, 2, &h);
	alter(&h);
	expect_refusal(raw_prove(r[0].id, &h, proof), code, text);
	pthread_join(thread, NULL);
	expect_all(r, 1, others, others == CORALE_ETIMEDOUT ? "rank 1 of 2" : text);
}

static void alter_nothing(struct boot_hello *h)
{
	h->rank = 0;
}

static void alter_version(struct boot_hello *h)
{
	h->version = 7;
}

static void alter_rank(struct boot_hello *h)
{
	h->rank = 2;
}

static void alter_rank_below(struct boot_hello *h)
{
	h->rank = -1;
}

static void alter_size(struct boot_hello *h)
{
	h->size = 3;
}

static void alter_size_above(struct boot_hello *h)
{
	h->size = BOOT_MAX_RANKS + 1;
}

static void alter_process(struct boot_hello *h)
{
	h->process ^= 1;
}

static void alter_name(struct boot_hello *h)
{
	h->name ^= 1;
}

CASE(test_hello, "altered hello")
{
	check_hello(alter_nothing, CORALE_EMISMATCH, "rank 0 came twice", CORALE_EMISMATCH);
	check_hello(alter_version, CORALE_ENOTSUP, "speaks version 7", CORALE_ETIMEDOUT);
	check_hello(alter_rank, CORALE_EMISMATCH, "as rank 2 of 2; expected 0 to 1", CORALE_EMISMATCH);
	check_hello(alter_rank_below, CORALE_EMISMATCH, "as rank -1 of 2; expected 0 to 1", CORALE_EMISMATCH);
	check_hello(alter_size, CORALE_EMISMATCH, "with 3 ranks", CORALE_EMISMATCH);
	check_hello(alter_size_above, CORALE_ENOTSUP, "65537 ranks; 1 to 65536", CORALE_ENOTSUP);
	check_hello(alter_process, CORALE_EPEER, "another process", CORALE_ETIMEDOUT);
	check_hello(alter_name, CORALE_EPEER, "does not know the id", CORALE_ETIMEDOUT);
}

/* What a member must not send ends its group, not the others. */
static void check_member(uint32_t kind, uint64_t number, const void *payload, size_t bytes, int code,
			 const char *text)
{
	struct rank r[2];
	struct boot_hello h;
	unsigned char proof[BOOT_PROOF_BYTES], ignored[8192];
	size_t got;
	pthread_t thread;
	make_ranks(r, 2);
	assert_int_equal(pthread_create(&thread, NULL, rank_main, &r[0]), 0);
	raw_hello(r[0].id, 1, 2, &h);
	int fd = raw_prove(r[0].id, &h, proof);
	assert_int_equal(raw_receive(fd, ignored, &got), BOOT_ACCEPT);
	raw_send(fd, kind, number, payload, bytes);
	pthread_join(thread, NULL);
	expect_all(r, 1, code, text);
	close(fd);
}

CASE(test_member, "a member's bad frames")
{
	check_member(99, 0, NULL, 0, CORALE_EPEER, "unknown kind");
	check_member(BOOT_PART, 2, "abc", 3, CORALE_EINTERNAL, "all-gather 2, expected 1");
	check_member(BOOT_LEAVE, 0, "abc", 3, CORALE_EPEER, "damaged");
}

/* ---- A listener that does not know the key */

struct impostor {
	int fd, is_helpful; /* sends an ACCEPT without proof */
};

static void *impostor_main(void *arg)
{
	struct impostor *it = arg;
	for (;;) {
		unsigned char payload[8192] = { 0 };
		size_t bytes;
		int fd = accept(it->fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		if (it->is_helpful) {
			struct frame *f = boot_challenge(payload);
			struct boot_peer peer;
			assert_int_equal(send(fd, f->data, f->bytes, MSG_NOSIGNAL), (ssize_t)f->bytes);
			frame_free(f);
			raw_receive(fd, payload, &bytes);
			boot_peer_fill(&peer);
			peer.listener = (struct boot_address){ .family = 4, .port = 1 };
			boot_peer_encode(&peer, payload);
			raw_send(fd, BOOT_ACCEPT, 0, payload, BOOT_ACCEPT_BYTES);
		} else {
			send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
		}
		raw_receive(fd, payload, &bytes);
		close(fd);
	}
}

static void check_impostor(int is_helpful, const char *text)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(name);
	struct impostor it = { socket(AF_INET, SOCK_STREAM, 0), is_helpful };
	struct rank r[2];
	pthread_t thread;
	make_ranks(r, 2);
	assert_int_equal(bind(it.fd, (struct sockaddr *)&name, length), 0);
	assert_int_equal(listen(it.fd, 16), 0);
	getsockname(it.fd, (struct sockaddr *)&name, &length);
	frame_put(r[1].id + 18, ntohs(name.sin_port), 2);
	r[1].options.timeout_s = 1;
	assert_int_equal(pthread_create(&thread, NULL, impostor_main, &it), 0);
	run(&r[1], 1);
	shutdown(it.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(it.fd);
	expect_all(&r[1], 1, CORALE_EPEER, text);
}

CASE(test_impostor, "impostor")
{
	check_impostor(0, "stale id: another program listens");
	check_impostor(1, "stale id: a program that does not know the id's key listens");
}

/* ---- Ranks that pass on what all get (boot_source.h): rank 2 of more than 64 is the source of ranks 48 to 63. */

enum { FED = 70, SOURCE = 2 };

/* A hand-made rank that gives its part to the first all-gather, and passes nothing on. port: where its listener is said to be; 0: at the group's. */
static int raw_source(const unsigned char id[BOOT_ID_BYTES], unsigned port)
{
	struct boot_hello h;
	unsigned char proof[BOOT_PROOF_BYTES], part[24];
	raw_hello(id, SOURCE, FED, &h);
	if (port)
		h.peer.listener.port = (uint16_t)port;
	int fd = raw_prove(id, &h, proof);
	for (size_t i = 0; i < sizeof(part); i++)
		part[i] = content(SOURCE, 0, i);
	raw_send(fd, BOOT_PART, 1, part, sizeof(part));
	return fd;
}

/* The others have all the same all they need, soon. */
static void check_silent_source(unsigned port, double most)
{
	static struct rank r[FED];
	make_ranks(r, FED);
	for (int i = 0; i < FED; i++)
		r[i].rounds = 1;
	int fd = raw_source(r[0].id, port);
	r[SOURCE] = r[FED - 1];
	double start = clock_s();
	run(r, FED - 1);
	expect_all(r, FED - 1, 0, "");
	assert_true(is_in_time(clock_s() - start, most));
	close(fd);
}

CASE(test_silent_source, "a source that is silent")
{
	check_silent_source(0, 5); /* its process does not know of a source */
	check_silent_source(1, 2); /* nobody listens */
}

/* A connection is taken and never answered; another program answers. */
CASE(test_false_source, "a source that is false")
{
	for (int mute = 0; mute <= 1; mute++) {
		struct sockaddr_in name = { .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t length = sizeof(name);
		struct impostor it = { socket(AF_INET, SOCK_STREAM, 0), mute };
		pthread_t thread;
		assert_int_equal(bind(it.fd, (struct sockaddr *)&name, length), 0);
		assert_int_equal(listen(it.fd, 64), 0);
		getsockname(it.fd, (struct sockaddr *)&name, &length);
		if (!mute)
			assert_int_equal(pthread_create(&thread, NULL, impostor_main, &it), 0);
		check_silent_source(ntohs(name.sin_port), 5);
		shutdown(it.fd, SHUT_RDWR);
		if (!mute)
			pthread_join(thread, NULL);
		close(it.fd);
	}
}

/* A fed rank's odd questions change nothing. Its damaged frames end its group and no other. */
CASE(test_fed_member, "odd questions of a fed rank")
{
	static struct rank r[FED];
	struct boot_hello h;
	unsigned char proof[BOOT_PROOF_BYTES], round[8] = { 1 }, part[24];
	make_ranks(r, FED);
	for (int i = 0; i < FED; i++)
		r[i].rounds = 1;
	raw_hello(r[0].id, FED - 1, FED, &h);
	int fd = raw_prove(r[0].id, &h, proof);
	for (size_t i = 0; i < sizeof(part); i++)
		part[i] = content(FED - 1, 0, i);
	raw_send(fd, BOOT_WHO, 1, NULL, 0);
	raw_send(fd, BOOT_WHO, 2, round, 8);
	raw_send(fd, BOOT_WHO, 3, part, 24);
	raw_send(fd, BOOT_AGAIN, 0, NULL, 0);
	raw_send(fd, BOOT_AGAIN, 7, part, 5);
	raw_send(fd, BOOT_PART, 1, part, sizeof(part));
	run(r, FED - 1);
	expect_all(r, FED - 1, 0, "");
	close(fd);
}

/* Ranks whose maker is killed at any time get what they wait for, or hear that it has died, soon. */
FORKS(test_maker_killed, "the maker of many ranks is killed")
{
	static struct rank r[FED];
	pthread_t threads[FED];
	for (int t = 0; t < (FORKS_WITH_THREADS ? 12 : 0); t++) {
		prepare_processes(r, FED);
		for (int i = 0; i < FED; i++) {
			r[i].rounds = 1000;
			assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &r[i]), 0);
		}
		clock_sleep_s(0.005 * t);
		double start = clock_s();
		kill(maker_pid, SIGKILL);
		for (int i = 0; i < FED; i++)
			pthread_join(threads[i], NULL);
		wait_for(maker_pid, SIGKILL);
		close(maker_pipe[1]);
		expect_all(r, FED, CORALE_EPEER, "");
		assert_true(is_in_time(clock_s() - start, 8));
	}
}

/* ---- Strangers */

static uint64_t next(uint64_t *random) /* splitmix64 */
{
	uint64_t z = *random += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Random bytes, or a damaged handshake: what a stranger may have recorded. */
static size_t strange_bytes(uint64_t *random, const unsigned char id[BOOT_ID_BYTES], int size,
			    unsigned char out[512])
{
	size_t bytes = next(random) % 512;
	for (size_t i = 0; i < 512; i++)
		out[i] = (unsigned char)next(random);
	if (next(random) % 2 == 0)
		return bytes;
	struct boot_hello h;
	raw_hello(id, (int)(next(random) % (uint64_t)size), size, &h);
	frame_put(out, BOOT_PROOF_BYTES, 4);
	frame_put(out + 4, BOOT_HELLO, 4);
	frame_put(out + 8, 0, 8);
	boot_hello_encode(&h, out + FRAME_HEADER_BYTES);
	for (uint64_t flips = next(random) % 3; flips; flips--)
		out[next(random) % (FRAME_HEADER_BYTES + BOOT_PROOF_BYTES)] ^=
		    (unsigned char)(1 << next(random) % 8);
	bytes = FRAME_HEADER_BYTES + BOOT_PROOF_BYTES;
	return next(random) % 4 ? bytes : next(random) % bytes;
}

struct strangers {
	const unsigned char *id;
	int size, connections;
	uint64_t seed;
	_Atomic int done;
};

enum { HELD = 100 };

static void *strangers_main(void *arg)
{
	struct strangers *s = arg;
	int held[HELD];
	memset(held, -1, sizeof(held));
	for (int i = 0; i < s->connections; i++) {
		unsigned char bytes[512];
		int *fd = &held[i % HELD];
		if (*fd >= 0)
			close(*fd);
		*fd = raw_connect(s->id);
		if (*fd < 0)
			continue;
		size_t n = strange_bytes(&s->seed, s->id, s->size, bytes);
		send(*fd, bytes, n, MSG_NOSIGNAL);
	}
	for (int i = 0; i < HELD; i++)
		if (held[i] >= 0)
			close(held[i]);
	s->done = 1;
	return NULL;
}

/* Groups form and gather as long as strangers connect. */
static void check_strangers(int size, int connections)
{
	static struct rank r[FED];
	pthread_t thread;
	make_ranks(r, size);
	unsigned char id[BOOT_ID_BYTES];
	memcpy(id, r[0].id, sizeof(id));
	struct strangers s = { .id = id, .size = size, .connections = connections, .seed = 1 };
	int groups = 0;
	assert_int_equal(pthread_create(&thread, NULL, strangers_main, &s), 0);
	do {
		run(r, size);
		expect_all(r, size, 0, "");
		make_ranks(r, size);
		groups++;
	} while (!s.done);
	pthread_join(thread, NULL);
	print_message("# %d groups of %d beside %d strangers\n", groups, size, connections);
}

CASE(test_strangers, "strangers")
{
	check_strangers(4, 10000);
	check_strangers(FED, 4000); /* ranks listen for those that they feed, by the same port */
}

/* A member that sends random frames: all others get what they need, or an error soon. */
CASE(test_fed_garbage, "random frames of a fed rank")
{
	enum { SEEDS = 30, FRAMES = 6, LONGEST = 200 };
	static struct rank r[FED];
	int failed = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		struct boot_hello h;
		unsigned char proof[BOOT_PROOF_BYTES];
		const int culprit = next(&random) % 2 ? SOURCE : FED - 1;
		make_ranks(r, FED);
		raw_hello(r[0].id, culprit, FED, &h);
		const int fd = raw_prove(r[0].id, &h, proof);
		for (uint64_t n = next(&random) % FRAMES + 1; n; n--) {
			const size_t bytes = next(&random) % LONGEST;
			struct frame *f = frame_new((uint32_t)(next(&random) % 16), next(&random) % 3, bytes);
			for (size_t i = 0; i < bytes; i++)
				frame_payload(f)[i] = (unsigned char)next(&random);
			if (send(fd, f->data, f->bytes, MSG_NOSIGNAL) < 0)
				n = 1; /* it is refused already */
			frame_free(f);
		}
		shutdown(fd, SHUT_WR);
		r[culprit] = r[FED - 1];
		const double start = clock_s();
		run(r, FED - 1);
		assert_true(is_in_time(clock_s() - start, 8));
		for (int i = 0; i < FED - 1; i++)
			assert_true(r[i].result == 0 || (r[i].result < 0 && r[i].text[0]));
		failed += r[0].result != 0;
		close(fd);
	}
	print_message("# %d of %d groups failed\n", failed, (int)SEEDS);
}

/* Silent connections are dropped, however many there are, and members are not. */
CASE(test_silent, "silent strangers")
{
	enum { SILENT = 300 };
	struct rank r[3];
	int fds[SILENT], ended = 0;
	make_ranks(r, 3);
	r[1].delay = 1; /* the group is half made */
	for (int i = 0; i < SILENT; i++)
		fds[i] = raw_connect(r[0].id);
	double start = clock_s();
	run(r, 3);
	expect_all(r, 3, 0, "");
	assert_true(is_in_time(clock_s() - start, 4));
	clock_sleep_s(6 - (clock_s() - start));
	for (int i = 0; i < SILENT; i++) {
		char c[64];
		ssize_t n;
		while ((n = recv(fds[i], c, sizeof(c), MSG_DONTWAIT)) > 0)
			;
		ended += n == 0 || errno == ECONNRESET;
		close(fds[i]);
	}
	assert_int_equal(ended, SILENT);
}

/* ---- Frames, fuzzed: whatever comes in whatever pieces, a reader and the decoders stay within bounds. */

static void check_missing(const struct boot_missing *m, int size)
{
	char text[256];
	int listed = 0;
	for (int r = 0; r < size; r++)
		listed += boot_missing_has(m, r);
	assert_true(listed <= m->ranks && m->ranks <= size && m->nranges <= BOOT_RANGES);
	assert_true(strlen(boot_missing_text(m, text, sizeof(text))) < sizeof(text));
}

static void decode(const struct frame_reader *f)
{
	struct boot_missing missing;
	unsigned char exact_id[BOOT_ID_BYTES], exact_peer[BOOT_PEER_BYTES], nonce[BOOT_NONCE_BYTES];
	struct boot_hello h;
	struct boot_reason reason;
	struct boot_id id;
	struct boot_peer peer;
	if (!f->bytes)
		return;
	unsigned char *data = malloc(f->bytes); /* exactly so many, for the address sanitizer */
	memcpy(data, f->data, f->bytes);
	boot_hello_version(data, f->bytes);
	boot_hello_decode(data, f->bytes, &h);
	boot_challenge_decode(data, f->bytes, nonce);
	if (boot_missing_decode(data, f->bytes, 4096, &missing))
		check_missing(&missing, 4096);
	if (boot_reason_decode(data, f->bytes, &reason))
		assert_true(strlen(reason.text) < BOOT_TEXT_BYTES);
	if (f->bytes >= BOOT_ID_BYTES) {
		memcpy(exact_id, data, BOOT_ID_BYTES);
		boot_id_decode(exact_id, &id);
	}
	if (f->bytes >= BOOT_PEER_BYTES) {
		memcpy(exact_peer, data, BOOT_PEER_BYTES);
		if (boot_peer_decode(exact_peer, &peer))
			assert_true(strlen(peer.host) < BOOT_HOST_BYTES);
	}
	free(data);
}

/* An answer on missing ranks, of which some bytes are altered. */
static void fuzz_missing(uint64_t *random)
{
	struct boot_missing missing = { .ranks = 0 };
	const int size = 1 + (int)(next(random) % 4096);
	for (int r = (int)(next(random) % 8); r < size; r += 1 + (int)(next(random) % 100))
		boot_missing_add(&missing, r);
	struct frame *f = boot_missing_frame(0, &missing);
	size_t bytes = f->bytes - FRAME_HEADER_BYTES;
	for (uint64_t flips = next(random) % 3; flips; flips--)
		frame_payload(f)[next(random) % bytes] ^= (unsigned char)(1 << next(random) % 8);
	unsigned char *data = malloc(bytes);
	memcpy(data, frame_payload(f), bytes);
	bytes = next(random) % 4 ? bytes : next(random) % bytes;
	if (boot_missing_decode(data, bytes, size, &missing))
		check_missing(&missing, size);
	free(data);
	frame_free(f);
}

static void fuzz_reader(uint64_t *random, const unsigned char id[BOOT_ID_BYTES])
{
	unsigned char stream[512];
	struct frame_reader f = { .limit =
				      (uint32_t)(next(random) % 2 ? BOOT_PROOF_BYTES : FRAME_MAX_BYTES) };
	size_t bytes = strange_bytes(random, id, 4, stream);
	enum frame_status status = FRAME_MORE;
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	for (size_t at = 0, piece; at < bytes && status != FRAME_TOO_LONG; at += piece) {
		piece = 1 + next(random) % (bytes - at);
		assert_int_equal(send(ends[0], stream + at, piece, 0), piece);
		while ((status = frame_read(&f, ends[1])) == FRAME_WHOLE) {
			assert_true(f.bytes <= f.limit);
			decode(&f);
			frame_next(&f);
		}
		assert_true((status == FRAME_MORE || status == FRAME_TOO_LONG) && f.room <= 1024 * 1024);
	}
	close(ends[0]);
	close(ends[1]);
	frame_reader_free(&f);
}

CASE(test_fuzz, "fuzz")
{
	unsigned char id[BOOT_ID_BYTES];
	uint64_t random = 4711;
	make_id(id);
	for (int i = 0; i < 50000; i++)
		fuzz_reader(&random, id);
	for (int i = 0; i < 5000; i++)
		fuzz_missing(&random);
}

/* ---- NCCL_COMM_ID */

/* A port that was free a moment ago. */
static void free_port(char text[64])
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, length), 0);
	getsockname(fd, (struct sockaddr *)&name, &length);
	close(fd);
	snprintf(text, 64, "127.0.0.1:%u", ntohs(name.sin_port));
}

static void make_address_ranks(struct rank *r, int size, const char *address)
{
	make_ranks(r, size);
	for (int i = 0; i < size; i++) {
		struct boot_options o = on_lo;
		o.address = address;
		assert_int_equal(boot_id_create(&o, r[i].id), 0);
		assert_memory_equal(r[i].id, r[0].id, BOOT_ID_BYTES);
	}
}

/* Rank 0 comes last; the same id serves group after group, also after one that failed. */
CASE(test_address, "address")
{
	struct rank r[4];
	char address[64];
	free_port(address);
	make_address_ranks(r, 4, address);
	r[0].delay = 0.5;
	for (int i = 0; i < 5; i++) {
		run(r, 4);
		expect_all(r, 4, 0, "");
		r[0].delay = 0;
		r[i % 4].delay = 0.1;
	}
	r[1].size = 3;
	run(r, 4);
	expect_all(r, 4, CORALE_EMISMATCH, "must give the same number");
	r[1].size = 4;
	r[0].delay = 0;
	for (int i = 1; i < 4; i++)
		r[i].delay = 0.2;
	run(r, 4);
	expect_all(r, 4, 0, "");
}

enum { SEVERAL = 3 };

struct several {
	const char *address;
	int rank;
	int ret, sum;
};

/* Groups by one address that all live at a time, as communicators with NCCL_COMM_ID do. */
static void *open_several(void *arg)
{
	struct several *s = arg;
	struct boot *boots[SEVERAL] = { NULL };
	struct boot_options o = { .address = s->address, .timeout_s = 20 };
	unsigned char id[BOOT_ID_BYTES];
	for (int k = 0; !s->ret && k < SEVERAL; k++) {
		int mine = s->rank + k, all[2] = { 0, 0 };
		s->ret = boot_id_create(&o, id);
		if (!s->ret)
			s->ret = boot_tcp_open(id, s->rank, 2, &o, &boots[k]);
		if (!s->ret)
			s->ret = boot_allgather(boots[k], &mine, sizeof(mine), all);
		s->sum += all[0] + all[1];
	}
	for (int k = 0; k < SEVERAL; k++)
		if (boots[k])
			boot_close(boots[k]);
	return NULL;
}

CASE(test_address_several, "groups of one address at a time")
{
	char address[64];
	pthread_t threads[2];
	free_port(address);
	struct several s[2] = { { address, 0, 0, 0 }, { address, 1, 0, 0 } };
	for (int r = 0; r < 2; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, open_several, &s[r]), 0);
	for (int r = 0; r < 2; r++)
		pthread_join(threads[r], NULL);
	for (int r = 0; r < 2; r++) {
		assert_int_equal(s[r].ret, 0);
		assert_int_equal(s[r].sum, 1 + 3 + 5);
	}
}

CASE(test_bad_address, "bad address")
{
	static const char *const bad[] = { "",
					   ":",
					   "host",
					   "127.0.0.1:",
					   "127.0.0.1:0",
					   "127.0.0.1:65536",
					   "127.0.0.1:12x",
					   "[::1:12",
					   "[]:12",
					   "127.0.0.1:-1" };
	struct boot_address a;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(boot_address_parse(bad[i], 0, &a), CORALE_EINVAL);
	assert_int_equal(boot_address_parse("[::1]:80", 0, &a), 0);
	assert_int_equal(a.family, 6);
	assert_int_equal(a.port, 80);
	assert_int_equal(boot_address_parse("127.0.0.1:80", 0, &a), 0);
	assert_int_equal(a.family, 4);

	struct rank r[1];
	struct boot *b;
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(name);
	char text[64];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, length) | listen(fd, 1), 0);
	getsockname(fd, (struct sockaddr *)&name, &length);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(name.sin_port));
	make_address_ranks(r, 1, text);
	assert_int_equal(boot_tcp_open(r[0].id, 0, 1, &on_lo, &b), CORALE_ESYSTEM);
	assert_non_null(strstr(log_last_error(), "in use"));
	assert_non_null(strstr(log_last_error(), text));
	close(fd);
	make_address_ranks(r, 1, "192.0.2.1:4000"); /* of no host */
	assert_int_equal(boot_tcp_open(r[0].id, 0, 1, &on_lo, &b), CORALE_ESYSTEM);
	assert_non_null(strstr(log_last_error(), "192.0.2.1:4000"));
}

/* ---- Many groups at once */

enum { GROUPS = 64 };

struct many {
	unsigned char (*ids)[BOOT_ID_BYTES];
	int rank, wrong;
};

/* Opens all groups in an order of its own, and polls them one after the other. */
static void *many_main(void *arg)
{
	struct many *m = arg;
	struct boot *b[GROUPS];
	int in[GROUPS], out[GROUPS][2], left = GROUPS, done[GROUPS] = { 0 };
	for (int k = 0; k < GROUPS; k++) {
		int g = m->rank ? GROUPS - 1 - k : k;
		in[g] = 100 * g + m->rank;
		m->wrong |= boot_tcp_open(m->ids[g], m->rank, 2, &on_lo, &b[g]) != 0 ||
			    boot_start(b[g], &in[g], sizeof(int), out[g]) != 0;
	}
	while (left && !m->wrong) {
		for (int k = 0; k < GROUPS; k++) {
			int g = m->rank ? GROUPS - 1 - k : k, ret = done[g] ? 0 : boot_poll(b[g]);
			m->wrong |= ret < 0;
			done[g] |= ret == 1;
			left -= ret == 1;
		}
	}
	for (int g = 0; g < GROUPS && !m->wrong; g++) {
		m->wrong |= out[g][0] != 100 * g || out[g][1] != 100 * g + 1;
		boot_close(b[g]);
	}
	return NULL;
}

CASE(test_many, "many groups")
{
	unsigned char ids[GROUPS][BOOT_ID_BYTES];
	struct many m[2] = { { ids, 0, 0 }, { ids, 1, 0 } };
	pthread_t threads[2];
	for (int i = 0; i < GROUPS; i++)
		make_id(ids[i]);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, many_main, &m[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_false(m[0].wrong || m[1].wrong);
}

/* ---- Children */

static const int odd_ranks[] = { 5, 1, 3 }, even_ranks[] = { 0, 2, 4 }, last_ranks[] = { 2, 0 };

/* A child of some ranks in an order of their own, then a child of that child, when the parent is closed. */
static int use_children(struct boot *b)
{
	const int *ranks = b->rank % 2 ? odd_ranks : even_ranks;
	struct boot *child, *grandchild;
	if (b->rank % 2) /* as good as one that is connected */
		boot_rest(b);
	int ret = boot_child(b, ranks, 3, 42, &child);
	boot_close(b);
	if (ret)
		return ret;
	for (int i = 0; !ret && i < 2; i++)
		ret = gather(child, i, 10);
	if (child->rank != 1 && !ret) {
		ret = boot_child(child, last_ranks, 2, 42, &grandchild);
		if (!ret)
			ret = gather(grandchild, 7, 1000);
		if (!ret)
			boot_close(grandchild);
	}
	boot_close(child);
	return ret;
}

static void *child_main(void *arg)
{
	struct rank *r = arg;
	struct boot *b;
	r->result = boot_tcp_open(r->id, r->rank, r->size, &r->options, &b);
	if (!r->result)
		r->result = gather(b, 0, 8);
	if (!r->result)
		r->result = use_children(b);
	keep_text(r);
	return NULL;
}

static void run_main(struct rank *r, int n, void *(*work)(void *))
{
	pthread_t threads[MOST];
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &r[i]), 0);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

CASE(test_children, "children")
{
	struct rank r[6];
	make_ranks(r, 6);
	run_main(r, 6, child_main);
	expect_all(r, 6, 0, "");
}

FORKS(test_child_processes, "children of processes")
{
	struct rank r[6];
	pid_t pids[6];
	int results[2];
	prepare_processes(r, 6);
	assert_int_equal(pipe(results), 0);
	for (int i = 0; i < 6; i++)
		pids[i] = fork_rank(&r[i], results[1], child_main);
	take_results(r, results[0], 6);
	for (int i = 0; i < 6; i++)
		wait_for(pids[i], 0);
	expect_all(r, 6, 0, "");
	close(results[0]);
	close(results[1]);
	stop_maker();
}

/* An all-gather of each at a time, with content by which they differ. */
static int gather_both(struct boot *both[2])
{
	int in[2], out[2][MOST], done[2] = { 0 }, wrong = 0;
	for (int i = 0; i < 2; i++) {
		in[i] = (int)both[i]->size * i + both[i]->rank;
		if (boot_start(both[i], &in[i], sizeof in[i], out[i]))
			return CORALE_EINTERNAL;
	}
	for (int i = 0; !done[0] || !done[1]; i = !i)
		if (!done[i] && (done[i] = boot_poll(both[i])) < 0)
			return done[i];
	for (int r = 0; r < 2 * both[0]->size; r++)
		wrong |= out[r / both[0]->size][r % both[0]->size] != r;
	return wrong ? CORALE_EINTERNAL : 0;
}

/* The parent fails by a rank that leaves; the others go on in two children that differ by their tags. */
static void *shrink_main(void *arg)
{
	static const int left[] = { 0, 1, 3 };
	struct rank *r = arg;
	struct boot *b, *children[2];
	r->result = boot_tcp_open(r->id, r->rank, r->size, &r->options, &b);
	if (!r->result)
		r->result = gather(b, 0, 8);
	if (!r->result && r->rank != 2) {
		r->result = gather(b, 1, 8) == CORALE_EPEER ? 0 : CORALE_EINTERNAL;
		for (uint64_t tag = 0; !r->result && tag < 2; tag++)
			r->result = boot_child(b, left, 3, tag, &children[tag]);
		if (!r->result)
			r->result = gather_both(children);
		for (int i = 0; !r->result && i < 2; i++)
			boot_close(children[i]);
	}
	keep_text(r);
	boot_close(b);
	return NULL;
}

CASE(test_shrink, "shrink")
{
	struct rank r[4];
	make_ranks(r, 4);
	run_main(r, 4, shrink_main);
	expect_all(r, 4, 0, "");
}

CASE(test_bad_children, "bad children")
{
	static const int self[] = { 0 }, twice[] = { 0, 0 }, stranger[] = { 1 }, far[] = { 0, 2 };
	struct rank r[2];
	struct boot *b, *other, *child;
	make_ranks(r, 2);
	assert_int_equal(boot_tcp_open(r[0].id, 0, 2, &on_lo, &b), 0);
	assert_int_equal(boot_child(b, self, 1, 0, &child), CORALE_EINVAL); /* not connected */
	assert_int_equal(boot_tcp_open(r[0].id, 1, 2, &on_lo, &other), 0);
	while ((boot_poll(b) == 0) | (boot_poll(other) == 0))
		;
	assert_int_equal(boot_child(b, twice, 2, 0, &child), CORALE_EINVAL);
	assert_int_equal(boot_child(b, stranger, 1, 0, &child), CORALE_EINVAL);
	assert_int_equal(boot_child(b, far, 2, 0, &child), CORALE_EINVAL);
	assert_int_equal(boot_child(b, self, 0, 0, &child), CORALE_EINVAL);
	assert_int_equal(boot_child(b, self, 1, 0, &child), 0);
	assert_int_equal(gather(child, 0, 5), 0);
	boot_close(child);
	boot_close(b);
	boot_close(other);
}

/* ---- The warning */

/* Reads what was logged into the file. */
static void read_log(int fd, char *text, size_t bytes)
{
	ssize_t n = pread(fd, text, bytes - 1, 0);
	text[n > 0 ? n : 0] = '\0';
}

CASE(test_warning, "warning")
{
	struct rank r[4];
	char path[] = "/tmp/boot_test_XXXXXX", text[8192];
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	make_ranks(r, 4);
	r[1].delay = r[3].delay = 10.7;
	log_open(LOG_WARN, path);
	run(r, 4);
	log_open(LOG_NONE, NULL);
	read_log(fd, text, sizeof(text));
	close(fd);
	unlink(path);
	expect_all(r, 4, 0, "");
	char *first = strstr(text, "bootstrap: waiting for ranks 1, 3 of 4 (10 s)");
	assert_non_null(first);
	assert_non_null(
	    strstr(first + 1, "bootstrap: waiting for ranks 1, 3 of 4 (10 s)")); /* rank 0 and rank 2 */
	assert_null(strstr(text, "rank 1:"));
}

/* ---- Interfaces */

CASE(test_interfaces, "interfaces")
{
	static const struct {
		const char *spec, *name;
		int matches;
	} table[] = {
		{ "eth", "eth0", 1 },       { "eth", "veth0", 0 },         { "=eth", "eth0", 0 },
		{ "=eth0", "eth0", 1 },     { "eth,ib", "ib3", 1 },        { "^eth", "eth0", 0 },
		{ "^eth", "ib0", 1 },       { "^eth,ib", "ib0", 0 },       { "^=eth", "eth0", 1 },
		{ "^=eth0,ib", "ib0", 1 },  { "=eth0,eth1", "eth1", 1 },   { "=eth0,eth1", "eth11", 0 },
		{ "eth0:1234", "eth0", 1 }, { "=eth0:12,ib0", "eth0", 1 }, { "^docker,lo", "lo", 0 },
		{ "=eth0,=ib0", "ib0", 1 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (interface_matches(table[i].spec, table[i].name) != table[i].matches)
			fail_msg("'%s' and '%s'", table[i].spec, table[i].name);
	assert_int_equal(interface_family("AF_INET"), 4);
	assert_int_equal(interface_family("AF_INET6"), 6);
	assert_int_equal(interface_family(""), 0);
	assert_int_equal(interface_family("IPv6"), 0);
	assert_int_equal(interface_class("ib0"), 0);
	assert_int_equal(interface_class("eth0"), 1);
	assert_int_equal(interface_class("docker0"), 2);
	assert_int_equal(interface_class("lo"), 3);
	assert_int_equal(interface_class("lowpan0"), 1);

	struct boot_address a;
	char name[BOOT_INTERFACE_TEXT];
	assert_int_equal(boot_interface_choose("=lo", 4, &a, name), 0);
	assert_string_equal(name, "lo");
	assert_int_equal(a.ip[0], 127);
	assert_int_equal(boot_interface_choose(NULL, 0, &a, name), 0);
	assert_int_equal(boot_interface_choose("none", 0, &a, name), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "'none'"));
	assert_non_null(strstr(log_last_error(), "lo"));
}

/* ---- Forked children */

/* A child made in the middle of a group uses nothing of it, exits, or goes on living when its parent dies. */
static void *forking_main(void *arg)
{
	struct rank *r = arg;
	struct boot *b;
	r->result = boot_tcp_open(r->id, r->rank, r->size, &r->options, &b);
	if (!r->result)
		r->result = gather(b, 0, 8);
	pid_t pid = fork();
	if (pid == 0) {
		int x = boot_poll(b), byte = 0, out[8];
		int y = boot_start(b, &byte, 1, out);
		boot_close(b);
		_exit(x != CORALE_ENOTSUP || y != CORALE_ENOTSUP);
	}
	int status;
	if (waitpid(pid, &status, 0) != pid || status)
		r->result = CORALE_EINTERNAL;
	if (!r->result)
		r->result = gather(b, 1, 8);
	keep_text(r);
	if (r->rank == 1 && !r->result && fork() == 0) {
		clock_sleep_s(3); /* keeps no socket of its parent open */
		_exit(0);
	}
	if (r->rank == 1)
		kill(getpid(), SIGKILL);
	if (!r->result)
		r->result = gather(b, 2, 8) == CORALE_EPEER ? 0 : CORALE_EINTERNAL;
	boot_close(b);
	return NULL;
}

FORKS(test_fork, "fork")
{
	struct rank r[2], got;
	pid_t pids[2];
	int results[2];
	prepare_processes(r, 2);
	assert_int_equal(pipe(results), 0);
	for (int i = 0; i < 2; i++)
		pids[i] = fork_rank(&r[i], results[1], forking_main);
	double start = clock_s();
	assert_int_equal(read(results[0], &got, sizeof(got)), sizeof(got));
	assert_true(is_in_time(clock_s() - start, 2.5));
	assert_int_equal(got.rank, 0);
	expect_all(&got, 1, 0, "");
	wait_for(pids[0], 0);
	wait_for(pids[1], SIGKILL);
	close(results[0]);
	close(results[1]);
	stop_maker();
}

/* Without an argument: all cases; else that of this name. */
int main(int argc, char **argv)
{
	log_open(LOG_NONE, NULL);
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return unit_run(NULL, NULL);
}
