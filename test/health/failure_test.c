/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that have failed: a rank that is killed is named by those that read its memory, and whoever knows of a
 * failure is refused further calls. Runs itself for each case: a process that has threads must not fork.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "comm/comm_doors.h"
#include "test/helpers/team.h"

enum { RANKS = 4, LARGE = 4 << 20, PAUSE_MS = 300, PATIENCE_S = 10 };

/* ---- A process that is killed ---- */

static int32_t data[LARGE];

/* Two processes at the ends of a socket. */
static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	const int *end = ctx;
	int rank = end[1];
	memcpy((char *)out + (size_t)rank * bytes, in, bytes);
	return write(end[0], in, bytes) != (ssize_t)bytes ||
	       recv(end[0], (char *)out + (size_t)(1 - rank) * bytes, bytes, MSG_WAITALL) != (ssize_t)bytes;
}

static corale_comm *join(int *end)
{
	corale_bootstrap bootstrap = { .rank = end[1], .size = 2, .ctx = end, .allgather = allgather };
	corale_comm *comm = NULL;
	int ret = corale_comm_create(&bootstrap, NULL, &comm);
	if (ret)
		fprintf(stderr, "# rank %d: corale_comm_create: %s\n", end[1], corale_strerror(ret));
	return comm;
}

static int complain(const char *what, int got, int expected)
{
	if (got != expected)
		fprintf(stderr, "# %s: got %d (%s), expected %d (%s)\n", what, got, corale_strerror(got),
			expected, corale_strerror(expected));
	return got != expected;
}

/*
 * Rank 0, whose peer is dead when it reads the message that the peer has announced. On a busy machine the watch thread
 * has seen the death before the call began.
 */
static int read_dead(corale_comm *comm)
{
	int ret = corale_recv(data, LARGE, CORALE_INT32, 1, comm, NULL);
	int faults = ret == CORALE_ECOMM ? 0 : complain("recv from a dead rank", ret, CORALE_EPEER);
	const char *text = corale_comm_last_error(comm);
	if (!strstr(text, "rank 1") || !(strstr(text, "has ended") || strstr(text, "has died"))) {
		fprintf(stderr, "# \"%s\" should say that rank 1 has ended or died\n", text);
		faults++;
	}
	faults += complain("a call after", corale_recv(data, 1, CORALE_INT32, 1, comm, NULL), CORALE_ECOMM);
	faults += complain("async_error", corale_comm_async_error(comm), CORALE_EPEER);
	corale_comm_destroy(comm);
	return faults;
}

/* Whether the kernel lets us read a child's memory at all; else messages do not go by reference. */
static int can_read(pid_t pid)
{
	int32_t word;
	struct iovec here = { &word, sizeof(word) }, there = { data, sizeof(word) };
	return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(word);
}

static int killed_process(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	pid_t child = fork();
	if (child == 0) {
		corale_comm *comm = join((int[]){ ends[1], 1 });
		_exit(corale_send(data, LARGE, CORALE_INT32, 0, comm, NULL) != 0);
	}
	corale_comm *comm = join((int[]){ ends[0], 0 });
	clock_sleep_ms(PAUSE_MS); /* the child waits until its memory was read */
	int readable = can_read(child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (comm && !readable)
		fprintf(stderr, "# left out: the kernel lets no process read another one's memory\n");
	return !comm || (readable && read_dead(comm));
}

/* ---- Ranks that choose how calls run by other facts ---- */

enum {
	LABEL_BYTES = 16, /* in front of a record and behind it (lib/net/exchange.c) */
	STATUS_BYTES = LABEL_BYTES + 8,
	CHOSEN_BYTES = STATUS_BYTES + 16 + LABEL_BYTES
}; /* of no other exchange of creation in one node */

/* As allgather, but what this rank chooses by is not what it says. */
static int allgather_other(void *ctx, const void *in, size_t bytes, void *out)
{
	unsigned char other[CHOSEN_BYTES];
	if (bytes != CHOSEN_BYTES)
		return allgather(ctx, in, bytes, out);
	memcpy(other, in, bytes);
	other[STATUS_BYTES] ^= 1;
	return allgather(ctx, other, bytes, out);
}

static int join_other(int end, int rank)
{
	int ends[] = { end, rank };
	corale_comm *comm = NULL;
	const corale_bootstrap bootstrap = {
		.rank = rank, .size = 2, .ctx = ends, .allgather = rank ? allgather_other : allgather
	};
	const int ret = corale_comm_create(&bootstrap, NULL, &comm);
	const int faults = complain("creation with other facts", ret, CORALE_ESETTING);
	if (!strstr(log_last_error(), "ranks 0 and 1")) {
		fprintf(stderr, "# \"%s\" should name both ranks\n", log_last_error());
		return faults + 1;
	}
	return faults;
}

static int other_facts(void)
{
	int ends[2], status;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	const pid_t child = fork();
	if (child == 0)
		_exit(join_other(ends[1], 1));
	const int faults = join_other(ends[0], 0);
	waitpid(child, &status, 0);
	return faults + status;
}

/* ---- A sender that aborts while its buffer is read ---- */

enum { ABORTS = 40, SENT = 5, REUSED = -1 };

static void fill(int32_t *buffer, int32_t value)
{
	for (int i = 0; i < LARGE; i++)
		buffer[i] = value;
}

struct aborter {
	corale_comm *comm;
	int delay_us;
};

static void *abort_later(void *arg)
{
	const struct aborter *a = arg;
	nanosleep(&(struct timespec){ 0, a->delay_us * 1000l }, NULL);
	corale_comm_abort(a->comm);
	return NULL;
}

/* The call may end either way; when it has ended the buffer is the caller's again. */
static void send_and_reuse(corale_comm *comm, int32_t *buffer, int try)
{
	struct aborter a = { comm, 50 + 150 * try };
	pthread_t thread;
	fill(buffer, SENT);
	if (pthread_create(&thread, NULL, abort_later, &a))
		abort();
	corale_send(buffer, LARGE, CORALE_INT32, 0, comm, NULL);
	fill(buffer, REUSED);
	pthread_join(thread, NULL);
}

static int receive_sent(corale_comm *comm, int32_t *buffer)
{
	int wrong = 0;
	fill(buffer, 0);
	if (corale_recv(buffer, LARGE, CORALE_INT32, 1, comm, NULL))
		return 0;
	for (int i = 0; i < LARGE; i++)
		wrong += buffer[i] != SENT;
	if (wrong)
		fprintf(stderr, "# recv returned 0 with %d of %d elements wrong\n", wrong, LARGE);
	return wrong != 0;
}

static int aborting_process(void)
{
	int ends[2], faults = 0, status = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	pid_t child = fork();
	for (int try = 0; try < ABORTS; try++) {
		corale_comm *comm = join((int[]){ ends[child == 0], child == 0 });
		if (!comm)
			return 1;
		if (child == 0)
			send_and_reuse(comm, data, try);
		else
			faults += receive_sent(comm, data);
		corale_comm_destroy(comm);
	}
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	return faults + (status != 0);
}

static void abort_between_threads(struct team_member *m)
{
	static int32_t sent[LARGE];
	for (int try = 0; try < ABORTS; try++) {
		corale_comm *comm = NULL;
		if (corale_comm_split(m->comm, 0, 0, &comm))
			team_fault(m, "no communicator");
		team_barrier(m);
		if (comm && m->rank == 1)
			send_and_reuse(comm, sent, try);
		if (comm && m->rank == 0 && receive_sent(comm, data))
			team_fault(m, "wrong data");
		corale_comm_destroy(comm);
	}
}

static int aborting_thread(void)
{
	return team_run(2, NULL, abort_between_threads, NULL);
}

/* ---- Buffers that are unmapped when a call has failed ---- */

enum { HOLD_MS = 150, LATE_MS = 3000, HELD_BYTES = LARGE * 4, ROUNDS = 12, SOME = 1 << 20 };

/* How rank 1's call fails while rank 0, a thread of the same process, loads from its buffer. */
enum way { ABORTED, ABORTED_BY_OTHER, DESTROYED, QUITS, REVOKED, MISMATCHED, WAYS, TOO_LATE = WAYS };

static struct {
	unsigned char *landing; /* of rank 0, which can't store to its second page until it was held */
	_Atomic int reading, acted, returned, early;
	int patience_ms;
} held;

static void *map(size_t bytes, int protection)
{
	void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void await(_Atomic int *event, int ms)
{
	for (; ms > 0 && !atomic_load(event); ms--)
		clock_sleep_ms(1);
}

/* Rank 0's first store of the message it copies: it has loaded from rank 1's buffer, and goes on loading afterwards. */
static void hold(int number, siginfo_t *info, void *context)
{
	static const char lost[] = "# a buffer was read after the call that had lent it\n";
	const uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)held.landing;
	if (at >= HELD_BYTES || atomic_exchange(&held.reading, 1))
		_exit(write(2, lost, sizeof(lost) - 1) ? 1 : 2);
	await(&held.acted, PATIENCE_S * 1000);
	await(&held.returned, held.patience_ms);
	atomic_store(&held.early, atomic_load(&held.returned));
	mprotect(held.landing, HELD_BYTES, PROT_READ | PROT_WRITE);
}

struct ender {
	corale_comm *comm;
	enum way way;
};

static void *end_call(void *arg)
{
	const struct ender *e = arg;
	int32_t one = 1;
	await(&held.reading, PATIENCE_S * 1000);
	if (e->way == DESTROYED)
		atomic_store(&held.acted, 1); /* it waits for the call */
	if (e->way == ABORTED || e->way == ABORTED_BY_OTHER)
		corale_comm_abort(e->comm);
	else if (e->way == DESTROYED)
		corale_comm_destroy(e->comm);
	else if (e->way == QUITS)
		comm_quit(e->comm);
	else if (e->way == REVOKED)
		comm_revoke(e->comm);
	else if (e->way == MISMATCHED)
		corale_send(&one, 1, CORALE_INT32, 1, e->comm, NULL);
	atomic_store(&held.acted, 1);
	return NULL;
}

static void lend(struct team_member *m, corale_comm *comm, enum way way)
{
	int32_t *buffer = map(HELD_BYTES, PROT_READ | PROT_WRITE), two[2];
	struct ender ender = { comm, way };
	pthread_t thread;
	const int by_other = way == ABORTED_BY_OTHER || way == MISMATCHED;
	fill(buffer, SENT);
	if (!by_other && pthread_create(&thread, NULL, end_call, &ender))
		abort();
	if (way == MISMATCHED) {
		corale_group_begin();
		corale_recv(two, 2, CORALE_INT32, 2, comm, NULL);
	}
	int ret = corale_send(buffer, LARGE, CORALE_INT32, 0, comm, NULL);
	if (way == MISMATCHED)
		ret = corale_group_end();
	atomic_store(&held.returned, 1);
	munmap(buffer, HELD_BYTES);
	if (!by_other)
		pthread_join(thread, NULL);
	if (!ret && way != DESTROYED) /* that one may come when the call has ended */
		team_fault(m, "way %d: the call should have failed", (int)way);
}

static void hold_reader(struct team_member *m, corale_comm *comm, enum way way)
{
	const int32_t *got = (const int32_t *)(void *)held.landing;
	int wrong = 0;
	const int ret = corale_recv(held.landing, LARGE, CORALE_INT32, 1, comm, NULL);
	for (int i = 0; !ret && i < LARGE; i++)
		wrong += got[i] != SENT;
	if (wrong)
		team_fault(m, "way %d: status 0, and %d elements are wrong", (int)way, wrong);
	if (!atomic_load(&held.reading))
		team_fault(m, "way %d: nothing was read (%s)", (int)way, corale_strerror(ret));
	if (atomic_load(&held.early))
		team_fault(m, "way %d: the lender's call ended while its buffer was read", (int)way);
}

static void fail_lender(struct team_member *m, enum way way)
{
	corale_comm *comm = NULL;
	if (corale_comm_split(m->comm, 0, 0, &comm))
		team_fault(m, "no communicator");
	if (m->rank == 0) {
		held.landing = map(HELD_BYTES, PROT_READ | PROT_WRITE);
		mprotect(held.landing + 4096, 4096, PROT_READ); /* the call looks at a byte of 64 KB */
		held.reading = held.returned = held.early = 0;
		held.acted = way == TOO_LATE;
		held.patience_ms = way == TOO_LATE ? LATE_MS : HOLD_MS;
	}
	team_barrier(m);
	if (comm && m->rank == 0)
		hold_reader(m, comm, way);
	else if (comm && m->rank == 1)
		lend(m, comm, way);
	else if (comm && (way == ABORTED_BY_OTHER || way == MISMATCHED))
		end_call(&(struct ender){ comm, way });
	team_barrier(m);
	if (m->rank == 0)
		munmap(held.landing, HELD_BYTES);
	if (m->rank != 1 || way != DESTROYED)
		corale_comm_destroy(comm);
}

static void fail_lenders(struct team_member *m)
{
	for (int way = 0; way < WAYS; way++)
		fail_lender(m, (enum way)way);
}

static void time_out_lender(struct team_member *m)
{
	fail_lender(m, TOO_LATE);
}

static int held_reader(void (*body)(struct team_member *m))
{
	struct sigaction action = { .sa_sigaction = hold, .sa_flags = SA_SIGINFO };
	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, NULL);
	return team_run(3, NULL, body, NULL);
}

static int lenders_wait(void)
{
	return held_reader(fail_lenders);
}

static int late_lender_waits(void)
{
	return held_reader(time_out_lender);
}

/* All lend and all read; rank 2 has another operator. Nobody may read what has been unmapped. */
static void differ(struct team_member *m)
{
	for (int i = 0; i < ROUNDS; i++) {
		const size_t bytes = SOME * sizeof(int32_t);
		const corale_op op = m->rank == 2 ? CORALE_MAX : CORALE_SUM;
		corale_comm *comm = NULL;
		if (corale_comm_split(m->comm, 0, 0, &comm))
			team_fault(m, "no communicator");
		void *send = map(bytes, PROT_READ | PROT_WRITE), *recv = map(bytes, PROT_READ | PROT_WRITE);
		team_barrier(m);
		const int ret = corale_all_reduce(send, recv, SOME, CORALE_INT32, op, comm, NULL);
		munmap(send, bytes);
		munmap(recv, bytes);
		team_expect(m, ret, CORALE_EMISMATCH, "all_reduce with two operators");
		corale_comm_destroy(comm);
	}
}

static int unmapped_after_mismatch(void)
{
	return team_run(RANKS, NULL, differ, NULL);
}

/* ---- Later calls ---- */

/* The others learn of rank 0's abort by asking; then they know, and no call may begin. */
static void refused_when_told(struct team_member *m)
{
	int32_t mine = 1, sum = 0;
	double until = clock_s() + PATIENCE_S;
	if (m->rank == 0)
		team_expect(m, corale_comm_abort(m->comm), 0, "abort");
	while (!corale_comm_async_error(m->comm) && clock_s() < until)
		clock_sleep_ms(PAUSE_MS);
	team_expect(m, corale_comm_async_error(m->comm), CORALE_EABORTED, "async_error");
	for (int i = 0; i < 2; i++)
		team_expect(m, corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, m->comm, NULL),
			    CORALE_ECOMM, "a call after async_error");
	if (!strstr(corale_comm_last_error(m->comm), "abort"))
		team_fault(m, "\"%s\" should say that there was an abort", corale_comm_last_error(m->comm));
	corale_group_begin();
	team_expect(m, corale_barrier(m->comm, NULL), CORALE_ECOMM, "a call inside a group");
	team_expect(m, corale_group_end(), CORALE_ECOMM, "the group");
	team_barrier(m);
}

static int told(void)
{
	return team_run(RANKS, NULL, refused_when_told, NULL);
}

/* Rank 1 has died, as a rank's window says whose teller has not come to the others yet. */
static void find_word(struct team_member *m)
{
	const uint64_t word = (uint64_t)-CORALE_EPEER << 32 | (1 + 1);
	struct window_control *control[RANKS];
	for (int q = 0; q < RANKS; q++)
		control[q] = comm_get(m->comm, "find_word")->engine.windows[q];
	int32_t mine = 1, sum = 0;
	if (m->rank == 0) {
		atomic_store(&control[0]->abort, word);
		team_expect(m, corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, m->comm, NULL),
			    CORALE_EPEER, "a call after a death");
		for (int q = 0; q < RANKS; q++)
			if (atomic_load(&control[q]->abort) != word)
				team_fault(m, "rank %d is told %#llx, not of rank 1's death", q,
					   (unsigned long long)atomic_load(&control[q]->abort));
	}
	team_barrier(m);
}

static int dead_one_is_named(void)
{
	return team_run(RANKS, NULL, find_word, NULL);
}

/* ---- News of other nodes ---- */

/* As lib/health/control_messages.c sends it: kind 1 ends the communicator. */
struct news {
	int32_t kind, code, culprit, rank;
	uint64_t records[18];
};

/* What no rank sends is not believed: later calls go on. */
static void damaged_news(struct team_member *m)
{
	static const struct news damaged[] = {
		{ 1, CORALE_EPEER, 1 << 30, 1, { 0 } },
		{ 1, CORALE_EPEER, RANKS, 1, { 0 } },
		{ 1, CORALE_EPEER, -2, 1, { 0 } },
		{ 1, 0, 1, 1, { 0 } },
		{ 1, 5, 1, 1, { 0 } },
		{ 1, CORALE_EINTERNAL - 1, 1, 1, { 0 } },
		{ 1, CORALE_EPEER, 1, 2, { 0 } },
		{ 7, CORALE_EPEER, 1, 1, { 0 } },
	};
	int32_t mine = 1, sum = 0;
	struct transport *t = comm_get(m->comm, "damaged_news")->engine.transport;
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		if (m->rank == 1)
			team_expect(m, transport_control(t, 0, &damaged[i], sizeof(damaged[i])), 0,
				    "control");
		team_barrier(m);
		t->ops->progress(t);
		team_expect(m, corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, m->comm, NULL), 0,
			    "a call after damaged news");
	}
	if (corale_comm_async_error(m->comm))
		team_fault(m, "the communicator failed: %s", corale_comm_last_error(m->comm));
	team_barrier(m);
}

static int not_believed(void)
{
	return team_run(RANKS, NULL, damaged_news, NULL);
}

/* ---- One thread that makes blocking calls of two ranks ---- */

#ifdef __SANITIZE_THREAD__
enum { OTHER_THREADS = 1 }; /* the sanitizer has one */
#else
enum { OTHER_THREADS = 0 };
#endif

struct pair {
	corale_inproc *group;
	corale_comm *comms[2];
	_Atomic int next;
};

static void *create_next(void *arg)
{
	struct pair *p = arg;
	const int rank = atomic_fetch_add(&p->next, 1);
	return corale_comm_create_inproc(p->group, rank, NULL, &p->comms[rank]) ? p : NULL;
}

static void create_pair(struct pair *p)
{
	pthread_t threads[2];
	void *fault = NULL;
	*p = (struct pair){ 0 };
	int ret = corale_inproc_create(2, &p->group);
	for (int r = 0; r < 2; r++)
		ret |= pthread_create(&threads[r], NULL, create_next, p);
	for (int r = 0; r < 2 && !ret; r++, ret |= fault != NULL)
		pthread_join(threads[r], &fault);
	if (ret)
		abort();
}

static void destroy_pair(struct pair *p)
{
	for (int r = 0; r < 2; r++)
		corale_comm_destroy(p->comms[r]);
	corale_inproc_destroy(p->group);
}

/* Also in a group, which reads and writes later. */
static int reduce(corale_comm *comm)
{
	static const int32_t mine = 1;
	static _Thread_local int32_t sum;
	return corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
}

/* Both calls end, long before the deadline: neither was made in vain, and the second would wait for the first. */
static int two_ranks_without_group(void)
{
	struct pair p;
	int32_t element;
	create_pair(&p);
	const int code = OTHER_THREADS ? CORALE_ETIMEDOUT : CORALE_EINVAL;
	int faults = complain("an all_reduce of rank 0", reduce(p.comms[0]), code);
	const char *line = corale_comm_last_error(p.comms[0]);
	if (!OTHER_THREADS && !strstr(line, "blocking calls of two ranks from one thread need a group"))
		faults += fprintf(stderr, "# the line is: %s\n", line) > 0;
	faults += !reduce(p.comms[1]);
	destroy_pair(&p);
	create_pair(&p);
	faults +=
	    complain("a recv of rank 1", corale_recv(&element, 1, CORALE_INT32, 0, p.comms[1], NULL), code);
	destroy_pair(&p);
	return faults;
}

static void *reduce_late(void *arg)
{
	clock_sleep_s(2);
	return reduce(arg) ? arg : NULL;
}

/* Another thread makes the awaited rank's call, however late; before it this thread has made that rank's calls, too. */
static int two_ranks_of_two_threads(void)
{
	struct pair p;
	pthread_t thread;
	void *fault = NULL;
	create_pair(&p);
	corale_group_begin();
	int faults = complain("a grouped call", reduce(p.comms[0]) | reduce(p.comms[1]), 0);
	faults += complain("a group", corale_group_end(), 0);
	if (pthread_create(&thread, NULL, reduce_late, p.comms[1]))
		abort();
	faults += complain("a call of a rank whose peer is late", reduce(p.comms[0]), 0);
	pthread_join(thread, &fault);
	destroy_pair(&p);
	return faults + (fault != NULL);
}

/* ---- Threads that never come ---- */

struct creation {
	corale_inproc *group;
	int rank, ret;
	double timeout_s; /* 0: CORALE_TIMEOUT */
};

static void *create_one(void *arg)
{
	struct creation *c = arg;
	corale_comm *comm = NULL;
	corale_config config;
	corale_config_init(&config);
	config.timeout_seconds = c->timeout_s;
	c->ret = corale_comm_create_inproc(c->group, c->rank, &config, &comm);
	return NULL;
}

/* Two of three create; a third comes when they have given up. */
static int create_without_one(double timeout_s, double limit_s)
{
	corale_inproc *group;
	struct creation ranks[3];
	pthread_t threads[2];
	const double start = clock_s();
	if (corale_inproc_create(3, &group))
		abort();
	for (int r = 0; r < 3; r++)
		ranks[r] = (struct creation){ group, r, 0, r == 0 ? timeout_s : 0 };
	for (int r = 0; r < 2; r++)
		if (pthread_create(&threads[r], NULL, create_one, &ranks[r]))
			abort();
	for (int r = 0; r < 2; r++)
		pthread_join(threads[r], NULL);
	create_one(&ranks[2]);
	int faults = complain("rank 0 creates without rank 2", ranks[0].ret, CORALE_ETIMEDOUT) +
		     complain("rank 1 creates without rank 2", ranks[1].ret, CORALE_ETIMEDOUT) +
		     complain("rank 2 creates too late", ranks[2].ret, CORALE_ETIMEDOUT);
	if (clock_s() - start > limit_s)
		faults += fprintf(stderr, "# that took %.1f s\n", clock_s() - start) > 0;
	corale_inproc_destroy(group);
	return faults;
}

/* CORALE_TIMEOUT is 3 s. */
static int ranks_that_never_come(void)
{
	struct pair p;
	corale_comm *child = NULL;
	int faults = create_without_one(0.2, 2) + create_without_one(0, 5);
	create_pair(&p);
	const double start = clock_s();
	faults += complain("a split without rank 1", corale_comm_split(p.comms[0], 0, 0, &child),
			   OTHER_THREADS ? CORALE_ETIMEDOUT : CORALE_EINVAL);
	if (clock_s() - start > 5)
		faults += fprintf(stderr, "# the split took %.1f s\n", clock_s() - start) > 0;
	destroy_pair(&p);
	return faults;
}

static const struct {
	const char *name;
	int (*run)(void);
	const char *settings;
} cases[] = {
	{ "ranks that choose by other facts", other_facts, "CORALE_DEBUG=none CORALE_TIMEOUT=10" },
	{ "a process that is killed", killed_process,
	  "CORALE_DEBUG=none CORALE_REFERENCE=yes CORALE_TIMEOUT=10" },
	{ "a process that aborts its send", aborting_process,
	  "CORALE_DEBUG=none CORALE_REFERENCE=yes CORALE_TIMEOUT=10" },
	{ "a thread that aborts its send", aborting_thread,
	  "CORALE_DEBUG=none CORALE_REFERENCE=yes CORALE_TIMEOUT=10" },
	{ "a thread whose call fails while its buffer is read", lenders_wait,
	  "CORALE_DEBUG=none CORALE_TIMEOUT=10" },
	{ "a thread whose deadline comes while its buffer is read", late_lender_waits,
	  "CORALE_DEBUG=none CORALE_TIMEOUT=2" }, /* below LATE_MS */
	{ "buffers unmapped after a mismatch", unmapped_after_mismatch,
	  "CORALE_DEBUG=none CORALE_TIMEOUT=10" },
	{ "buffers unmapped after a mismatch, 2 nodes", unmapped_after_mismatch,
	  "CORALE_DEBUG=none CORALE_TIMEOUT=10 CORALE_NODE_SIZE=2" },
	{ "calls after async_error", told, "CORALE_DEBUG=none" },
	{ "a rank that has heard of a death names the dead one", dead_one_is_named, "CORALE_DEBUG=none" },
	{ "damaged news of other nodes", not_believed,
	  "CORALE_DEBUG=none CORALE_NODE_SIZE=1 CORALE_TIMEOUT=20" },
	{ "blocking calls of two ranks by one thread", two_ranks_without_group,
	  "CORALE_DEBUG=none CORALE_TIMEOUT=4" },
	{ "threads that never come", ranks_that_never_come, "CORALE_DEBUG=none CORALE_TIMEOUT=3" },
	{ "blocking calls of two ranks by two threads", two_ranks_of_two_threads,
	  "CORALE_DEBUG=none CORALE_TIMEOUT=20" },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static void run_case(void **state)
{
	int i = (int)(intptr_t)*state;
	char number[16];
	snprintf(number, sizeof(number), "%d", i);
	assert_int_equal(team_spawn(cases[i].settings, number), 0);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES];
	if (argc > 1)
		return cases[atoi(argv[1]) % CASES].run() != 0;
	for (int i = 0; i < CASES; i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, run_case, NULL, NULL, (void *)(intptr_t)i };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
