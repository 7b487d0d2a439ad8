/* SPDX-License-Identifier: BSD-3-Clause */
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

/* A slip in a plan, at a step that sends. */
enum slip_kind { SLIP_DROPPED, SLIP_PEER /* to the next one */, SLIP_PART /* the next one */, SLIP_KINDS };

struct slip {
	int step;
	enum slip_kind kind;
};

enum { PLANNED_NO_SLIP = -1 };

/* Runs a piece of the calls that all ranks have started, as plan of an algorithm, and adds what its steps send. The first
 * ring on which ranks talk to each other is the first exchange, and so on. Returns the number of faults, which are printed.
 * slip: NULL, or what is wrong with the plan, which may then come to a standstill, and nothing else is a fault; PLANNED_NO_SLIP
 * where there is nothing to be done wrong, or nobody sends anything at that step. */
int planned_run(const struct started *ranks, const char *algo, struct piece piece, const struct slip *slip,
		struct traffic *traffic);

/* Likewise, an all_to_all_v as sends and receives: of each pair a plan for the one end and one for the other. */
int planned_p2p(const struct started *ranks, const struct slip *slip, struct traffic *traffic);

#endif
