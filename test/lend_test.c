/*
 * Messages by reference whose reader can't read the sender's memory (any more): rights that were given up after creation, a filter of system calls, memory that
 * the kernel reads for nobody, and buffers that are not mapped. Ranks are processes, started before this one uses Corale, which it never does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "corale.h"

enum { MOST_RANKS = 4, COUNT = 300000, ROUNDS = 3, NEVER = -1 };

enum buffers { PLAIN, SECRET, UNMAPPED_SEND, UNMAPPED_RECV };

struct scene {
	const char *name;
	int ranks;
	unsigned blind; /* ranks that may not read, a bit each */
	int reads; /* that they may do before, once the communicator is there */
	enum buffers buffers; /* of rank 1 */
	const char *reference; /* CORALE_REFERENCE */
};

static const struct scene scenes[] = {
	{ "nobody may read", 2, 3, 0, PLAIN, "auto" },
	{ "nobody may read, folds", 2, 3, 0, PLAIN, "yes" },
	{ "one of four may not read", 4, 4, 0, PLAIN, "auto" },
	{ "one of four may not read, folds", 4, 4, 0, PLAIN, "yes" },
	{ "two of three may not read", 3, 5, 0, PLAIN, "yes" },
	{ "no more after 3 reads", 3, 7, 3, PLAIN, "yes" },
	{ "no more after 8 reads", 3, 2, 8, PLAIN, "yes" },
	{ "no more after 21 reads", 4, 15, 21, PLAIN, "yes" },
	{ "secret memory", 3, 0, NEVER, SECRET, "auto" },
	{ "secret memory, folds", 3, 0, NEVER, SECRET, "yes" },
	{ "a send buffer that is not mapped", 2, 0, NEVER, UNMAPPED_SEND, "auto" },
	{ "a send buffer that is not mapped, three ranks", 3, 0, NEVER, UNMAPPED_SEND, "yes" },
	{ "a receive buffer that is not mapped", 2, 0, NEVER, UNMAPPED_RECV, "auto" },
};

struct rank {
	const struct scene *scene;
	int rank, sockets[MOST_RANKS], faults;
	corale_comm *comm;
};

/* ---- What the kernel lets a rank do ---- */

static int reads_left = NEVER;

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long nhere, const struct iovec *there,
			 unsigned long nthere, unsigned long flags)
{
	if (!reads_left) {
		errno = EPERM;
		return -1;
	}
	reads_left -= reads_left > 0;
	return syscall(SYS_process_vm_readv, pid, here, nhere, there, nthere, flags);
}

/* ---- Ranks ---- */

static void fault(struct rank *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fault(struct rank *r, const char *format, ...)
{
	char text[700];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!r->faults++)
		fprintf(stderr, "# %s, rank %d: %s\n", r->scene->name, r->rank, text);
}

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	const struct rank *r = ctx;
	int failed = 0;
	memcpy((char *)out + (size_t)r->rank * bytes, in, bytes);
	for (int peer = 0; peer < r->scene->ranks; peer++)
		if (peer != r->rank)
			failed |= write(r->sockets[peer], in, bytes) != (ssize_t)bytes;
	for (int peer = 0; peer < r->scene->ranks && !failed; peer++)
		if (peer != r->rank)
			failed |= recv(r->sockets[peer], (char *)out + (size_t)peer * bytes, bytes,
				       MSG_WAITALL) != (ssize_t)bytes;
	return failed;
}

static int32_t value(int rank, int round, size_t i)
{
	return (int32_t)(i * 7 + i / 1000) + 1000000 * rank + round;
}

/* ---- Calls whose data is right ---- */

static void expect(struct rank *r, const char *call, int ret, const int32_t *got, int32_t expected)
{
	if (ret)
		fault(r, "%s: %s: %s", call, corale_strerror(ret), corale_comm_last_error(r->comm));
	else if (*got != expected)
		fault(r, "%s: %d, expected %d", call, (int)*got, (int)expected);
}

static void gather(struct rank *r, int round, const int32_t *in, int32_t *out)
{
	const int ret = corale_all_gather(in, out, COUNT, CORALE_INT32, r->comm, NULL);
	for (int q = 0; q < r->scene->ranks; q++)
		for (size_t i = 0; i < COUNT; i++)
			expect(r, "all_gather", ret, &out[(size_t)q * COUNT + i], value(q, round, i));
}

/* In place: a message that is folded twice shows. */
static void reduce(struct rank *r, int round, const int32_t *in, int32_t *out)
{
	memcpy(out, in, COUNT * sizeof *in);
	const int ret = corale_all_reduce(out, out, COUNT, CORALE_INT32, CORALE_SUM, r->comm, NULL);
	for (size_t i = 0; i < COUNT; i++) {
		int32_t sum = 0;
		for (int q = 0; q < r->scene->ranks; q++)
			sum += value(q, round, i);
		expect(r, "all_reduce", ret, &out[i], sum);
	}
}

static void broadcast(struct rank *r, int round, const int32_t *in, int32_t *out)
{
	const int ret = corale_broadcast(in, out, COUNT, CORALE_INT32, 1, r->comm, NULL);
	for (size_t i = 0; i < COUNT; i++)
		expect(r, "broadcast", ret, &out[i], value(1, round, i));
}

/* To the next rank, from the one before. */
static void shift(struct rank *r, int round, const int32_t *in, int32_t *out)
{
	const int n = r->scene->ranks, from = (r->rank + n - 1) % n;
	corale_group_begin();
	int ret = corale_send(in, COUNT, CORALE_INT32, (r->rank + 1) % n, r->comm, NULL);
	ret = ret ? ret : corale_recv(out, COUNT, CORALE_INT32, from, r->comm, NULL);
	const int end = corale_group_end();
	for (size_t i = 0; i < COUNT; i++)
		expect(r, "send and recv", ret ? ret : end, &out[i], value(from, round, i));
}

static void goes_on(struct rank *r, int32_t *in, int32_t *out)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < COUNT; i++)
			in[i] = value(r->rank, round, i);
		reduce(r, round, in, out);
		gather(r, round, in, out);
		broadcast(r, round, in, out);
		shift(r, round, in, out);
	}
}

/* ---- Calls that fail ---- */

/* The rank that has given the buffer is told which, the others who has failed. */
static void fails(struct rank *r, int32_t *in, int32_t *out)
{
	const int sends = r->scene->buffers == UNMAPPED_SEND,
		  ret = corale_broadcast(in, sends && r->rank == 1 ? in : out, COUNT, CORALE_INT32, sends,
					 r->comm, NULL);
	const char *said = corale_comm_last_error(r->comm), *expected = r->rank != 1 ? "rank 1 has ended"
									: sends      ? "send buffer"
										     : "receive buffer";
	if (ret != CORALE_ESYSTEM || !strstr(said, expected))
		fault(r, "got %s: %s; expected: %s", corale_strerror(ret), said, expected);
}

/* ---- Scenes ---- */

static int32_t *get_memory(struct rank *r, enum buffers special, size_t n)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS, protection = PROT_READ | PROT_WRITE;
	if (r->rank == 1 && r->scene->buffers == special) {
		protection = special == SECRET ? protection : PROT_NONE;
#ifdef SYS_memfd_secret
		fd = special == SECRET ? (int)syscall(SYS_memfd_secret, 0) : -1;
#endif
		if (fd >= 0 && !ftruncate(fd, (off_t)(n * sizeof(int32_t))))
			flags = MAP_SHARED;
		else if (special == SECRET)
			fprintf(stderr, "# ordinary memory: this system has no memfd_secret\n");
	}
	void *memory = mmap(NULL, n * sizeof(int32_t), protection, flags, fd, 0);
	if (memory == MAP_FAILED && fd >= 0) /* its limit is that of locked memory */
		memory = mmap(NULL, n * sizeof(int32_t), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static int play(struct rank *r)
{
	const struct scene *s = r->scene;
	const corale_bootstrap bootstrap = { r->rank, s->ranks, r, allgather };
	const enum buffers sent = s->buffers == SECRET ? SECRET : UNMAPPED_SEND;
	int32_t *in = get_memory(r, sent, COUNT),
		*out = get_memory(r, UNMAPPED_RECV, (size_t)s->ranks * COUNT);
	alarm(30);
	signal(SIGSEGV, SIG_DFL); /* cmocka's handler goes on with the next test */
	const int ret = corale_comm_create(&bootstrap, NULL, &r->comm);
	if (ret || !in || !out) {
		fault(r, "creation: %s", corale_strerror(ret));
		return 1;
	}
	reads_left = s->blind >> r->rank & 1 ? s->reads : NEVER;
	if (s->buffers == UNMAPPED_SEND || s->buffers == UNMAPPED_RECV)
		fails(r, in, out);
	else
		goes_on(r, in, out);
	corale_comm_destroy(r->comm);
	return r->faults != 0;
}

/* One line a rank that can't read. */
static void expect_lines(const struct scene *s, FILE *log)
{
	char line[1024];
	int lines = 0;
	rewind(log);
	while (fgets(line, sizeof line, log))
		lines += strstr(line, "memory any more") != NULL;
	if (s->blind && s->reads == 0)
		assert_int_equal(lines, __builtin_popcount(s->blind));
	assert_true(lines <= s->ranks);
}

static void run_scene(void **state)
{
	const struct scene *s = *state;
	int ends[MOST_RANKS][MOST_RANKS] = { { 0 } }, status, faults = 0;
	char path[] = "/tmp/lend_test.XXXXXX";
	FILE *log = fdopen(mkstemp(path), "r");
	assert_non_null(log);
	setenv("CORALE_DEBUG", "info", 1);
	setenv("CORALE_LOG_FILE", path, 1);
	setenv("CORALE_TIMEOUT", "10", 1);
	setenv("CORALE_REFERENCE", s->reference, 1);
	for (int a = 0; a < s->ranks; a++) {
		for (int b = 0; b < a; b++) {
			int pair[2];
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
			ends[a][b] = pair[0];
			ends[b][a] = pair[1];
		}
	}
	for (int a = 0; a < s->ranks; a++) {
		struct rank rank = { .scene = s, .rank = a };
		memcpy(rank.sockets, ends[a], sizeof rank.sockets);
		if (!fork())
			_exit(play(&rank));
	}
	while (wait(&status) > 0)
		faults += status != 0;
	for (int a = 0; a < s->ranks; a++)
		for (int b = 0; b < s->ranks; b++)
			if (a != b)
				close(ends[a][b]);
	expect_lines(s, log);
	fclose(log);
	unlink(path);
	assert_int_equal(faults, 0);
}

enum { SCENES = sizeof scenes / sizeof *scenes };

int main(void)
{
	struct CMUnitTest tests[SCENES];
	for (int i = 0; i < SCENES; i++)
		tests[i] = (struct CMUnitTest){ scenes[i].name, run_scene, NULL, NULL,
						(void *)(uintptr_t)&scenes[i] };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
