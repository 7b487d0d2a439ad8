/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether Corale runs a call: one answer on all ranks. What one rank alone knows (the kind of its memory, MPI_IN_PLACE, a derived type) is heard in votes, which
 * all ranks take at the same calls. With CORALE_MPI=all or host calls are routed without a vote. Between votes the last answer holds; it is right for any memory, only perhaps not the fastest.
 */
#include "coll.h"
#include "door.h"

/* A route that was right so often is asked for again after so many calls at most: a vote is a small all-reduce. */
enum { MOST_CALLS = 256 };

int pmpi_size_class(size_t bytes)
{
	int class = 0;
	while (class < PMPI_SIZE_CLASSES - 1 && bytes >> (4 * class))
		class ++;
	return class;
}

/* A vote hears of device memory at any call since the last one, so a program whose calls alternate keeps its route. */
static int vote(struct pmpi_route *route, struct pmpi_comm *comm)
{
	int any = 0;
	const int error = pmpi_comm_vote(comm, route->saw_device, &any);
	if (error)
		return error;
	if (any != route->is_routed)
		route->interval = 1;
	else if (route->interval < MOST_CALLS)
		route->interval = route->interval ? 2 * route->interval : 1;
	route->is_routed = (unsigned char)any;
	route->calls = 0;
	route->saw_device = 0;
	return MPI_SUCCESS;
}

int pmpi_route(struct pmpi_comm *comm, enum pmpi_function function, size_t bytes, int has_device,
	       int *is_routed)
{
	/* What a rooted call's root and leaves pass may differ in size before anybody has noticed, and a leaf in MPI waits for ever for a root in Corale. */
	const int class = coll_kinds[function].is_rooted ? 0 : pmpi_size_class(bytes);
	struct pmpi_route *route = &comm->routes[function][class];
	int error = MPI_SUCCESS;
	if (pmpi.mode != PMPI_MODE_DEVICE) {
		*is_routed = 1;
		return MPI_SUCCESS;
	}
	route->saw_device |= (unsigned char)has_device;
	if (route->calls++ >= route->interval)
		error = vote(route, comm);
	*is_routed = route->is_routed;
	return error;
}
