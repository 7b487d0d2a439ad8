/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by reference whose reader can't read the sender's memory (any more): rights that were given up after creation, a filter of system calls, memory that
 * the kernel reads for nobody; and buffers that are not mapped, or only in part, or can't be written to, between nodes too. Ranks are processes, started before this one uses Corale, which it never does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/forked.h"

enum { COUNT = 300000, ROUNDS = 3, CALLS = 4, NEVER = -1 };

enum buffers { PLAIN, SECRET, UNMAPPED_SEND, GAP_SEND, UNMAPPED_RECV, SHORT_RECV, READ_ONLY_RECV };

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
	{ "a send buffer with a gap", 2, 0, NEVER, GAP_SEND, "auto", NULL },
	{ "a receive buffer that is too short", 3, 0, NEVER, SHORT_RECV, "no", NULL },
	{ "a receive buffer that is read-only", 2, 0, NEVER, READ_ONLY_RECV, "auto", NULL },
	{ "the same, by slots", 3, 0, NEVER, READ_ONLY_RECV, "no", NULL },
	{ "a send buffer that is not mapped, over nodes", 2, 0, NEVER, UNMAPPED_SEND, "auto", "auto" },
	{ "the same, by tag", 2, 0, NEVER, UNMAPPED_SEND, "auto", "tag" },
	{ "the same, put", 2, 0, NEVER, UNMAPPED_SEND, "auto", "put" },
	{ "the same, three ranks", 3, 0, NEVER, UNMAPPED_SEND, "auto", "am" },
	{ "a send buffer with a gap, over nodes", 3, 0, NEVER, GAP_SEND, "auto", "tag" },
	{ "a receive buffer that is not mapped, over nodes", 2, 0, NEVER, UNMAPPED_RECV, "auto", "am" },
	{ "a receive buffer that is too short, over nodes", 3, 0, NEVER, SHORT_RECV, "auto", "put" },
	{ "a receive buffer that is read-only, over nodes", 2, 0, NEVER, READ_ONLY_RECV, "auto", "auto" },
	{ "the same, three ranks", 3, 0, NEVER, READ_ONLY_RECV, "auto", "tag" },
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

static int is_sent(enum buffers bad)
{
	return bad == UNMAPPED_SEND || bad == GAP_SEND;
}

static int call_with(const struct forked *r, int32_t *in, int32_t *out, int call)
{
	const int sends = is_sent(scene_of(r)->buffers), rank = r->rank, n = r->size;
	if (call == 0)
		return corale_broadcast(in, sends && rank == 1 ? in : out, COUNT, CORALE_INT32, sends, comm,
					NULL);
	if (call == 1)
		return corale_all_reduce(in, out, COUNT, CORALE_INT32, CORALE_SUM, comm, NULL);
	const size_t counts[FORKED_RANKS] = { COUNT, COUNT, COUNT, COUNT },
		     displs[FORKED_RANKS] = { 0, COUNT, 2 * COUNT, 3 * COUNT };
	if (call == 2)
		return corale_all_gather_v(in, out, counts, displs, CORALE_INT32, comm, NULL);
	corale_group_begin();
	corale_send(in, COUNT, CORALE_INT32, (rank + 1) % n, comm, NULL);
	corale_recv(out, COUNT, CORALE_INT32, (rank + n - 1) % n, comm, NULL);
	return corale_group_end();
}

/* The rank that has given the buffer is told which, before anybody sends it or receives into it; the others who has failed, unless all that they needed has come. */
static void expect_failure(struct forked *r, int call, int ret, const void *bad)
{
	const struct scene *s = scene_of(r);
	const char *said = corale_comm_last_error(comm),
		   *side = is_sent(s->buffers) ? "send buffer" : "receive buffer";
	char at[64];
	snprintf(at, sizeof at, ": %zu bytes at %p", COUNT * sizeof(int32_t), bad);
	const int is_named =
	    r->rank == 1 ? strstr(said, at) && strstr(said, side) : strstr(said, "rank 1") != NULL;
	if (!(ret == CORALE_ESYSTEM && is_named) &&
	    (ret || r->rank == 1 || (is_sent(s->buffers) && call < CALLS - 1)))
		forked_fault(r, "call %d: got %s: %s; expected: %s%s", call, corale_strerror(ret), said, side,
			     at);
}

static void fails(struct forked *r, int32_t *in, int32_t *out)
{
	for (int call = 0; call < CALLS; call++) {
		char mine = 0, all[FORKED_RANKS];
		expect_failure(r, call, call_with(r, in, out, call),
			       is_sent(scene_of(r)->buffers) ? in : out);
		/* A rank that destroys its communicator at once may be seen to have left before why it failed is heard. */
		if (forked_gather(r->sockets, r->rank, r->size, &mine, 1, all))
			forked_fault(r, "the ranks can't meet");
		corale_comm_destroy(comm);
		comm = forked_create(r);
	}
}

/* ---- Scenes ---- */

static int32_t *get_memory(struct forked *r, int is_send, size_t n)
{
	const enum buffers kind = r->rank == 1 ? scene_of(r)->buffers : PLAIN;
	const size_t bytes = n * sizeof(int32_t);
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	if (is_send && kind == SECRET) {
#ifdef SYS_memfd_secret
		fd = (int)syscall(SYS_memfd_secret, 0);
#endif
		if (fd >= 0 && !ftruncate(fd, (off_t)bytes))
			flags = MAP_SHARED;
		else
			fprintf(stderr, "# ordinary memory: this system has no memfd_secret\n");
	}
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (memory == MAP_FAILED && fd >= 0) /* its limit is that of locked memory */
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (is_sent(kind) == is_send && (kind == UNMAPPED_SEND || kind == UNMAPPED_RECV))
		mprotect(memory, bytes, PROT_NONE);
	else if (is_send && kind == GAP_SEND)
		mprotect(memory + (512 << 10), 64 << 10,
			 PROT_NONE); /* a gap would be given to the next that maps */
	else if (!is_send && kind == SHORT_RECV)
		mprotect(memory + (1 << 20), bytes - (1 << 20), PROT_NONE);
	else if (!is_send && kind == READ_ONLY_RECV)
		mprotect(memory, bytes, PROT_READ);
	return (int32_t *)(void *)memory;
}

static int play(struct forked *r)
{
	const struct scene *s = scene_of(r);
	int32_t *in = get_memory(r, 1, COUNT), *out = get_memory(r, 0, (size_t)r->size * COUNT);
	comm = forked_create(r);
	if (!comm || !in || !out)
		return 1;
	reads_left = s->blind >> r->rank & 1 ? s->reads : NEVER;
	if (s->buffers > SECRET)
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
