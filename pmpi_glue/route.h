/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether Corale runs a call: one answer on all ranks. What one rank alone knows (the kind of its memory, MPI_IN_PLACE, a derived type) is heard in votes, which
 * all ranks take at the same calls. With CORALE_MPI=all or host calls are routed without a vote. Between votes the last answer holds; it is right for any memory, only perhaps not the fastest.
 */
#ifndef PMPI_ROUTE_H
#define PMPI_ROUTE_H

#include <mpi.h>
#include <stddef.h>

#include "functions.h"

enum { PMPI_SIZE_CLASSES = 9 };

int pmpi_size_class(size_t bytes); /* 0; up to 15; up to 255, and so on */

/* Of a communicator, a function and a size class: class 0 alone of rooted functions. */
struct pmpi_route {
	unsigned calls; /* since the last vote */
	unsigned interval; /* a vote is due when calls reaches it; grows while answers stay the same */
	unsigned char is_routed, saw_device; /* the last answer; device memory here since the last vote */
};

struct pmpi_routes {
	struct pmpi_route of[PMPI_COLLECTIVES][PMPI_SIZE_CLASSES];
};

/*
 * *is_routed: the answer for this call of comm. bytes: what all ranks know of its size. has_device: this rank passes a device buffer. An MPI error code, of
 * the vote.
 */
struct pmpi_comm;
int pmpi_route(struct pmpi_comm *comm, enum pmpi_function function, size_t bytes, int has_device,
	       int *is_routed);

#endif
