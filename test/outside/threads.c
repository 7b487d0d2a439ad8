/* SPDX-License-Identifier: BSD-3-Clause */
/* A program outside the tree: ranks as threads, C99, nothing but the installed header and library. */
#include <corale.h>
#include <pthread.h>
#include <stdio.h>

enum { RANKS = 3, COUNT = 1000 };

struct member {
	pthread_t thread;
	corale_inproc *group;
	int rank, status;
};

static int sum_right(corale_comm *comm)
{
	static float send[RANKS][COUNT], recv[RANKS][COUNT];
	int rank = corale_comm_rank(comm), i, status;
	for (i = 0; i < COUNT; i++)
		send[rank][i] = (float)(rank + i);
	status = corale_all_reduce(send[rank], recv[rank], COUNT, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	for (i = 0; !status && i < COUNT; i++)
		if (recv[rank][i] != (float)(RANKS * i + RANKS * (RANKS - 1) / 2))
			status = CORALE_EINTERNAL;
	return status;
}

static void *run(void *argument)
{
	struct member *member = argument;
	corale_comm *comm;
	member->status = corale_comm_create_inproc(member->group, member->rank, NULL, &comm);
	if (member->status)
		return NULL;
	member->status = sum_right(comm);
	corale_comm_destroy(comm);
	return NULL;
}

int main(void)
{
	struct member member[RANKS];
	corale_inproc *group;
	int rank, status;
	if (corale_version() != CORALE_VERSION)
		return fprintf(stderr, "the library's version is not the header's\n"), 1;
	status = corale_inproc_create(RANKS, &group);
	if (status)
		return fprintf(stderr, "corale_inproc_create: %s\n", corale_strerror(status)), 1;
	for (rank = 0; rank < RANKS; rank++) {
		member[rank].group = group;
		member[rank].rank = rank;
		pthread_create(&member[rank].thread, NULL, run, &member[rank]);
	}
	for (rank = 0; rank < RANKS; rank++) {
		pthread_join(member[rank].thread, NULL);
		if (member[rank].status)
			status = fprintf(stderr, "rank %d: %s\n", rank, corale_strerror(member[rank].status));
	}
	corale_inproc_destroy(group);
	return status != 0;
}
