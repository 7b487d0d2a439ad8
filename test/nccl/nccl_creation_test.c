/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of the NCCL door whose making can't succeed: a rank that others wait for has died, left, makes another one, or fails before it has reached
 * them. Each of the others says so, with the rank, within a second, instead of waiting for CORALE_NCCL_INIT_TIMEOUT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/helpers/busy.h"
#include "nccl_world.h"

static const double SECOND = 1;
enum { LATER_MS = 200 };

/* A creation that began at `start` has failed so, within a second of what it fails by, which came later by some ms. */
static void expect_end(struct world_rank *me, ncclResult_t result, ncclResult_t expected, double start,
		       int later_ms, const char *text, const char *what)
{
	const double took = clock_s() - start - later_ms * 1e-3;
	world_expect(me, result, expected, what);
	world_expect_text(me, text, what);
	fprintf(stderr, "# rank %d: %s: %.3f s\n", me->rank, what, took);
	if (took > SECOND * busy_times())
		world_fault(me, "%s: %.2f s", what, took);
}

enum way { BY_SPLIT, BY_SHRINK, WAYS };

/* Split by a key that makes `first` the new communicator's first rank; or shrink, without the ranks below it. */
static ncclResult_t make(ncclComm_t parent, enum way way, int first, int key, int flags, ncclComm_t *child)
{
	int excluded[WORLD_IDS];
	for (int r = 0; r < first; r++)
		excluded[r] = r;
	return way == BY_SPLIT ? ncclCommSplit(parent, 0, key, child, NULL)
			       : ncclCommShrink(parent, excluded, first, child, NULL, flags);
}

/* ---- A rank that ends while others wait for it ------------------------------------------------------------------------- */

/* How a rank ends. */
enum end { KILLED, EXITS };

static void end_after(int ms, enum end how)
{
	clock_sleep_ms(ms);
	if (how == KILLED)
		raise(SIGKILL);
	exit(0);
}

/* The parent was revoked, by its function or by a shrink. Rank 0 is not in the shrink, and is idle; the victim comes to neither. */
static void end_beside_revoked(struct world_rank *me, enum way way, int victim, enum end how)
{
	ncclComm_t parent = world_comm(me, 0), child = NULL;
	char name[16];
	snprintf(name, sizeof name, "rank %d", victim);
	world_barrier(me);
	if (way == BY_SPLIT)
		WORLD_OK(me, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT));
	if (me->rank == victim)
		end_after(LATER_MS, how);
	if (way == BY_SHRINK && !me->rank)
		clock_sleep_ms(LATER_MS + 2000);
	if (way == BY_SHRINK && !me->rank)
		return;
	const double start = clock_s();
	const int key = (me->rank + me->size - victim) % me->size; /* the victim would be the first */
	const ncclResult_t result = make(parent, way, 1, key, NCCL_SHRINK_ABORT, &child);
	expect_end(me, result, ncclRemoteError, start, LATER_MS, name,
		   way == BY_SPLIT ? "split of a revoked one" : "shrink that revokes");
	/* the first one's exit would be another cause */
	atomic_fetch_add(&me->world->flags[0], 1);
	world_await(me, 0, me->size - 1 - (way == BY_SHRINK));
}

#define ENDS(name, way, victim, how)                                                                         \
	static void name(struct world_rank *me)                                                              \
	{                                                                                                    \
		end_beside_revoked(me, way, victim, how);                                                    \
	}
ENDS(split_killed_last, BY_SPLIT, 2, KILLED)
ENDS(split_killed_first, BY_SPLIT, 0, KILLED)
ENDS(split_exits_first, BY_SPLIT, 0, EXITS)
ENDS(shrink_killed_last, BY_SHRINK, 2, KILLED)
ENDS(shrink_killed_first, BY_SHRINK, 1, KILLED)
ENDS(shrink_exits_first, BY_SHRINK, 1, EXITS)

/* ---- Ranks that make different communicators --------------------------------------------------------------------------------- */

/* Rank 1 shrinks, without rank 0; all others split. */
static void split_beside_shrink(struct world_rank *me, int is_revoked)
{
	ncclComm_t parent = world_comm(me, 0), child = NULL;
	world_barrier(me);
	if (is_revoked)
		WORLD_OK(me, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT));
	const double start = clock_s();
	const ncclResult_t result =
	    make(parent, me->rank == 1 ? BY_SHRINK : BY_SPLIT, 1, me->rank, NCCL_SHRINK_DEFAULT, &child);
	expect_end(me, result, ncclInvalidUsage, start, 0, "hrink", "a split beside a shrink");
	world_expect_text(me, "plit", "a split beside a shrink");
	world_barrier(me);
	WORLD_OK(me, ncclCommAbort(parent));
}

static void of_one_parent(struct world_rank *me)
{
	split_beside_shrink(me, 0);
}

static void of_a_revoked_parent(struct world_rank *me)
{
	split_beside_shrink(me, 1);
}

/* The only thread of a process can't come to another communicator's. */
static void of_two_parents(struct world_rank *me)
{
#ifndef __SANITIZE_THREAD__ /* which has a thread of its own */
	ncclComm_t parents[] = { world_comm(me, 0), world_comm(me, 1) }, child = NULL;
	const char *nodes = getenv("CORALE_NODE_SIZE");
	world_barrier(me);
	const double start = clock_s();
	if (!nodes || !atoi(nodes)) { /* UCX has threads, too */
		const ncclResult_t result = ncclCommSplit(parents[me->rank == 1], 0, 0, &child, NULL);
		expect_end(me, result, ncclInvalidUsage, start, 0, "another communicator",
			   "splits in other orders");
	}
	world_barrier(me);
	for (int i = 0; i < 2; i++)
		WORLD_OK(me, ncclCommAbort(parents[i]));
#else
	(void)me;
#endif
}

/* Makings in the right order, close behind each other, and several in one group in any order, are no mismatch. */
static void in_order(struct world_rank *me)
{
	ncclComm_t parent = world_comm(me, 0), children[3];
	for (int i = 0; i < 20; i++) {
		int excluded[] = { i % me->size };
		if (me->rank != excluded[0])
			WORLD_OK(
			    me, ncclCommShrink(parent, excluded, 1, &children[0], NULL, NCCL_SHRINK_DEFAULT));
		clock_sleep_ms(me->rank == i % 4 ? 60 : 0);
		WORLD_OK(me, ncclCommSplit(parent, 0, 0, &children[1], NULL));
		if (me->rank != excluded[0])
			WORLD_OK(me, ncclCommDestroy(children[0]));
		WORLD_OK(me, ncclGroupStart());
		if (me->rank == 0)
			WORLD_OK(me, ncclCommSplit(parent, 0, 0, &children[0], NULL));
		if (me->rank)
			WORLD_OK(me, ncclCommShrink(parent, (int[]){ 0 }, 1, &children[2], NULL,
						    NCCL_SHRINK_DEFAULT));
		if (me->rank)
			WORLD_OK(me, ncclCommSplit(parent, 0, 0, &children[0], NULL));
		WORLD_OK(me, ncclGroupEnd());
		for (int k = 0; k < 2 + (me->rank > 0); k++)
			WORLD_OK(me, ncclCommDestroy(children[k]));
	}
	world_check(me, parent, "behind makings in order");
	WORLD_OK(me, ncclCommDestroy(parent));
}

/* ---- An init that fails before it has reached the others --------------------------------------------------------------- */

/* This process's calls of the kernel with that number fail with EPERM from now on. */
static void forbid(struct world_rank *me, int number)
{
	struct sock_filter code[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* seccomp_data.nr */
				      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
				      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
				      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { sizeof code / sizeof *code, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		world_fault(me, "no filter of system calls: %s", strerror(errno));
}

static void expect_told(struct world_rank *me, const char *what)
{
	ncclComm_t comm = NULL;
	const double start = clock_s();
	const ncclResult_t result = ncclCommInitRank(&comm, me->size, me->world->ids[0], me->rank);
	if (me->rank != 1)
		expect_end(me, result, ncclRemoteError, start, 0, "rank 1 of", what);
	else if (result == ncclSuccess || comm)
		world_fault(me, "%s: an init that succeeds", what);
}

static void no_thread(struct world_rank *me)
{
	const char *sanitizer = getenv("TEST_SANITIZER");
	if (sanitizer && strstr(sanitizer, "address")) /* whose search for leaks starts a thread at exit */
		return;
	world_id(me, 0);
	if (me->rank == 1) {
		forbid(me, SYS_clone3);
		forbid(me, SYS_clone);
	}
	expect_told(me, "no thread");
	world_barrier(me);
}

static void no_eventfd(struct world_rank *me)
{
	world_id(me, 0);
	if (me->rank == 1)
		forbid(me, SYS_eventfd2);
	expect_told(me, "no eventfd");
	world_barrier(me);
}

static void wrong_setting(struct world_rank *me)
{
	if (me->rank == 1)
		setenv("CORALE_NCCL_TIMEOUT", "soon", 1);
	world_id(me, 0);
	expect_told(me, "a wrong setting");
	world_barrier(me);
}

static void failed_group(struct world_rank *me)
{
	ncclComm_t comm = NULL;
	world_id(me, 0);
	if (me->rank == 1) {
		WORLD_OK(me, ncclGroupStart());
		WORLD_OK(me, ncclCommInitRank(&comm, me->size, me->world->ids[0], me->rank));
		world_expect(me, ncclCommInitRank(&comm, 0, me->world->ids[0], 0), ncclInvalidArgument,
			     "0 ranks");
		world_expect(me, ncclGroupEnd(), ncclInvalidArgument, "a group with it");
	} else {
		expect_told(me, "a group that failed");
	}
	world_barrier(me);
}

/* There is another way, but for UCX. */
static void other_calls(struct world_rank *me)
{
	const char *nodes = getenv("CORALE_NODE_SIZE");
	if (nodes && atoi(nodes))
		return;
	forbid(me, SYS_getrandom);
	forbid(me, SYS_accept4);
	ncclComm_t comm = world_comm(me, 0);
	world_check(me, comm, "without getrandom and accept4");
	WORLD_OK(me, ncclCommDestroy(comm));
}

static const struct world_case cases[] = {
	{ "split of a revoked one, the last rank is killed", 3, WORLD_PROCESSES, split_killed_last, NULL, 1 },
	{ "split of a revoked one, rank 0 is killed", 3, WORLD_PROCESSES, split_killed_first, NULL, 1 },
	{ "split of a revoked one, rank 0 exits", 3, WORLD_PROCESSES, split_exits_first, NULL, 1 },
	{ "shrink that revokes, the last rank is killed", 3, WORLD_PROCESSES, shrink_killed_last, NULL, 1 },
	{ "shrink that revokes, its first rank is killed", 4, WORLD_PROCESSES, shrink_killed_first, NULL, 1 },
	{ "shrink that revokes, its first rank exits", 4, WORLD_PROCESSES, shrink_exits_first, NULL, 1 },
	{ "a split beside a shrink", 3, WORLD_BOTH, of_one_parent, NULL, 0 },
	{ "a split beside a shrink of four ranks", 4, WORLD_BOTH, of_one_parent, NULL, 0 },
	{ "a split beside a shrink, of a revoked one", 3, WORLD_PROCESSES, of_a_revoked_parent, NULL, 0 },
	{ "two parents in other orders", 2, WORLD_PROCESSES, of_two_parents, NULL, 0 },
	{ "two parents in other orders, three ranks", 3, WORLD_PROCESSES, of_two_parents, NULL, 0 },
	{ "splits and shrinks in order", 4, WORLD_BOTH, in_order, NULL, 0 },
	{ "init without threads", 3, WORLD_PROCESSES, no_thread, NULL, 0 },
	{ "init without eventfd", 3, WORLD_PROCESSES, no_eventfd, NULL, 0 },
	{ "init with a wrong setting", 2, WORLD_PROCESSES, wrong_setting, NULL, 0 },
	{ "init in a group that fails", 3, WORLD_PROCESSES, failed_group, NULL, 0 },
	{ "init without getrandom and accept4", 3, WORLD_PROCESSES, other_calls, NULL, 0 },
};

int main(int argc, char **argv)
{
	return world_main(argc, argv, cases, (int)(sizeof cases / sizeof *cases));
}
