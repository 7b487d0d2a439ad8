/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI communicators that the door has seen, as attributes, and Corale's communicators over the same ranks, which are made by PMPI_Allgather of the program's own
 * communicator: no duplicates, as several at once deadlock in Open MPI 4.1.
 */
#ifndef PMPI_COMM_H
#define PMPI_COMM_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "corale.h"

/* The functions of MPI that the door counts: collectives and, behind PMPI_COLLECTIVES, messages. */
#define COLLECTIVE(enumerator, ...) PMPI_##enumerator,
enum pmpi_function {
	PMPI_BARRIER,
#include "collectives.def"
	PMPI_REDUCE_LOCAL,
	PMPI_COLLECTIVES,
	PMPI_SEND = PMPI_COLLECTIVES,
	PMPI_RECV,
	PMPI_EXCHANGE,
	PMPI_FUNCTIONS
};
#undef COLLECTIVE

const char *pmpi_function_name(enum pmpi_function function);

enum { PMPI_SIZE_CLASSES = 9 };

int pmpi_size_class(size_t bytes); /* 0; up to 15; up to 255, and so on */

/* Of a communicator, a function and a size class: class 0 alone of rooted functions. */
struct pmpi_route {
	unsigned calls; /* since the last vote */
	unsigned interval; /* a vote is due when calls reaches it; grows while answers stay the same */
	unsigned char is_routed, saw_device; /* the last answer; device memory here since the last vote */
};

enum pmpi_core { PMPI_CORE_NONE, PMPI_CORE_READY, PMPI_CORE_NEVER };

/* As all ranks of a communicator make its collectives in one order, its calls come one at a time. */
struct pmpi_comm {
	MPI_Comm comm;
	int rank, size;
	int is_inter,
	    peers; /* peers: the ranks that calls have blocks for: size, or that of the other group */
	enum pmpi_core state; /* of core; alike on all ranks */
	corale_comm *core;
	int ordinal; /* of core's device */
	void *stream; /* its own; NULL: core is of the host, and its calls block */
	unsigned calls; /* that core has run, or could have run; alike on all ranks */
	size_t bytes; /* of them, on this rank */
	unsigned
	    until_next_try; /* of these calls before core is tried, or tried again, where a rank wanted none */
	unsigned tries;
	struct pmpi_route routes[PMPI_COLLECTIVES][PMPI_SIZE_CLASSES];
	size_t *arrays; /* 4 * size entries: counts and displacements of the call in progress */
	int is_of_world; /* an intracommunicator of ranks of MPI_COMM_WORLD, as those of others may have another door, or none. Alike on all its ranks */
	int *world; /* the ranks' numbers there */
	uint64_t headers_id; /* of messages by peer copies (peer.h); 0: none go on it */
	int users; /* the attribute, receives and messages that were probed: with the lock of requests */
	struct pmpi_comm *next;
};

int pmpi_comms_start(void); /* an MPI error code */
/* At MPI_Finalize: ends all communicators of Corale. */
void pmpi_comms_end(void);

/* NULL: MPI does not know it, or there is no memory: calls are MPI's. */
struct pmpi_comm *pmpi_comm_find(MPI_Comm comm);
/* One user more, or less. NULL is nothing. */
struct pmpi_comm *pmpi_comm_share(struct pmpi_comm *comm);
void pmpi_comm_put(struct pmpi_comm *comm);

/*
 * Before each call that core could run, of so many bytes on this rank. Makes core behind CORALE_MPI_AFTER of them, or later where the process has freed communicators before
 * their cores had earned their making. Collective over comm. state says what has become of it: PMPI_CORE_NEVER if one rank has no room (CORALE_MPI_COMMS)
 * or creation fails. ordinal: the device of this call's buffer, -1: any. An MPI error code.
 */
int pmpi_comm_open(struct pmpi_comm *comm, int ordinal, size_t bytes);

/* *any: whether a rank's `mine` is 1. By core, where it is there, so that the death of a rank ends a vote as it ends a call. An MPI error code. */
int pmpi_comm_vote(struct pmpi_comm *comm, int mine, int *any);

/* Until what was called on the stream is complete. CORALE_E*, logged. */
int pmpi_comm_wait(const struct pmpi_comm *comm);

/* ---- route.c */

/*
 * *is_routed: the answer for this call of comm. bytes: what all ranks know of its size. has_device: this rank passes a device buffer. An MPI error code, of
 * the vote.
 */
int pmpi_route(struct pmpi_comm *comm, enum pmpi_function function, size_t bytes, int has_device,
	       int *is_routed);

#endif
