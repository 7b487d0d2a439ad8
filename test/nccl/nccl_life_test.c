/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How communicators of the NCCL door are made, divided and ended, what wrong arguments give, and what other ranks see of one that aborts,
 * exits, is killed, or makes another call.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/busy.h"
#include "nccl_glue/door.h"
#include "nccl_glue/nccl_device_host.h"
#include "nccl_world.h"
#include "test/helpers/thin.h"

static int node_size(void)
{
	const char *size = getenv("CORALE_NODE_SIZE");
	return size ? atoi(size) : 0;
}

static int is_over_nodes(const struct world_rank *me)
{
	return node_size() > 0 && node_size() < me->size;
}

static ncclResult_t sum_one(ncclComm_t comm)
{
	int in = 1, out = 0;
	return ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comm, NULL);
}

static void expect_place(struct world_rank *me, ncclComm_t comm, int rank, int size, const char *what)
{
	int r = -1, n = -1;
	WORLD_OK(me, ncclCommUserRank(comm, &r));
	WORLD_OK(me, ncclCommCount(comm, &n));
	if (r != rank || n != size)
		world_fault(me, "%s: rank %d of %d, expected %d of %d", what, r, n, rank, size);
}

static void expect_async(struct world_rank *me, ncclComm_t comm, ncclResult_t expected, const char *what)
{
	ncclResult_t result = ncclInternalError;
	WORLD_OK(me, ncclCommGetAsyncError(comm, &result));
	world_expect(me, result, expected, what);
}

/* ---- Children ---------------------------------------------------------------------------------------------------- */

/* 8 ranks: colors are rank % 3, keys count down, rank 7 has none. */
static void split_by_color(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), child = NULL, grandchild = NULL;
	const int has = me->rank != 7, color = me->rank % 3, members = color == 2 ? 2 : color ? 2 : 3;
	WORLD_OK(me, ncclCommSplit(parent, has ? color : NCCL_SPLIT_NOCOLOR, -me->rank, &child, NULL));
	if (!has && child)
		world_fault(me, "a rank without a color has a child");
	if (has) {
		expect_place(me, child, members - 1 - me->rank / 3, members, "split");
		world_check(me, child, "child");
		WORLD_OK(me, ncclCommSplit(child, 5, 0, &grandchild, NULL));
		expect_place(me, grandchild, members - 1 - me->rank / 3, members, "split of a split");
		WORLD_OK(me, ncclCommDestroy(child));
		world_check(me, grandchild, "grandchild behind its parent's end");
		WORLD_OK(me, ncclCommDestroy(grandchild));
	}
	world_check(me, parent, "parent");
	WORLD_OK(me, ncclCommDestroy(parent));
}

/* Equal keys: the parent's order. Several splits of one parent in one group, and the parent destroyed behind them. */
static void splits_in_a_group(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), children[3] = { NULL };
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.maxCTAs = 3;
	WORLD_OK(me, ncclGroupStart());
	WORLD_OK(me, ncclCommSplit(parent, me->rank % 2, 0, &children[0], NULL));
	WORLD_OK(me, ncclCommSplit(parent, me->rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &children[1], &config));
	WORLD_OK(me, ncclCommSplit(parent, 9, me->size - me->rank, &children[2], NULL));
	WORLD_OK(me, ncclGroupEnd());
	WORLD_OK(me, ncclCommDestroy(parent));
	expect_place(me, children[0], me->rank / 2, me->size / 2, "first");
	if (me->rank < 2)
		expect_place(me, children[1], me->rank, 2, "second");
	else if (children[1])
		world_fault(me, "second: a child without a color");
	expect_place(me, children[2], me->size - 1 - me->rank, me->size, "third");
	for (int i = 0; i < 3; i++) {
		if (children[i])
			world_check(me, children[i], "child of a group");
		WORLD_OK(me, ncclCommDestroy(children[i]));
	}
}

static void shrink_idle(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), child = NULL;
	int excluded[] = { 4, 1 };
	if (me->rank != 1 && me->rank != 4) {
		WORLD_OK(me, ncclCommShrink(parent, excluded, 2, &child, NULL, NCCL_SHRINK_DEFAULT));
		expect_place(me, child, me->rank - (me->rank > 1) - (me->rank > 4), me->size - 2, "shrink");
		world_check(me, child, "shrunk");
		WORLD_OK(me, ncclCommDestroy(child));
	}
	world_barrier(me);
	world_check(me, parent, "the parent of a shrunk one");
	WORLD_OK(me, ncclCommDestroy(parent));
}

/* One rank is killed, a call fails, those that are left go on without it. */
static void shrink_after_death(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), child = NULL;
	int excluded[] = { 2 };
	world_check(me, parent, "before");
	world_barrier(me);
	if (me->rank == 2)
		kill(getpid(), SIGKILL);
	world_expect(me, sum_one(parent), ncclRemoteError, "a call with a dead rank");
	world_expect_text(me, "rank 2", "a call with a dead rank");
	expect_async(me, parent, ncclRemoteError, "after a death");
	WORLD_OK(me, ncclCommShrink(parent, excluded, 1, &child, NULL, NCCL_SHRINK_ABORT));
	expect_place(me, child, me->rank - (me->rank > 2), me->size - 1, "shrink after a death");
	world_check(me, child, "shrunk after a death");
	WORLD_OK(me, ncclCommAbort(parent));
	world_check(me, child, "behind the parent's abort");
	WORLD_OK(me, ncclCommDestroy(child));
}

static void revoke_idle(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), child = NULL;
	world_check(me, parent, "before");
	world_expect(me, ncclCommRevoke(parent, 5), ncclInvalidArgument, "unknown flags");
	world_check(me, parent, "behind a refused revoke");
	world_barrier(me);
	WORLD_OK(me, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT));
	WORLD_OK(me, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT));
	world_expect(me, sum_one(parent), ncclInvalidUsage, "a call of a revoked one");
	world_expect_text(me, "revoked", "a call of a revoked one");
	WORLD_OK(me, ncclCommSplit(parent, 0, 0, &child, NULL));
	world_check(me, child, "child of a revoked one");
	WORLD_OK(me, ncclCommDestroy(parent));
	WORLD_OK(me, ncclCommDestroy(child));
	world_expect(me, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT), ncclInvalidArgument,
		     "revoke behind destroy");
}

/* A rank is stuck in a call that another one does not make: revoke ends it. */
struct stuck {
	struct world_rank *me;
	ncclResult_t result;
	char text[1024];
};

static void *call_stuck(void *arg)
{
	struct stuck *s = arg;
	s->result = sum_one(s->me->comm);
	snprintf(s->text, sizeof s->text, "%s", ncclGetLastError(NULL));
	return NULL;
}

static void revoke_stuck(struct world_rank *me)
{
	struct stuck s = { me, ncclSuccess, "" };
	ncclComm_t child = NULL;
	pthread_t thread;
	me->comm = world_comm(me, 0);
	if (me->rank) {
		if (pthread_create(&thread, NULL, call_stuck, &s))
			abort();
		clock_sleep_ms((int)(100 * busy_times()));
	}
	WORLD_OK(me, ncclCommRevoke(me->comm, NCCL_REVOKE_DEFAULT));
	if (me->rank)
		pthread_join(thread, NULL);
	if (me->rank)
		world_expect(me, s.result, ncclRemoteError, "the call that was revoked");
	WORLD_OK(me, ncclCommSplit(me->comm, 0, 0, &child, NULL));
	world_check(me, child, "child of a revoked one");
	WORLD_OK(me, ncclCommDestroy(me->comm));
	WORLD_OK(me, ncclCommDestroy(child));
}

/* ---- Ends ------------------------------------------------------------------------------------------------------------ */

static void ends(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	ncclResult_t async;
	int n;
	world_check(me, comm, "before");
	WORLD_OK(me, ncclCommFinalize(comm));
	expect_async(me, comm, ncclSuccess, "finalized");
	world_expect(me, sum_one(comm), ncclInvalidUsage, "a call of a finalized one");
	world_expect(me, ncclCommFinalize(comm), ncclInvalidArgument, "finalized twice");
	WORLD_OK(me, ncclCommDestroy(comm));
	world_expect(me, ncclCommDestroy(comm), ncclInvalidArgument, "destroyed twice");
	world_expect_text(me, "destroyed or aborted before", "destroyed twice");
	world_expect(me, ncclCommAbort(comm), ncclInvalidArgument, "aborted behind destroy");
	world_expect(me, ncclCommFinalize(comm), ncclInvalidArgument, "finalized behind destroy");
	world_expect(me, sum_one(comm), ncclInvalidArgument, "used behind destroy");
	world_expect(me, ncclCommCount(comm, &n), ncclInvalidArgument, "count behind destroy");
	world_expect(me, ncclCommGetAsyncError(comm, &async), ncclInvalidArgument,
		     "async error behind destroy");
	WORLD_OK(me, ncclCommDestroy(NULL));
	WORLD_OK(me, ncclCommAbort(NULL));
	WORLD_OK(me, ncclCommFinalize(NULL));
	WORLD_OK(me, ncclCommRevoke(NULL, 0));
}

static void anew(struct world_rank *me)
{
	for (int i = 0; i < (thin_step() > 1 ? 5 : 20); i++) {
		ncclComm_t comm = world_comm(me, i % WORLD_IDS);
		world_check(me, comm, "made anew");
		WORLD_OK(me, i % 3 ? ncclCommDestroy(comm) : ncclCommAbort(comm));
		world_barrier(me);
	}
}

/* Resident memory of this process in MB, that of sanitizers left out: there 0. */
static long resident_mb(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	pages = 0;
#endif
	return pages * (sysconf(_SC_PAGESIZE) / 1024) / 1024;
}

/* MOST_MB: 8 ranks of one host have 65, as 8 nodes 17, as nodes of 3 128. */
static void many(struct world_rank *me)
{
	enum { MANY = 32, MOST_MB = 200 };
	ncclComm_t comms[MANY];
	for (int i = 0; i < MANY / 2; i++)
		comms[i] = world_comm(me, i % WORLD_IDS);
	for (int i = MANY / 2; i < MANY; i++)
		WORLD_OK(me, ncclCommSplit(comms[i - MANY / 2], 0, 0, &comms[i], NULL));
	for (int i = 0; i < MANY; i++)
		world_check(me, comms[(i * 5 + 3) % MANY], "one of many");
	if (!me->world->threads && resident_mb() > MOST_MB)
		world_fault(me, "%d communicators: %ld MB of memory", MANY, resident_mb());
	WORLD_OK(me, ncclGroupStart());
	for (int i = MANY - 1; i >= 0; i--)
		WORLD_OK(me, ncclCommDestroy(comms[i]));
	WORLD_OK(me, ncclGroupEnd());
}

/* What a host has for messages between nodes stands for a GPU's pinned memory. */
static void pinned_apart(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	uint64_t before = 1, pinned = 1, persist = 1, total = 2;
	WORLD_OK(me, ncclCommMemStats(comm, coraleStatPinnedMem, &before));
	world_check(me, comm, "a sum");
	WORLD_OK(me, ncclCommMemStats(comm, (ncclCommMemStat_t)256, &pinned)); /* of NCCL's header */
	WORLD_OK(me, ncclCommMemStats(comm, ncclStatGpuMemPersist, &persist));
	WORLD_OK(me, ncclCommMemStats(comm, ncclStatGpuMemTotal, &total));
	if (persist != total || total <= pinned)
		world_fault(me, "%llu bytes stay, %llu in all, %llu pinned", (unsigned long long)persist,
			    (unsigned long long)total, (unsigned long long)pinned);
	if (is_over_nodes(me) ? pinned == 0 : before || pinned)
		world_fault(me, "%llu and %llu bytes pinned", (unsigned long long)before,
			    (unsigned long long)pinned);
	world_barrier(me); /* slots may go with the peer's end */
	WORLD_OK(me, ncclCommDestroy(comm));
}

/* ---- Aborts ------------------------------------------------------------------------------------------------------------- */

/* Ranks 0 and 2 exchange something; rank 1 has left. */
static void exchange_without(struct world_rank *me, ncclComm_t comm)
{
	int in = me->rank + 10, out = -1;
	const int other = me->rank ? 0 : 2;
	if (me->rank != 0 && me->rank != 2)
		return;
	WORLD_OK(me, ncclGroupStart());
	WORLD_OK(me, ncclSend(&in, 1, ncclInt, other, comm, NULL));
	WORLD_OK(me, ncclRecv(&out, 1, ncclInt, other, comm, NULL));
	WORLD_OK(me, ncclGroupEnd());
	if (out != other + 10)
		world_fault(me, "rank %d sent %d", other, out);
	expect_async(me, comm, ncclSuccess, "when a rank has left");
}

/* A call that needs rank 1 names it and says how it left. */
static void call_in_vain(struct world_rank *me, ncclComm_t comm, const char *how)
{
	world_expect(me, sum_one(comm), ncclRemoteError, "a call that needs rank 1");
	world_expect_text(me, "rank 1", how);
	world_expect_text(me, how, "a call that needs rank 1");
	expect_async(me, comm, ncclRemoteError, "behind a call that needs rank 1");
	world_expect(me, sum_one(comm), ncclRemoteError, "the next call");
	WORLD_OK(me, ncclCommAbort(comm));
}

static void abort_idle(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0), other = world_comm(me, 1);
	world_check(me, comm, "before");
	if (me->rank == 1) {
		WORLD_OK(me, ncclGroupStart());
		WORLD_OK(me, ncclCommAbort(comm));
		WORLD_OK(me, ncclGroupEnd());
		world_expect(me, ncclCommDestroy(comm), ncclInvalidArgument, "destroy behind abort");
	}
	world_barrier(me);
	clock_sleep_ms(100); /* the watch thread looks every 30 ms */
	if (me->rank != 1)
		expect_async(me, comm, ncclSuccess, "when an idle one was aborted");
	exchange_without(me, comm);
	if (me->rank != 1)
		call_in_vain(me, comm, "has aborted the communicator");
	world_check(me, other, "another communicator");
	WORLD_OK(me, ncclCommDestroy(other));
}

static void *receive_stuck(void *arg)
{
	struct stuck *s = arg;
	int got;
	s->result = ncclRecv(&got, 1, ncclInt, s->me->rank + 1, s->me->comm, NULL);
	snprintf(s->text, sizeof s->text, "%s", ncclGetLastError(NULL));
	return NULL;
}

/* Rank 1 waits for rank 2, which does not send, and is aborted by another thread; rank 0 waits for rank 1. */
static void abort_blocked(struct world_rank *me)
{
	struct stuck s = { me, ncclSuccess, "" };
	pthread_t thread;
	me->comm = world_comm(me, 0);
	world_check(me, me->comm, "before");
	if (me->rank < 2 && pthread_create(&thread, NULL, receive_stuck, &s))
		abort();
	clock_sleep_ms(100);
	world_barrier(me);
	const double start = clock_s();
	if (me->rank == 1)
		WORLD_OK(me, ncclCommAbort(me->comm));
	if (me->rank < 2) {
		pthread_join(thread, NULL);
		world_expect(me, s.result, ncclRemoteError, "the call that was aborted");
		if (!me->world->threads && !strstr(s.text, me->rank ? "aborted on this rank" : "rank 1"))
			world_fault(me, "last error: %s", s.text);
		if (clock_s() - start > 5 * busy_times())
			world_late(me, "it took %.1f s", clock_s() - start);
	}
	world_barrier(me);
	if (me->rank == 2)
		expect_async(me, me->comm, ncclSuccess, "of a rank that does not wait");
	if (me->rank != 1)
		WORLD_OK(me, ncclCommAbort(me->comm));
}

static void *send_stuck(void *arg)
{
	enum { BYTES = 32 << 20 };
	struct stuck *s = arg;
	void *memory = calloc(1, BYTES);
	s->result = ncclSend(memory, BYTES, ncclChar, 1, s->me->comm, NULL);
	snprintf(s->text, sizeof s->text, "%s", ncclGetLastError(NULL));
	free(memory);
	return NULL;
}

/* Rank 1 is stopped amid a large message, as behind a link that is cut: the abort does not wait for what the network still holds. */
static void abort_beside_stopped(struct world_rank *me)
{
	struct stuck s = { me, ncclSuccess, "" };
	pthread_t thread;
	me->comm = world_comm(me, 0);
	world_check(me, me->comm, "before");
	if (me->rank == 1) {
		atomic_store(&me->world->flags[0], 1);
		kill(getpid(), SIGSTOP);
		WORLD_OK(me, ncclCommAbort(me->comm));
		return;
	}
	world_await(me, 0, 1);
	if (pthread_create(&thread, NULL, send_stuck, &s))
		abort();
	clock_sleep_ms(300);
	const double start = clock_s();
	WORLD_OK(me, ncclCommAbort(me->comm));
	if (clock_s() - start > 0.5 * busy_times())
		world_late(me, "the abort took %.1f s", clock_s() - start);
	pthread_join(thread, NULL);
	world_expect(me, s.result, ncclRemoteError, "the call that was aborted");
	if (clock_s() - start > 5 * busy_times())
		world_late(me, "the call ended after %.1f s", clock_s() - start);
	kill(me->world->pids[1], SIGCONT);
}

/* Rank 1 ends without a word. */
static void leave(struct world_rank *me, int how)
{
	static const char *const texts[] = { "has called exit()", "has died" };
	ncclComm_t comm = world_comm(me, 0);
	world_check(me, comm, "before");
	world_barrier(me);
	if (me->rank == 1 && how)
		kill(getpid(), SIGKILL);
	if (me->rank == 1)
		exit(0);
	clock_sleep_ms(300);
	expect_async(me, comm, ncclSuccess, "when a rank has left");
	exchange_without(me, comm);
	call_in_vain(me, comm, texts[how]);
}

static void leave_by_exit(struct world_rank *me)
{
	leave(me, 0);
}

static void leave_by_kill(struct world_rank *me)
{
	leave(me, 1);
}

/* Everybody exits without destroy, some in the middle of other ranks' last call. */
/* Rank 2 is killed before it takes what the others send: it is as much as goes from memory to memory inside a node. */
static void death_of_a_reader(struct world_rank *me)
{
	enum { BYTES = 32 << 20 };
	ncclComm_t comm = world_comm(me, 0);
	char *sent = calloc(1, BYTES);
	if (me->rank == 2) {
		clock_sleep_ms(200);
		kill(getpid(), SIGKILL);
	}
	const double start = clock_s();
	world_expect(me, ncclSend(sent, BYTES, ncclChar, 2, comm, NULL), ncclRemoteError, "a send to rank 2");
	world_expect_text(me, "rank 2", "a send to rank 2");
	world_expect_text(me, "has died", "a send to rank 2");
	if (clock_s() - start > 2 * busy_times())
		world_late(me, "the send ended after %.1f s", clock_s() - start);
	atomic_fetch_add(&me->world->flags[0], 1);
	world_await(me, 0, me->size - 1); /* none leaves before all have named rank 2 */
	WORLD_OK(me, ncclCommAbort(comm));
	free(sent);
}

static void exit_all(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	for (int i = 0; i < 50; i++)
		world_check(me, comm, "the last call");
	if (me->world->threads)
		return;
	exit(0);
}

/* ---- Forked children ---------------------------------------------------------------------------------------------------- */

static int is_refused(ncclResult_t result, const char *call)
{
	return result == ncclInvalidUsage && strstr(ncclGetLastError(NULL), call);
}

/* It may not use what is its parent's, and hears which call it was. */
static int is_refused_all(ncclComm_t comm)
{
	void *memory = NULL;
	float value[2] = { 0 };
	ncclUniqueId id = { { 0 } };
	ncclComm_t other;
	ncclRedOp_t op;
	ncclResult_t state;
	int n;
	return ncclCommCount(comm, &n) == ncclSuccess &&
	       is_refused(ncclGetUniqueId(&id), "ncclGetUniqueId") &&
	       is_refused(ncclCommInitRank(&other, 1, id, 0), "ncclCommInitRank") &&
	       is_refused(ncclCommInitAll(&other, 1, NULL), "ncclCommInitAll") &&
	       is_refused(ncclCommSplit(comm, 0, 0, &other, NULL), "ncclCommSplit") &&
	       is_refused(ncclGroupStart(), "ncclGroupStart") && is_refused(ncclGroupEnd(), "ncclGroupEnd") &&
	       is_refused(ncclMemAlloc(&memory, 8), "ncclMemAlloc") &&
	       is_refused(ncclMemFree(value), "ncclMemFree") &&
	       is_refused(ncclCommRegister(comm, value, 8, &memory), "ncclCommRegister") &&
	       is_refused(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError") &&
	       is_refused(ncclRedOpCreatePreMulSum(&op, value, ncclFloat, ncclScalarHostImmediate, comm),
			  "ncclRedOpCreatePreMulSum") &&
	       is_refused(ncclAllReduce(value, value, 1, ncclFloat, ncclSum, comm, NULL), "ncclAllReduce") &&
	       is_refused(ncclSend(value, 1, ncclFloat, 0, comm, NULL), "ncclSend") &&
	       is_refused(ncclCommFinalize(comm), "ncclCommFinalize") &&
	       is_refused(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), "ncclCommRevoke");
}

static void end_child(ncclComm_t comm, int how)
{
	static char *const arguments[] = { (char *)(uintptr_t) "true", NULL };
	switch (how) {
	case 0:
		exit(0);
	case 1:
		_exit(0);
	case 2:
		execv("/bin/true", arguments);
		_exit(1);
	case 3:
		signal(SIGSEGV, SIG_DFL);
		kill(getpid(), SIGSEGV);
		pause();
		break;
	case 4:
		_exit(sum_one(comm) != ncclSuccess && is_refused_all(comm) ? 0 : 3);
	default:
		exit(ncclCommAbort(comm) == ncclInvalidUsage && ncclCommDestroy(comm) == ncclInvalidUsage
			 ? 0
			 : 4);
	}
}

static void forks(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	world_check(me, comm, "before");
	for (int how = 0; how < 6; how++) {
		int status = 0;
		const pid_t child = me->rank == 1 ? fork() : 1;
		if (!child)
			end_child(comm, how);
		if (me->rank == 1 && waitpid(child, &status, 0) != child)
			world_fault(me, "no child");
		if (me->rank == 1 && (how == 3 ? !WIFSIGNALED(status) : status != 0))
			world_fault(me, "child %d ended with status 0x%x", how, (unsigned)status);
		world_barrier(me);
		clock_sleep_ms(60);
		expect_async(me, comm, ncclSuccess, "behind a child's end");
		world_check(me, comm, "behind a child's end");
	}
	WORLD_OK(me, ncclCommDestroy(comm));
}

/* ---- Mismatches and deadlines ------------------------------------------------------------------------------------------------ */

static ncclResult_t mismatched_call(struct world_rank *me, int what, ncclComm_t comm, const char **mine)
{
	int own_in[64] = { 0 }, own_out[64];
	const int odd = me->rank == 1;
	switch (what) {
	case 0:
		*mine = odd ? "9" : "8";
		return ncclAllReduce(own_in, own_out, odd ? 9 : 8, ncclInt, ncclSum, comm, NULL);
	case 1:
		*mine = odd ? "max" : "sum";
		return ncclAllReduce(own_in, own_out, 8, ncclInt, odd ? ncclMax : ncclSum, comm, NULL);
	case 2:
		*mine = odd ? "root 2" : "root 0";
		return ncclReduce(own_in, own_out, 8, ncclInt, ncclSum, odd ? 2 : 0, comm, NULL);
	case 3:
		*mine = odd ? "all_gather" : "all_reduce";
		return odd ? ncclAllGather(own_in, own_out, 8, ncclInt, comm, NULL)
			   : ncclAllReduce(own_in, own_out, 8, ncclInt, ncclSum, comm, NULL);
	default:
		*mine = odd ? "float32" : "int32";
		return ncclAllReduce(own_in, own_out, 8, odd ? ncclFloat : ncclInt, ncclSum, comm, NULL);
	}
}

static void mismatches(struct world_rank *me)
{
	for (int what = 0; what < 5; what++) {
		const char *mine = "";
		ncclComm_t comm = world_comm(me, what);
		world_check(me, comm, "before");
		ncclResult_t result = mismatched_call(me, what, comm, &mine);
		/* A reduce with other roots may have ended where nobody waits for this rank: the next call tells. */
		if (result == ncclSuccess && what == 2)
			result = sum_one(comm);
		world_expect(me, result, ncclInvalidUsage, "a mismatch");
		world_expect_text(me, mine, "a mismatch, this rank's call");
		world_expect_text(me,
				  what == 0   ? (me->rank == 1 ? "8" : "9")
				  : what == 1 ? (me->rank == 1 ? "sum" : "max")
				  : what == 2 ? (me->rank == 1 ? "root 0" : "root 2")
				  : what == 3 ? (me->rank == 1 ? "all_reduce" : "all_gather")
					      : (me->rank == 1 ? "int32" : "float32"),
				  "a mismatch, the other call");
		world_expect_text(me, "rank 1", "a mismatch");
		expect_async(me, comm, ncclInvalidUsage, "behind a mismatch");
		WORLD_OK(me, ncclCommAbort(comm));
		world_barrier(me);
	}
}

/* Ranks 0 and 1 differ in the call behind one that rank 2 makes late: what was sent for it is there. */
static void mismatch_behind(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	int value[9] = { me->rank ? 0 : 7 }, sum[9];
	world_check(me, comm, "before");
	if (me->rank == 2)
		clock_sleep_ms(300);
	WORLD_OK(me, ncclBroadcast(value, value, 1, ncclInt, 0, comm, NULL));
	if (value[0] != 7)
		world_fault(me, "a broadcast of 7 gave %d", value[0]);
	world_expect(me, ncclAllReduce(value, sum, me->rank == 1 ? 8 : 9, ncclInt, ncclSum, comm, NULL),
		     ncclInvalidUsage, "a mismatch behind it");
	WORLD_OK(me, ncclCommAbort(comm));
}

static void deadline(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	const double start = clock_s();
	world_check(me, comm, "before");
	if (me->rank != 1) {
		world_expect(me, sum_one(comm), ncclRemoteError, "a call that nobody else makes");
		world_expect_text(me, "rank 1", "a deadline");
		if (clock_s() - start < 1.8 || clock_s() - start > 10 * busy_times())
			world_fault(me, "it took %.1f s", clock_s() - start);
	}
	world_barrier(me);
	WORLD_OK(me, ncclCommAbort(comm));
}

/* ---- Children that can't be made ------------------------------------------------------------------------------------------- */

enum { SLOW_S = 2 }; /* a second is promised */

/* Split, or shrink without the last rank: which does not call then. */
static ncclResult_t make_child(struct world_rank *me, ncclComm_t parent, int shrinks, ncclComm_t *child)
{
	int excluded[] = { me->size - 1 };
	return shrinks ? ncclCommShrink(parent, excluded, 1, child, NULL, NCCL_SHRINK_DEFAULT)
		       : ncclCommSplit(parent, 0, me->rank, child, NULL);
}

static int makes_child(const struct world_rank *me, int shrinks)
{
	return !shrinks || me->rank < me->size - 1;
}

/* The others of rank 1, which has gone: they say so, and who it was. */
static void expect_no_child(struct world_rank *me, ncclComm_t parent, int shrinks, const char *how)
{
	ncclComm_t child = NULL;
	const double start = clock_s();
	if (!makes_child(me, shrinks))
		return;
	world_expect(me, make_child(me, parent, shrinks, &child), ncclRemoteError, how);
	world_expect_text(me, "rank 1", how);
	world_expect_text(me, how, "a child without rank 1");
	if (child || clock_s() - start > SLOW_S * busy_times())
		world_fault(me, "%s: child %p after %.1f s", how, (void *)child, clock_s() - start);
}

static void child_without_left(struct world_rank *me)
{
	for (int i = 0; i < 4; i++) {
		ncclComm_t parent = world_comm(me, i);
		if (me->rank == 1 && i % 2)
			WORLD_OK(me, ncclCommAbort(parent));
		else if (me->rank == 1)
			WORLD_OK(me, ncclCommDestroy(parent));
		else
			expect_no_child(me, parent, i / 2,
					is_over_nodes(me)
					    ? "has " /* whom it had not met it may not have told how */
					: i % 2 ? "has aborted the communicator"
						: "has destroyed the communicator");
		world_barrier(me);
		if (me->rank != 1)
			WORLD_OK(me, ncclCommDestroy(parent));
	}
}

/* Rank 1 ends while the others wait for it, or before. Rank 0 is gone where they would have met. */
static void child_without_dead(struct world_rank *me)
{
	ncclComm_t split = world_comm(me, 0), shrunk = world_comm(me, 1), late = world_comm(me, 2),
		   left = world_comm(me, 3);
	if (me->rank == 1) {
		clock_sleep_ms(300);
		kill(getpid(), SIGKILL);
	}
	expect_no_child(me, split, 0, "has died");
	expect_no_child(me, shrunk, 1, "has died");
	if (me->rank == 2) { /* rank 0 has left meanwhile; rank 1 was the first */
		world_await(me, 1, 1);
		clock_sleep_ms(100);
		expect_no_child(me, left, 0, "rank 1, which has died");
	} else if (me->rank == 0) {
		WORLD_OK(me, ncclCommDestroy(left));
		atomic_store(&me->world->flags[1], 1);
	}
	if (me->rank == 0) {
		world_await(me, 0, me->size - 2);
		kill(getpid(), SIGKILL);
	}
	atomic_fetch_add(&me->world->flags[0], 1);
	clock_sleep_ms(300);
	ncclComm_t child = NULL;
	const double start = clock_s();
	world_expect(me, ncclCommSplit(late, 0, 0, &child, NULL), ncclRemoteError, "a split without rank 0");
	world_expect_text(me, "has died", "a split without rank 0");
	if (child || clock_s() - start > SLOW_S * busy_times())
		world_fault(me, "without rank 0: child %p after %.1f s", (void *)child, clock_s() - start);
	atomic_fetch_add(&me->world->flags[2], 1); /* none exits before the other one has its answer */
	world_await(me, 2, me->size - 2);
}

/* Rank 1 makes a call of the parent meanwhile: neither can end. */
static void child_beside_call(struct world_rank *me)
{
	for (int i = 0; i < 4; i++) {
		ncclComm_t parent = world_comm(me, i), child = NULL;
		const double start = clock_s();
		ncclResult_t result = ncclInvalidUsage;
		int got = 0;
		world_check(me, parent, "before");
		if (me->rank == 1)
			result = i % 2 ? ncclRecv(&got, 1, ncclInt, 0, parent, NULL) : sum_one(parent);
		else if (makes_child(me, i / 2))
			result = make_child(me, parent, i / 2, &child);
		world_expect(me, result, ncclInvalidUsage,
			     i / 2 ? "a shrink beside a call" : "a split beside a call");
		if (me->rank == 1)
			world_expect_text(me, "rank 0", "the call beside a child");
		else if (makes_child(me, i / 2))
			world_expect_text(me, "rank 1", "the child beside a call");
		if (child || clock_s() - start > SLOW_S * busy_times())
			world_fault(me, "child %p after %.1f s", (void *)child, clock_s() - start);
		world_barrier(me);
		WORLD_OK(me, ncclCommAbort(parent));
	}
}

struct childless {
	struct world_rank *me;
	int shrinks;
	ncclResult_t result;
};

static void *make_in_thread(void *arg)
{
	struct childless *c = arg;
	ncclComm_t child = NULL;
	c->result = make_child(c->me, c->me->comm, c->shrinks, &child);
	return NULL;
}

/* Rank 1 does not come; the parent is aborted by another thread. */
static void child_aborted(struct world_rank *me)
{
	for (int i = 0; i < 2; i++) {
		struct childless c = { me, i, ncclSuccess };
		pthread_t thread;
		me->comm = world_comm(me, i);
		if (me->rank == 0) {
			if (pthread_create(&thread, NULL, make_in_thread, &c))
				abort();
			clock_sleep_ms(100);
			const double start = clock_s();
			WORLD_OK(me, ncclCommAbort(me->comm));
			pthread_join(thread, NULL);
			world_expect(me, c.result, ncclRemoteError, "a child of an aborted parent");
			if (clock_s() - start > SLOW_S * busy_times())
				world_late(me, "the child ended after %.1f s", clock_s() - start);
		}
		world_barrier(me);
		if (me->rank)
			WORLD_OK(me, ncclCommDestroy(me->comm));
	}
}

/* Ranks that were excluded have made one child less than the others. */
static void split_behind_shrink(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), shrunk = NULL, child = NULL;
	for (int out = me->size - 1; out > 0; out--) {
		if (me->rank == out)
			continue;
		WORLD_OK(me, ncclCommShrink(parent, &out, 1, &shrunk, NULL, NCCL_SHRINK_DEFAULT));
		world_check(me, shrunk, "shrunk");
		WORLD_OK(me, ncclCommDestroy(shrunk));
	}
	WORLD_OK(me, ncclCommSplit(parent, 0, 0, &child, NULL));
	world_check(me, child, "a split behind shrinks");
	WORLD_OK(me, ncclCommDestroy(child));
	WORLD_OK(me, ncclCommDestroy(parent));
}

/* ---- Handles of communicators that are being made ------------------------------------------------------------------------------ */

enum made_by { BY_INIT, BY_INIT_IN_GROUP, BY_SPLIT, MADE_BY };

struct making {
	struct world_rank *me;
	enum made_by how;
	int blocking;
	ncclComm_t parent, made;
	ncclResult_t result;
};

/* Rank 1 does not come. */
static void *make_stuck(void *arg)
{
	struct making *m = arg;
	const struct world_rank *me = m->me;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = m->blocking;
	if (m->how == BY_SPLIT) {
		m->result = ncclCommSplit(m->parent, 0, 0, &m->made, &config);
		return NULL;
	}
	if (m->how == BY_INIT_IN_GROUP)
		ncclGroupStart();
	m->result = ncclCommInitRankConfig(&m->made, me->size, me->world->ids[1], me->rank, &config);
	if (m->how == BY_INIT_IN_GROUP)
		m->result = ncclGroupEnd();
	return NULL;
}

/* What the handle of one that is being made is good for. */
static void use_unmade(struct world_rank *me, ncclComm_t comm)
{
	ncclComm_t child = NULL;
	int n = 0;
	expect_async(me, comm, ncclInProgress, "while it is made");
	world_expect(me, sum_one(comm), ncclInvalidArgument, "a call");
	world_expect(me, ncclCommCount(comm, &n), ncclInvalidArgument, "count");
	world_expect(me, ncclCommSplit(comm, 0, 0, &child, NULL), ncclInvalidArgument, "split");
	world_expect(me, ncclCommDestroy(comm), ncclInvalidArgument, "destroy");
	world_expect(me, ncclCommFinalize(comm), ncclInvalidArgument, "finalize");
	world_expect(me, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument, "revoke");
	world_expect_text(me, "not yet made", "revoke");
}

static void abort_while_made(struct world_rank *me, ncclComm_t parent, enum made_by how, int blocking)
{
	struct making m = { me, how, blocking, parent, NULL, ncclSuccess };
	ncclComm_t comm = NULL;
	pthread_t thread;
	if (pthread_create(&thread, NULL, make_stuck, &m))
		abort();
	for (const double until = clock_s() + 10; !comm && clock_s() < until; clock_sleep_ms(1))
		comm = __atomic_load_n(&m.made, __ATOMIC_ACQUIRE);
	if (!comm)
		world_fault(me, "there is no handle");
	use_unmade(me, comm);
	const double start = clock_s();
	WORLD_OK(me, ncclCommAbort(comm));
	pthread_join(thread, NULL);
	if (clock_s() - start > SLOW_S * busy_times())
		world_late(me, "making it ended after %.1f s", clock_s() - start);
	world_expect(me, m.result, ncclRemoteError, "making it");
	if (m.made)
		world_fault(me, "there is a handle of what was not made");
	expect_async(me, comm, ncclRemoteError, "of what was not made");
	world_expect(me, ncclCommAbort(comm), ncclInvalidArgument, "aborted twice");
}

static void abort_making(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0);
	for (int i = 0; i < 2 * MADE_BY; i++) {
		world_id(me, 1);
		if (me->rank == 0)
			abort_while_made(me, parent, (enum made_by)(i / 2), i % 2);
		world_check(me, parent, "another communicator");
	}
	WORLD_OK(me, ncclCommDestroy(parent));
}

/* ---- Stalls ---------------------------------------------------------------------------------------------------------------------- */

enum { LOG_BYTES = 8192 };

/* Both lines come, after 10 s on one node, 2 s over nodes. */
static void await_lines(struct world_rank *me, const char *path, char log[LOG_BYTES], const char *one,
			const char *two)
{
	for (const double until = clock_s() + 30; clock_s() < until; clock_sleep_ms(20)) {
		FILE *file = fopen(path, "re");
		log[file ? fread(log, 1, LOG_BYTES - 1, file) : 0] = '\0';
		if (file)
			fclose(file);
		if (strstr(log, one) && strstr(log, two))
			return;
	}
	world_fault(me, "no line says '%s' and '%s': %s", one, two, log);
}

/* Over nodes ranks ask each other: rank 2 does not answer while it is stopped, then rank 1 answers that it has not made the call. */
static void await_answers(struct world_rank *me, const char *path, char log[LOG_BYTES])
{
	char late[64], stopped[64];
	snprintf(late, sizeof late, "rank 1 (process %d of host ", me->world->pids[1]);
	snprintf(stopped, sizeof stopped, "rank 2 (process %d of host ", me->world->pids[2]);
	await_lines(me, path, log, stopped, "this rank waits for it in recv(count 4, uint8, peer 2)");
	if (!strstr(log, "it does not answer: its link is cut, or it is stopped"))
		world_fault(me, "no line says that rank 2 does not answer: %s", log);
	kill(me->world->pids[2], SIGCONT);
	await_lines(me, path, log, late, "it answers, but has not made the call");
}

/* Rank 0 waits for rank 1, which is late, in a call that nobody else has made; rank 3 for rank 2, whose process is stopped. Without any
 * setting each says so, and the calls go on. */
static void late_and_stopped(struct world_rank *me)
{
	char path[64], log[LOG_BYTES], stopped[64];
	ncclComm_t comm = world_comm(me, 0);
	int got = 0;
	snprintf(path, sizeof path, "/tmp/corale-late-%d", (int)getppid());
	const int errors = dup(STDERR_FILENO);
	if (me->rank % 3 == 0 && !freopen(path, "ae", stderr))
		world_fault(me, "no file for lines");
	world_barrier(me);
	if (me->rank == 1 && is_over_nodes(me)) {
		await_answers(me, path, log);
	} else if (me->rank == 1) {
		snprintf(stopped, sizeof stopped, "rank 2 (process %d of this host) silent for 10",
			 me->world->pids[2]);
		await_lines(me, path, log, "; it has not made the call; also without the call: rank ",
			    stopped);
		if (!strstr(log, "its process is stopped"))
			world_fault(me, "no line says that a process is stopped: %s", log);
		if (kill(me->world->pids[2], SIGCONT))
			world_fault(me, "rank 2 can't be continued");
	}
	if (me->rank == 2) {
		raise(SIGSTOP);
		WORLD_OK(me, ncclSend(&me->rank, 1, ncclInt, 3, comm, NULL));
	}
	if (me->rank == 3)
		WORLD_OK(me, ncclRecv(&got, 1, ncclInt, 2, comm, NULL));
	world_check(me, comm, "behind a stall");
	if (me->rank % 3 == 0 && dup2(errors, STDERR_FILENO) < 0)
		abort();
	world_barrier(me);
	if (me->rank == 0)
		remove(path);
	WORLD_OK(me, ncclCommDestroy(comm));
}

/* ---- Wrong arguments ---------------------------------------------------------------------------------------------------------- */

#define WRONG(me, call) world_expect(me, call, ncclInvalidArgument, #call)
#define WRONG_USE(me, call) world_expect(me, call, ncclInvalidUsage, #call)

static void wrong_creation(struct world_rank *me, ncclComm_t comm)
{
	ncclUniqueId id, other;
	ncclComm_t out = NULL;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	int excluded[] = { me->rank, 1 - me->rank, 7 };
	WORLD_OK(me, ncclGetUniqueId(&id));
	WRONG(me, ncclGetUniqueId(NULL));
	WRONG(me, ncclGetVersion(NULL));
	WRONG(me, ncclCommInitRank(NULL, 1, id, 0));
	WRONG(me, ncclCommInitRank(&out, 0, id, 0));
	WRONG(me, ncclCommInitRank(&out, -3, id, 0));
	WRONG(me, ncclCommInitRank(&out, 2, id, 2));
	WRONG(me, ncclCommInitRank(&out, 2, id, -1));
	memset(&other, 0, sizeof other);
	WRONG(me, ncclCommInitRank(&out, 2, other, me->rank));
	memset(&other, 0x11, sizeof other);
	WRONG(me, ncclCommInitRank(&out, 2, other, me->rank));
	world_expect_text(me, "another", "the id of another library");
	config.blocking = 7;
	WRONG(me, ncclCommInitRankConfig(&out, 1, id, 0, &config));
	world_expect_text(me, "blocking", "a wrong configuration");
	WRONG(me, ncclCommSplit(comm, 0, 0, &out, &config));
	config.magic = 1;
	WRONG(me, ncclCommInitRankConfig(&out, 1, id, 0, &config));
	WRONG(me, ncclCommInitRankScalable(&out, 1, 0, 0, &id, NULL));
	WRONG(me, ncclCommInitRankScalable(&out, 1, 0, 1, NULL, NULL));
	WRONG(me, ncclCommInitAll(NULL, 2, NULL));
	WRONG(me, ncclCommInitAll(&out, 0, NULL));
	WRONG(me, ncclCommSplit(comm, -2, 0, &out, NULL));
	WRONG(me, ncclCommSplit(comm, 0, 0, NULL, NULL));
	WRONG(me, ncclCommSplit(NULL, 0, 0, &out, NULL));
	WRONG(me, ncclCommShrink(comm, excluded, 1, &out, NULL, 0));
	WRONG(me, ncclCommShrink(comm, excluded + 2, 1, &out, NULL, 0));
	WRONG(me, ncclCommShrink(comm, excluded + 1, 0, &out, NULL, 0));
	WRONG(me, ncclCommShrink(comm, excluded, 2, &out, NULL, 0));
	WRONG(me, ncclCommShrink(comm, NULL, 1, &out, NULL, 0));
	WRONG(me, ncclCommShrink(comm, excluded + 1, 1, NULL, NULL, 0));
	if (out)
		world_fault(me, "a refused call made a communicator");
}

/* A call with every argument wrong in turn; the type is checked by all of them. */
static void wrong_calls(struct world_rank *me, ncclComm_t comm)
{
	int in[8] = { 0 }, out[16];
	const size_t wraps = ((size_t)1 << 62) + 1; /* times 4 is 4 */
	static const int types[] = { -1, ncclNumTypes, 99 };
	for (int i = 0; i < 3; i++) {
		const ncclDataType_t type = (ncclDataType_t)types[i];
		WRONG(me, ncclAllReduce(in, out, 1, type, ncclSum, comm, NULL));
		WRONG(me, ncclReduce(in, out, 1, type, ncclSum, 0, comm, NULL));
		WRONG(me, ncclReduceScatter(in, out, 1, type, ncclSum, comm, NULL));
		WRONG(me, ncclAllGather(in, out, 1, type, comm, NULL));
		WRONG(me, ncclBroadcast(in, out, 1, type, 0, comm, NULL));
		WRONG(me, ncclBcast(out, 1, type, 0, comm, NULL));
		WRONG(me, ncclAlltoAll(in, out, 1, type, comm, NULL));
		WRONG(me, ncclGather(in, out, 1, type, 0, comm, NULL));
		WRONG(me, ncclScatter(in, out, 1, type, 0, comm, NULL));
		WRONG(me, ncclSend(in, 1, type, 0, comm, NULL));
		WRONG(me, ncclRecv(out, 1, type, 0, comm, NULL));
	}
	static const int ops[] = { -1, ncclNumOps, ncclNumOps + 7, 100000, ncclMaxRedOp };
	for (int i = 0; i < 5; i++) {
		const ncclRedOp_t op = (ncclRedOp_t)ops[i];
		WRONG(me, ncclAllReduce(in, out, 1, ncclInt, op, comm, NULL));
		WRONG(me, ncclReduce(in, out, 1, ncclInt, op, 0, comm, NULL));
		WRONG(me, ncclReduceScatter(in, out, 1, ncclInt, op, comm, NULL));
		WRONG(me, ncclRedOpDestroy(op, comm));
	}
	WRONG(me, ncclRedOpDestroy(ncclSum, comm));
	for (int root = -1; root < 9; root += 3) {
		WRONG(me, ncclReduce(in, out, 1, ncclInt, ncclSum, root, comm, NULL));
		WRONG(me, ncclBroadcast(in, out, 1, ncclInt, root, comm, NULL));
		WRONG(me, ncclBcast(out, 1, ncclInt, root, comm, NULL));
		WRONG(me, ncclGather(in, out, 1, ncclInt, root, comm, NULL));
		WRONG(me, ncclScatter(in, out, 1, ncclInt, root, comm, NULL));
		WRONG(me, ncclSend(in, 1, ncclInt, root, comm, NULL));
		WRONG(me, ncclRecv(out, 1, ncclInt, root, comm, NULL));
	}
	WRONG(me, ncclAllReduce(NULL, out, 1, ncclInt, ncclSum, comm, NULL));
	WRONG(me, ncclAllReduce(in, NULL, 1, ncclInt, ncclSum, comm, NULL));
	WRONG(me, ncclAllGather(NULL, out, 1, ncclInt, comm, NULL));
	WRONG(me, ncclReduceScatter(in, NULL, 1, ncclInt, ncclSum, comm, NULL));
	WRONG(me, ncclAlltoAll(NULL, NULL, 1, ncclInt, comm, NULL));
	WRONG(me, ncclSend(NULL, 1, ncclInt, 1 - me->rank, comm, NULL));
	WRONG(me, ncclRecv(NULL, 1, ncclInt, 1 - me->rank, comm, NULL));
	WRONG(me, ncclSend(in, 1, ncclInt, me->rank, comm, NULL));
	world_expect_text(me, "oneself", "a send to oneself without a receive");
	WRONG(me, ncclAllReduce(in, out, wraps, ncclInt, ncclSum, comm, NULL));
	WRONG(me, ncclAllGather(in, out, wraps, ncclInt, comm, NULL));
	WRONG(me, ncclSend(in, wraps, ncclInt, 1 - me->rank, comm, NULL));
}

static void wrong_hints(struct world_rank *me, ncclComm_t comm)
{
	int in = 1, out;
	ncclCollConfig_t hints = NCCL_COLLCONFIG_INITIALIZER;
	hints.magic = 7;
	WRONG(me, ncclAllReduceConfig(&in, &out, 1, ncclInt, ncclSum, comm, NULL, &hints));
	hints = (ncclCollConfig_t)NCCL_COLLCONFIG_INITIALIZER;
	hints.size = 12;
	WRONG(me, ncclBroadcastConfig(&in, &out, 1, ncclInt, 0, comm, NULL, &hints));
	hints = (ncclCollConfig_t)NCCL_COLLCONFIG_INITIALIZER;
	hints.CTAPolicy = 9;
	WRONG(me, ncclAllGatherConfig(&in, &out, 1, ncclInt, comm, NULL, &hints));
	hints = (ncclCollConfig_t)NCCL_COLLCONFIG_INITIALIZER;
	hints.launchCompletionEvent = (cudaEvent_t)(void *)&in;
	WRONG_USE(me, ncclAllReduceConfig(&in, &out, 1, ncclInt, ncclSum, comm, NULL, &hints));
	world_expect_text(me, "launchCompletionEvent", "an event");
	WRONG_USE(me, ncclReduceConfig(&in, &out, 1, ncclInt, ncclSum, 0, comm, NULL, &hints));
	WRONG_USE(me, ncclReduceScatterConfig(&in, &out, 1, ncclInt, ncclSum, comm, NULL, &hints));
	WRONG_USE(me, ncclAlltoAllConfig(&in, &out, 1, ncclInt, comm, NULL, &hints));
	WRONG_USE(me, ncclGatherConfig(&in, &out, 1, ncclInt, 0, comm, NULL, &hints));
	WRONG_USE(me, ncclScatterConfig(&in, &out, 1, ncclInt, 0, comm, NULL, &hints));
	WORLD_OK(me, ncclGroupStart());
	WRONG_USE(me, ncclBroadcastConfig(&in, &out, 1, ncclInt, 0, comm, NULL, &hints));
	WRONG_USE(me, ncclGroupEnd());
}

static void wrong_questions(struct world_rank *me, ncclComm_t comm)
{
	void *memory = NULL, *handle = NULL;
	unsigned char scalar[8] = { 0 };
	ncclWindow_t window = NULL;
	ncclRedOp_t op;
	uint64_t value;
	ncclCommProperties_t properties;
	WRONG(me, ncclCommCount(comm, NULL));
	WRONG(me, ncclCommCuDevice(comm, NULL));
	WRONG(me, ncclCommUserRank(comm, NULL));
	WRONG(me, ncclCommGetAsyncError(comm, NULL));
	WRONG(me, ncclCommMemStats(comm, ncclStatGpuMemTotal, NULL));
	WRONG(me, ncclCommMemStats(comm, (ncclCommMemStat_t)77, &value));
	WRONG(me, ncclCommQueryProperties(comm, NULL));
	properties.magic = 3;
	properties.size = sizeof properties;
	WRONG(me, ncclCommQueryProperties(comm, &properties));
	WRONG(me, ncclMemAlloc(NULL, 8));
	WORLD_OK(me, ncclMemAlloc(&memory, 64));
	WRONG(me, ncclCommRegister(comm, memory, 64, NULL));
	WRONG(me, ncclCommDeregister(comm, &value));
	WORLD_OK(me, ncclCommRegister(comm, memory, 64, &handle));
	WORLD_OK(me, ncclCommDeregister(comm, handle));
	WRONG(me, ncclCommDeregister(comm, handle));
	WORLD_OK(me, ncclCommRegister(comm, memory, 64, &handle)); /* kept until the end */
	WORLD_OK(me, ncclMemFree(memory));
	WORLD_OK(me, ncclMemFree(NULL));
	WRONG(me, ncclCommWindowRegister(comm, memory, 64, NULL, 0));
	window = (ncclWindow_t)(void *)&value;
	WORLD_OK(me, ncclCommWindowRegister(comm, memory, 64, &window, 0));
	if (window)
		world_fault(me, "there is a window");
	WORLD_OK(me, ncclCommWindowDeregister(comm, NULL));
	WRONG(me, ncclCommWindowDeregister(comm, (ncclWindow_t)(void *)&value));
	WRONG(me, ncclRedOpCreatePreMulSum(NULL, scalar, ncclInt, ncclScalarHostImmediate, comm));
	WRONG(me, ncclRedOpCreatePreMulSum(&op, NULL, ncclInt, ncclScalarHostImmediate, comm));
	WRONG(me, ncclRedOpCreatePreMulSum(&op, scalar, (ncclDataType_t)-4, ncclScalarHostImmediate, comm));
	WRONG(me, ncclRedOpCreatePreMulSum(&op, scalar, ncclNumTypes, ncclScalarDevice, comm));
	WRONG_USE(me, ncclGroupEnd());
	WRONG_USE(me, ncclGroupSimulateEnd(NULL));
}

/* NULL, and memory that is no communicator. */
static void wrong_handles(struct world_rank *me, ncclComm_t comm)
{
	int in = 1, out = 0, excluded[] = { 1 };
	void *handle;
	uint64_t value;
	ncclRedOp_t op;
	ncclComm_t child;
	ncclResult_t async;
	ncclCommProperties_t properties;
	WRONG(me, ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comm, NULL));
	WRONG(me, ncclReduce(&in, &out, 1, ncclInt, ncclSum, 0, comm, NULL));
	WRONG(me, ncclReduceScatter(&in, &out, 1, ncclInt, ncclSum, comm, NULL));
	WRONG(me, ncclAllGather(&in, &out, 1, ncclInt, comm, NULL));
	WRONG(me, ncclBroadcast(&in, &out, 1, ncclInt, 0, comm, NULL));
	WRONG(me, ncclBcast(&out, 1, ncclInt, 0, comm, NULL));
	WRONG(me, ncclAlltoAll(&in, &out, 1, ncclInt, comm, NULL));
	WRONG(me, ncclGather(&in, &out, 1, ncclInt, 0, comm, NULL));
	WRONG(me, ncclScatter(&in, &out, 1, ncclInt, 0, comm, NULL));
	WRONG(me, ncclSend(&in, 1, ncclInt, 0, comm, NULL));
	WRONG(me, ncclRecv(&out, 1, ncclInt, 0, comm, NULL));
	WRONG(me, ncclAllReduceConfig(&in, &out, 1, ncclInt, ncclSum, comm, NULL, NULL));
	WRONG(me, ncclRedOpCreatePreMulSum(&op, &value, ncclInt, ncclScalarHostImmediate, comm));
	WRONG(me, ncclRedOpDestroy(ncclNumOps, comm));
	WRONG(me, ncclCommCount(comm, &out));
	WRONG(me, ncclCommCuDevice(comm, &out));
	WRONG(me, ncclCommUserRank(comm, &out));
	WRONG(me, ncclCommGetAsyncError(comm, &async));
	WRONG(me, ncclCommMemStats(comm, ncclStatGpuMemTotal, &value));
	properties.magic = 3;
	properties.size = sizeof properties;
	WRONG(me, ncclCommQueryProperties(comm, &properties));
	WRONG(me, ncclCommRegister(comm, &in, 4, &handle));
	WRONG(me, ncclCommDeregister(comm, &in));
	WRONG(me, ncclCommSplit(comm, 0, 0, &child, NULL));
	WRONG(me, ncclCommShrink(comm, excluded, 1, &child, NULL, 0));
}

static void wrong_arguments(struct world_rank *me)
{
	static _Alignas(64) unsigned char zeros[4096], garbage[4096];
	ncclComm_t comm = world_comm(me, 0);
	ncclComm_t none = (ncclComm_t)(void *)zeros, other = (ncclComm_t)(void *)garbage;
	if (me->rank == 0 || !me->world->threads)
		memset(garbage, 0x5c, sizeof garbage);
	world_barrier(me);
	wrong_creation(me, comm);
	wrong_calls(me, comm);
	wrong_hints(me, comm);
	wrong_questions(me, comm);
	wrong_handles(me, NULL);
	wrong_handles(me, none);
	wrong_handles(me, other);
	WRONG(me, ncclCommDestroy(none));
	WRONG(me, ncclCommAbort(other));
	WRONG(me, ncclCommFinalize(none));
	WRONG(me, ncclCommRevoke(other, 0));
	expect_async(me, comm, ncclSuccess, "behind wrong arguments");
	world_check(me, comm, "behind wrong arguments");
	for (int r = -2; r < 12; r++)
		if (!ncclGetErrorString((ncclResult_t)r) || !*ncclGetErrorString((ncclResult_t)r))
			world_fault(me, "result %d has no text", r);
	ncclComm_t child = NULL;
	WORLD_OK(me, ncclCommSplit(comm, 0, 0, &child, NULL));
	world_check(me, child, "a child behind wrong arguments");
	WORLD_OK(me, ncclCommDestroy(child));
	WORLD_OK(me, ncclCommDestroy(comm));
}

/* A communicator that had a call in a failed group: it ends, as other ranks may have started theirs. */
static void expect_ended(struct world_rank *me, ncclComm_t comm, const char *what)
{
	if (sum_one(comm) == ncclSuccess)
		world_fault(me, "%s: the next call: 0", what);
	expect_async(me, comm, ncclInvalidUsage, what);
	world_barrier(me);
	WORLD_OK(me, ncclCommAbort(comm));
}

static ncclComm_t split(struct world_rank *me, ncclComm_t comm)
{
	ncclComm_t child = NULL;
	WORLD_OK(me, ncclCommSplit(comm, 0, 0, &child, NULL));
	return child;
}

/* A failed call fails its group, which is closed, starts nothing and lets go what its jobs held. */
static void failed_groups(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0), child = NULL, made = NULL, last = world_comm(me, 1), used, wrong;
	int in = 1, out = -7;
	for (int i = 0; i < 4; i++) {
		used = split(me, comm);
		wrong = split(me, comm);
		WORLD_OK(me, ncclGroupStart());
		WORLD_OK(me, ncclGroupStart());
		WORLD_OK(me, ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, used, NULL));
		if (i == 0)
			WRONG(me, ncclAllReduce(&in, &out, 1, (ncclDataType_t)99, ncclSum, wrong, NULL));
		if (i == 1)
			WRONG(me, ncclSend(&in, 1, ncclInt, 99, wrong, NULL));
		if (i == 2)
			WRONG(me, ncclCommInitRank(&made, 0, me->world->ids[1], 0));
		if (i == 3)
			WORLD_OK(me,
				 ncclSend(NULL, 1, ncclInt, 1 - me->rank, wrong, NULL)); /* seen at the end */
		WORLD_OK(me, ncclCommSplit(comm, 0, 0, &child, NULL));
		if (i == 3)
			WRONG(me, ncclCommSplit(comm, -9, 0, &child, NULL));
		WORLD_OK(me, ncclGroupEnd());
		WRONG(me, ncclGroupEnd());
		WRONG_USE(me, ncclGroupEnd());
		if (out != -7 || child || made)
			world_fault(me, "a failed group did something: %d", out);
		world_check(me, comm, "behind a failed group");
		expect_ended(me, used, "a call in a failed group");
		if (i != 2)
			expect_ended(me, wrong, "a wrong call in a group");
		else
			WORLD_OK(me, ncclCommDestroy(wrong));
	}
	used = split(me, comm);
	WORLD_OK(me, ncclGroupStart());
	WORLD_OK(me, ncclCommDestroy(last)); /* happens: the handle is gone */
	WRONG(me, ncclSend(&in, 1, ncclInt, 99, used, NULL));
	WRONG(me, ncclGroupEnd());
	world_expect(me, sum_one(last), ncclInvalidArgument,
		     "a communicator that was destroyed in a failed group");
	expect_ended(me, used, "a wrong call beside a destroy");
	child = split(me, comm);
	world_check(me, child, "child behind failed groups");
	WORLD_OK(me, ncclCommDestroy(child));
	WORLD_OK(me, ncclCommDestroy(comm)); /* the splits of the failed groups do not hold it */
}

/* One rank alone makes a call whose arguments are wrong, which NCCL's interface refuses. In a group the other calls' communicators end, too, and so does a group
 * in which a function fails that is no call. */
static void wrong_on_one_rank(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0), comms[3];
	int in = me->rank ? 10 : 1, out[4] = { 0 };
	const double start = clock_s();
	for (int i = 0; i < 3; i++)
		comms[i] = split(me, comm);
	if (me->rank == 1)
		WRONG(me, ncclAllReduce(&in, out, 1, (ncclDataType_t)99, ncclSum, comms[0], NULL));
	else if (ncclAllReduce(&in, out, 1, ncclInt, ncclSum, comms[0], NULL) == ncclSuccess)
		world_fault(me, "a call that rank 1 has refused: %d", out[0]);
	expect_ended(me, comms[0], "a call that rank 1 has refused");
	WORLD_OK(me, ncclGroupStart());
	WORLD_OK(me, ncclAllReduce(&in, &out[1], 1, ncclInt, ncclSum, comms[1], NULL));
	if (me->rank == 1)
		WRONG(me, ncclBroadcast(&in, &out[2], 1, ncclInt, 99, comms[2], NULL));
	else
		WORLD_OK(me, ncclBroadcast(&in, &out[2], 1, ncclInt, 0, comms[2], NULL));
	if (ncclGroupEnd() == ncclSuccess)
		world_fault(me, "a group that rank 1 has refused: 0");
	expect_ended(me, comms[1], "beside a refused call");
	expect_ended(me, comms[2], "a refused call");
	world_check(me, comm, "behind refused calls");
	if (clock_s() - start > 3 * busy_times())
		world_fault(me, "it took %.1f s", clock_s() - start);
	WORLD_OK(me, ncclCommDestroy(comm));
}

enum refusal { LAST, FIRST, SPLIT, INSIDE, REFUSALS };

/* Rank 1 has aborted `bad`, which the others learn in the group. Its own group is refused, so what it has taken of `good` does not start: that
 * communicator ends on all ranks, or the next call would be rank 1's first one and the others' second. */
static void refuse_once(struct world_rank *me, ncclComm_t good, ncclComm_t bad, enum refusal how)
{
	int in = 1, out[2] = { 0 };
	ncclComm_t child = NULL;
	const double start = clock_s();
	if (me->rank == 1 && how != INSIDE)
		WORLD_OK(me, ncclCommAbort(bad));
	WORLD_OK(me, ncclGroupStart());
	if (how != FIRST)
		WORLD_OK(me, ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, good, NULL));
	if (how != SPLIT)
		ncclAllReduce(&in, &out[1], 1, ncclInt, ncclSum, bad, NULL);
	else if (me->rank == 1)
		world_expect(me, ncclCommSplit(bad, 0, 0, &child, NULL), ncclInvalidArgument,
			     "a split of what ended");
	if (how == FIRST)
		WORLD_OK(me, ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, good, NULL));
	if (me->rank == 1 && how == INSIDE)
		WORLD_OK(me, ncclCommAbort(bad));
	const ncclResult_t end = ncclGroupEnd();
	if (end == ncclSuccess)
		world_fault(me, "kind %d: the group's end: 0", (int)how);
	if (sum_one(good) == ncclSuccess)
		world_fault(me, "kind %d: the next call: 0", (int)how);
	expect_async(me, good, ncclInvalidUsage, "the other communicator");
	world_expect_text(me, "group", "behind the group");
	if (clock_s() - start > 2 * busy_times())
		world_late(me, "kind %d: it took %.1f s", (int)how, clock_s() - start);
}

static void refused_by_one(struct world_rank *me)
{
	for (int how = 0; how < REFUSALS; how++) {
		ncclComm_t good = world_comm(me, 2 * how), bad = world_comm(me, 2 * how + 1);
		world_check(me, good, "before");
		refuse_once(me, good, bad, (enum refusal)how);
		world_barrier(me);
		WORLD_OK(me, ncclCommAbort(good));
		if (me->rank != 1)
			WORLD_OK(me, ncclCommAbort(bad));
	}
}

/* A destroy in the group that holds its calls is refused: the handle stays, and the group has failed. */
static void destroyed_in_a_group(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0);
	int in = 1, out = -7;
	WORLD_OK(me, ncclGroupStart());
	WORLD_OK(me, ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comm, NULL));
	world_expect(me, ncclCommDestroy(comm), ncclInvalidUsage, "destroy in the group that holds its call");
	world_expect_text(me, "ncclGroupEnd", "destroy in the group that holds its call");
	world_barrier(me);
	world_expect(me, ncclGroupEnd(), ncclInvalidUsage, "the group");
	if (out != -7)
		world_fault(me, "the group has run: %d", out);
	expect_ended(me, comm, "behind a refused destroy");
}

/* Rank 1's other thread waits in a receive that nobody sends. */
static void destroyed_beside_a_call(struct world_rank *me)
{
	struct stuck s = { me, ncclSuccess, "" };
	pthread_t thread;
	me->comm = world_comm(me, 0);
	world_check(me, me->comm, "before");
	if (me->rank == 1) {
		if (pthread_create(&thread, NULL, receive_stuck, &s))
			abort();
		while (!atomic_load(&me->comm->users))
			clock_sleep_ms(1);
		clock_sleep_ms(50); /* it is counted before it is let in */
		const double start = clock_s();
		WORLD_OK(me, ncclCommDestroy(me->comm));
		pthread_join(thread, NULL);
		if (s.result != ncclInvalidArgument) /* of a call that destroy has overtaken even so */
			world_expect(me, s.result, ncclRemoteError, "the call beside destroy");
		if (clock_s() - start > 2 * busy_times())
			world_late(me, "it took %.1f s", clock_s() - start);
	}
	world_barrier(me);
	if (me->rank != 1)
		WORLD_OK(me, ncclCommDestroy(me->comm));
}

/* A stale id, and ranks that disagree on their number: all are told. */
static void wrong_ids(struct world_rank *me)
{
	ncclComm_t comm = NULL;
	world_id(me, 0);
	ncclResult_t result =
	    ncclCommInitRank(&comm, me->size + (me->rank == 1), me->world->ids[0], me->rank);
	if (result == ncclSuccess || result == ncclInProgress || comm)
		world_fault(me, "ranks that disagree on their number: result %d", (int)result);
	world_barrier(me);
	world_id(me, 1);
	result = ncclCommInitRank(&comm, me->size, me->world->ids[1],
				  me->rank ? 1 : 0); /* rank 1 twice, or more */
	if (result == ncclSuccess || comm)
		world_fault(me, "a rank twice: result %d", (int)result);
	world_barrier(me);
	me->comm = world_comm(me, 2);
	for (int ended = 0; ended < 2; ended++) {
		world_expect(me, ncclCommInitRank(&comm, me->size, me->world->ids[2], me->rank),
			     ncclRemoteError, "an id that has served");
		world_expect_text(me, "already made a group of 3 ranks", "an id that has served");
		world_barrier(me);
		world_check(me, ended ? world_comm(me, 3) : me->comm, "behind wrong ids");
		if (!ended)
			WORLD_OK(me, ncclCommDestroy(me->comm));
		world_barrier(me);
	}
}

/* ---- Small stacks ---------------------------------------------------------------------------------------------- */

static void *use_all(void *arg)
{
	enum { COUNT = 100000 };
	static const ncclDataType_t types[] = { ncclFloat, ncclHalf, ncclBfloat16, ncclDouble };
	struct world_rank *me = arg;
	ncclComm_t comm = world_comm(me, 0), child = NULL;
	void *in = calloc(COUNT, 8), *out = calloc((size_t)me->size * COUNT, 8);
	for (int i = 0; in && out && i < 4; i++) {
		WORLD_OK(me, ncclAllReduce(in, out, COUNT, types[i], ncclAvg, comm, NULL));
		WORLD_OK(me, ncclGroupStart());
		WORLD_OK(me, ncclAllGather(in, out, COUNT, types[i], comm, NULL));
		WORLD_OK(me, ncclSend(in, COUNT, types[i], (me->rank + 1) % me->size, comm, NULL));
		WORLD_OK(me,
			 ncclRecv(out, COUNT, types[i], (me->rank + me->size - 1) % me->size, comm, NULL));
		WORLD_OK(me, ncclGroupEnd());
	}
	WORLD_OK(me, ncclCommSplit(comm, 0, -me->rank, &child, NULL));
	world_check(me, child, "child");
	WORLD_OK(me, ncclCommDestroy(child));
	WORLD_OK(me, ncclCommFinalize(comm));
	WORLD_OK(me, ncclCommDestroy(comm));
	free(in);
	free(out);
	return NULL;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* their frames are larger */
enum { STACK_BYTES = 1 << 20 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif

static void small_stacks(struct world_rank *me)
{
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, STACK_BYTES) ||
	    pthread_create(&thread, &attributes, use_all, me) || pthread_join(thread, NULL))
		world_fault(me, "no thread with a stack of %d bytes", STACK_BYTES);
}

static const struct world_case cases[] = {
	{ "split", 8, WORLD_BOTH, split_by_color, NULL, 0 },
	{ "several splits in a group", 4, WORLD_BOTH, splits_in_a_group, NULL, 0 },
	{ "shrink", 6, WORLD_BOTH, shrink_idle, NULL, 0 },
	{ "shrink after a death", 5, WORLD_PROCESSES, shrink_after_death, NULL, 1 },
	{ "revoke", 3, WORLD_BOTH, revoke_idle, NULL, 0 },
	{ "revoke ends calls", 3, WORLD_BOTH, revoke_stuck, NULL, 0 },
	{ "finalize and destroy", 2, WORLD_BOTH, ends, NULL, 0 },
	{ "made anew", 4, WORLD_BOTH, anew, NULL, 0 },
	{ "32 communicators", 3, WORLD_THREADS, many, NULL, 0 },
	{ "32 communicators of 8 ranks", 8, WORLD_PROCESSES, many, NULL, 0 },
	{ "pinned memory counts apart", 2, WORLD_PROCESSES, pinned_apart, NULL, 0 },
	{ "abort of an idle one", 4, WORLD_BOTH, abort_idle, NULL, 0 },
	{ "abort from another thread", 3, WORLD_BOTH, abort_blocked, NULL, 0 },
	{ "abort beside a stopped rank", 2, WORLD_PROCESSES, abort_beside_stopped, NULL, 0 },
	{ "exit without destroy", 4, WORLD_PROCESSES, leave_by_exit, NULL, 0 },
	{ "a rank is killed", 4, WORLD_PROCESSES, leave_by_kill, NULL, 1 },
	{ "a rank is killed that reads large messages", 3, WORLD_PROCESSES, death_of_a_reader, NULL, 1 },
	{ "all exit without destroy", 6, WORLD_BOTH, exit_all, NULL, 0 },
	{ "forked children", 2, WORLD_PROCESSES, forks, NULL, 0 },
	{ "mismatches", 3, WORLD_BOTH, mismatches, NULL, 0 },
	{ "a mismatch behind a late rank's call", 3, WORLD_BOTH, mismatch_behind, NULL, 0 },
	{ "deadline", 3, WORLD_PROCESSES, deadline, "CORALE_NCCL_TIMEOUT=2", 0 },
	{ "children without a rank that has left", 4, WORLD_BOTH, child_without_left, NULL, 0 },
	{ "children without a dead rank", 4, WORLD_PROCESSES, child_without_dead, NULL, 1 },
	{ "children beside a call", 4, WORLD_BOTH, child_beside_call, NULL, 0 },
	{ "children of an aborted parent", 3, WORLD_BOTH, child_aborted, NULL, 0 },
	{ "a split behind shrinks", 3, WORLD_BOTH, split_behind_shrink, "CORALE_NCCL_INIT_TIMEOUT=30", 0 },
	{ "abort of what is being made", 2, WORLD_BOTH, abort_making, NULL, 0 },
	{ "a late rank and a stopped one", 4, WORLD_PROCESSES, late_and_stopped, "CORALE_DEBUG=warn", 0 },
	{ "wrong arguments", 2, WORLD_BOTH, wrong_arguments, NULL, 0 },
	{ "failed groups", 2, WORLD_BOTH, failed_groups, NULL, 0 },
	{ "destroyed in the group that holds its calls", 2, WORLD_BOTH, destroyed_in_a_group, NULL, 0 },
	{ "destroyed beside a call", 3, WORLD_BOTH, destroyed_beside_a_call, NULL, 0 },
	{ "one rank refuses the group", 3, WORLD_BOTH, refused_by_one, NULL, 0 },
	{ "wrong on one rank", 3, WORLD_BOTH, wrong_on_one_rank, NULL, 0 },
	{ "calls from small stacks", 3, WORLD_BOTH, small_stacks, NULL, 0 },
	{ "wrong ids", 3, WORLD_BOTH, wrong_ids, "CORALE_NCCL_INIT_TIMEOUT=30", 0 },
};

int main(int argc, char **argv)
{
	return world_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
