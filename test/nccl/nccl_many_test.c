/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many ranks behind the NCCL door: communicators, collectives, splits and a shrink by more ranks than a word has bits, met by the bootstrap
 * over TCP, on one node and on many. `nccl_many_test N RANKS` runs case N with so many ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_world.h"

enum { COUNT = 3, GROUPS = 8 };

static int64_t content(int from, int to, int i)
{
	return ((int64_t)from * 100003 + to) * 17 + i;
}

static void check_all_to_all(struct world_rank *me, ncclComm_t comm, const char *what)
{
	int size = 0, rank = 0, wrong = 0;
	WORLD_OK(me, ncclCommCount(comm, &size));
	WORLD_OK(me, ncclCommUserRank(comm, &rank));
	int64_t *send = malloc((size_t)size * COUNT * sizeof *send),
		*recv = malloc((size_t)size * COUNT * sizeof *recv);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < COUNT; i++)
			send[r * COUNT + i] = content(rank, r, i);
	world_expect(me, ncclAlltoAll(send, recv, COUNT, ncclInt64, comm, NULL), ncclSuccess, what);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < COUNT; i++)
			wrong += recv[r * COUNT + i] != content(r, rank, i);
	if (wrong)
		world_fault(me, "%s: %d of %d elements are wrong", what, wrong, size * COUNT);
	free(send);
	free(recv);
}

static void check_both(struct world_rank *me, ncclComm_t comm, const char *what)
{
	world_check(me, comm, what);
	check_all_to_all(me, comm, what);
}

/* Without the first rank, and without one of the last. */
static void check_shrink(struct world_rank *me, ncclComm_t comm)
{
	int excluded[] = { 0, me->size - 2 };
	ncclComm_t few = NULL;
	if (me->rank == excluded[0] || me->rank == excluded[1])
		return;
	WORLD_OK(me, ncclCommShrink(comm, excluded, 2, &few, NULL, NCCL_SHRINK_DEFAULT));
	world_check(me, few, "shrunk");
	WORLD_OK(me, ncclCommDestroy(few));
}

static void many(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0), part = NULL;
	check_both(me, comm, "all ranks");
	WORLD_OK(me, ncclCommSplit(comm, me->rank % GROUPS, -me->rank, &part, NULL));
	check_both(me, part, "a part");
	WORLD_OK(me, ncclCommDestroy(part));
	check_shrink(me, comm);
	check_both(me, comm, "all ranks again");
	WORLD_OK(me, ncclCommDestroy(comm));
}

static int count_sockets(void)
{
	char path[64], target[64];
	int n = 0;
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		const ssize_t bytes = readlink(path, target, sizeof target);
		n += bytes > 7 && !strncmp(target, "socket:", 7);
	}
	return n;
}

/* Ranks that wait for the first one to split ask it alone: else each has a connection to each other, which machines that are slow have no time for. */
static void late_first(struct world_rank *me)
{
	ncclComm_t comm = world_comm(me, 0), part = NULL;
	if (!me->rank)
		usleep(1500000);
	WORLD_OK(me, ncclCommSplit(comm, 0, me->rank, &part, NULL));
	const int n = count_sockets();
	if (me->rank && n > me->size * 3 / 4)
		world_fault(me, "%d sockets of %d ranks; expected some to neighbours and to rank 0", n,
			    me->size);
	WORLD_OK(me, ncclCommDestroy(part));
	WORLD_OK(me, ncclCommDestroy(comm));
}

/* Whether this build has UCX, by which nodes talk. */
static int has_nodes(void)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/corale_ucx.so",
		 getenv("CORALE_MODULES") ? getenv("CORALE_MODULES") : ".");
	return access(path, R_OK) == 0;
}

int main(int argc, char **argv)
{
	struct world_case cases[] = {
		{ "many ranks of one host", 96, WORLD_PROCESSES, many, NULL, 0 },
		{ "many ranks of nodes of 8", 256, WORLD_PROCESSES, many, "CORALE_NODE_SIZE=8", 0 },
		{ "the first of many ranks comes late", 48, WORLD_PROCESSES, late_first, "CORALE_NODE_SIZE=8",
		  0 },
	};
	const int n = sizeof cases / sizeof *cases - (has_nodes() ? 0 : 2);
	for (int i = 0; argc > 2 && i < n; i++)
		cases[i].ranks = atoi(argv[2]);
	return world_main(argc, argv, cases, n);
}
