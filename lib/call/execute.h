/* Calls of the host engine, from their plans to their runs. */
#ifndef EXECUTE_H
#define EXECUTE_H

#include "state/comm.h"

/* 0 if comm can run a call; else it has failed, here or on another rank, which is diagnosed. */
int execute_check(struct comm *comm, const struct call *call);

/* Executes a collective, or n sends and receives that start together, to the end. */
int execute_calls(struct comm *comm, const struct call *calls, int n);

/* A collective of a communicator with one rank. */
int execute_alone(struct comm *comm, const struct call *call);

/* The run of the next collective; to be driven (drive.h) and freed. An error has ended the communicator. */
int execute_start(struct comm *comm, const struct call *call, struct host_run *run);

/* Sends and receives that start together; those of one ordered pair run in their order. */
struct execute_pairs {
	struct host_run *runs;
	struct call *calls; /* of the runs */
	int *after; /* the run before of the same pair, or -1 */
	int n; /* those to oneself are executed at once */
};
/* memory: so many bytes, which outlive the pairs. */
size_t execute_pairs_bytes(int n);
int execute_start_pairs(struct comm *comm, const struct call *calls, int n, void *memory,
			struct execute_pairs *pairs);
void execute_free_pairs(struct execute_pairs *pairs);

/*
 * Sends to oneself: the k-th of a group meets the k-th receive from oneself. The first call of so many, from i on, that is one of them (n:
 * none is), and whether all of them have a counterpart of the same count and type: CORALE_EINVAL.
 */
int execute_next_own(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll);
int execute_check_own(const struct comm *comm, const struct call *calls, int n);

#endif
