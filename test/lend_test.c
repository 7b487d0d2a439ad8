/*
 * Messages by reference whose reader can't read the sender's memory (any more): rights that were given up after creation, a filter of system calls, memory that
 * the kernel reads for nobody, and buffers that are not mapped. Ranks are processes, started before this one uses Corale, which it never does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "forked.h"

enum { COUNT = 300000, ROUNDS = 3, NEVER = -1 };

enum buffers { PLAIN, SECRET, UNMAPPED_SEND, UNMAPPED_RECV };

struct scene {
	const char *name;
	int ranks;
	unsigned blind; /* ranks that may not read, a bit each */
	int reads; /* that they may do before, once the communicator is there */
	enum buffers buffers; /* of rank 1 */
	const char *reference; /* CORALE_REFERENCE */
	const char *message; /* over nodes of a rank: CORALE_UCX_MESSAGE; NULL: one node */
};

static const struct scene scenes[] = {
	{ "nobody may read", 2, 3, 0, PLAIN, "auto", NULL },
	{ "nobody may read, folds", 2, 3, 0, PLAIN, "yes", NULL },
	{ "one of four may not read", 4, 4, 0, PLAIN, "auto", NULL },
	{ "one of four may not read, folds", 4, 4, 0, PLAIN, "yes", NULL },
	{ "two of three may not read", 3, 5, 0, PLAIN, "yes", NULL },
	{ "no more after 3 reads", 3, 7, 3, PLAIN, "yes", NULL },
	{ "no more after 8 reads", 3, 2, 8, PLAIN, "yes", NULL },
	{ "no more after 21 reads", 4, 15, 21, PLAIN, "yes", NULL },
	{ "secret memory", 3, 0, NEVER, SECRET, "auto", NULL },
	{ "secret memory, folds", 3, 0, NEVER, SECRET, "yes", NULL },
	{ "a send buffer that is not mapped", 2, 0, NEVER, UNMAPPED_SEND, "auto", NULL },
	{ "a send buffer that is not mapped, three ranks", 3, 0, NEVER, UNMAPPED_SEND, "yes", NULL },
	{ "a receive buffer that is not mapped", 2, 0, NEVER, UNMAPPED_RECV, "auto", NULL },
	{ "a send buffer that is not mapped, over nodes", 2, 0, NEVER, UNMAPPED_SEND, "auto", "auto" },
	{ "the same, by tag", 2, 0, NEVER, UNMAPPED_SEND, "auto", "tag" },
	{ "the same, put", 2, 0, NEVER, UNMAPPED_SEND, "auto", "put" },
	{ "the same, three ranks", 3, 0, NEVER, UNMAPPED_SEND, "auto", "am" },
};

static corale_comm *comm; /* of this rank's process */

static const struct scene *scene_of(const struct forked *r)
{
	return r->arg;
}

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

static int32_t value(int rank, int round, size_t i)
{
	return (int32_t)(i * 7 + i / 1000) + 1000000 * rank + round;
}

/* ---- Calls whose data is right ---- */

static void expect(struct forked *r, const char *call, int ret, const int32_t *got, int32_t expected)
{
	if (ret)
		forked_fault(r, "%s: %s: %s", call, corale_strerror(ret), corale_comm_last_error(comm));
	else if (*got != expected)
		forked_fault(r, "%s: %d, expected %d", call, (int)*got, (int)expected);
}

static void gather(struct forked *r, int round, const int32_t *in, int32_t *out)
{
	const int ret = corale_all_gather(in, out, COUNT, CORALE_INT32, comm, NULL);
	for (int q = 0; q < r->size; q++)
		for (size_t i = 0; i < COUNT; i++)
			expect(r, "all_gather", ret, &out[(size_t)q * COUNT + i], value(q, round, i));
}

/* In place: a message that is folded twice shows. */
static void reduce(struct forked *r, int round, const int32_t *in, int32_t *out)
{
	memcpy(out, in, COUNT * sizeof *in);
	const int ret = corale_all_reduce(out, out, COUNT, CORALE_INT32, CORALE_SUM, comm, NULL);
	for (size_t i = 0; i < COUNT; i++) {
		int32_t sum = 0;
		for (int q = 0; q < r->size; q++)
			sum += value(q, round, i);
		expect(r, "all_reduce", ret, &out[i], sum);
	}
}

static void broadcast(struct forked *r, int round, const int32_t *in, int32_t *out)
{
	const int ret = corale_broadcast(in, out, COUNT, CORALE_INT32, 1, comm, NULL);
	for (size_t i = 0; i < COUNT; i++)
		expect(r, "broadcast", ret, &out[i], value(1, round, i));
}

/* To the next rank, from the one before. */
static void shift(struct forked *r, int round, const int32_t *in, int32_t *out)
{
	const int n = r->size, from = (r->rank + n - 1) % n;
	corale_group_begin();
	int ret = corale_send(in, COUNT, CORALE_INT32, (r->rank + 1) % n, comm, NULL);
	ret = ret ? ret : corale_recv(out, COUNT, CORALE_INT32, from, comm, NULL);
	const int end = corale_group_end();
	for (size_t i = 0; i < COUNT; i++)
		expect(r, "send and recv", ret ? ret : end, &out[i], value(from, round, i));
}

static void goes_on(struct forked *r, int32_t *in, int32_t *out)
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

/* The rank that has given the buffer is told which, the others who has failed; between nodes whoever has ended it, perhaps by its connection alone. */
static void fails(struct forked *r, int32_t *in, int32_t *out)
{
	const struct scene *s = scene_of(r);
	const int sends = s->buffers == UNMAPPED_SEND,
		  ret = corale_broadcast(in, sends && r->rank == 1 ? in : out, COUNT, CORALE_INT32, sends,
					 comm, NULL),
		  told = ret == CORALE_ESYSTEM || (s->message && r->rank != 1 && ret != 0);
	const char *said = corale_comm_last_error(comm), *expected = r->rank != 1
									 ? s->message ? "rank " : "rank 1"
								     : sends ? "send buffer"
									     : "receive buffer";
	if (!told || !strstr(said, expected))
		forked_fault(r, "got %s: %s; expected: %s", corale_strerror(ret), said, expected);
}

/* ---- Scenes ---- */

static int32_t *get_memory(struct forked *r, enum buffers special, size_t n)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS, protection = PROT_READ | PROT_WRITE;
	if (r->rank == 1 && scene_of(r)->buffers == special) {
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

static int play(struct forked *r)
{
	const struct scene *s = scene_of(r);
	const enum buffers sent = s->buffers == SECRET ? SECRET : UNMAPPED_SEND;
	int32_t *in = get_memory(r, sent, COUNT),
		*out = get_memory(r, UNMAPPED_RECV, (size_t)r->size * COUNT);
	comm = forked_create(r);
	if (!comm || !in || !out)
		return 1;
	reads_left = s->blind >> r->rank & 1 ? s->reads : NEVER;
	if (s->buffers == UNMAPPED_SEND || s->buffers == UNMAPPED_RECV)
		fails(r, in, out);
	else
		goes_on(r, in, out);
	corale_comm_destroy(comm);
	return 0;
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
	char path[] = "/tmp/lend_test.XXXXXX";
	FILE *log = fdopen(mkstemp(path), "r");
	assert_non_null(log);
	setenv("CORALE_DEBUG", "info", 1);
	setenv("CORALE_LOG_FILE", path, 1);
	setenv("CORALE_TIMEOUT", "10", 1);
	setenv("CORALE_REFERENCE", s->reference, 1);
	setenv("CORALE_NODE_SIZE", s->message ? "1" : "0", 1);
	setenv("CORALE_UCX_MESSAGE", s->message ? s->message : "auto", 1);
	const int faults = forked_run(s->ranks, FORKED_NOBODY, play, s);
	expect_lines(s, log);
	fclose(log);
	unlink(path);
	assert_int_equal(faults, 0);
}

enum { SCENES = sizeof scenes / sizeof *scenes };

int main(void)
{
	struct CMUnitTest tests[SCENES];
	const int has_ucx = forked_has_ucx();
	size_t n = 0;
	for (int i = 0; i < SCENES; i++)
		if (!scenes[i].message || has_ucx)
			tests[n++] = (struct CMUnitTest){ scenes[i].name, run_scene, NULL, NULL,
							  (void *)(uintptr_t)&scenes[i] };
	printf("# %zu of %d scenes%s\n", n, SCENES, has_ucx ? "" : ": this build has no UCX");
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
