/*
 * What a plan sends: one of the planner's algorithms, run for all ranks by the step executor of the host engine over a
 * transport that keeps every message. Each rank is a node of its own, so that all its messages go through the transport.
 * Algorithms for several nodes are built although the planner has better ones for nodes of one rank: their chains of
 * nodes are then chains of ranks.
 */
#ifndef PLANNED_H
#define PLANNED_H

#include "calls.h"
#include "traffic.h"

/* What goes at a time of the calls' vector, or of each of their blocks; of calls without pieces: all of it. */
struct piece {
	size_t at, bytes;
};

/* Runs a piece of the calls that all ranks have started, as plan of an algorithm, and adds what its steps send. The first
 * ring on which ranks talk to each other is the first exchange, and so on. Returns the number of faults, which are printed. */
int planned_run(const struct started *ranks, const char *algo, struct piece piece, struct traffic *traffic);

/* Likewise, an all_to_all_v as sends and receives: of each pair a plan for the one end and one for the other. */
int planned_edges(const struct started *ranks, struct traffic *traffic);

#endif
