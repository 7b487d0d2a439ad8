/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by the fast path of small messages (host/host_fast.h). */
#ifndef FAST_H
#define FAST_H

#include "state/comm.h"

/* A call that the fast path has begun and not ended. */
struct fast_begun {
	uint64_t signature; /* the call's; 0: nothing has begun */
	int steps; /* of the plan that are executed */
};

/* A collective. 1: the call is complete. 0: a run of its plan goes on behind *begun. The communicator has nothing else under way, and has not failed. */
int fast_call(struct comm *comm, const struct call *call, struct fast_begun *begun);

enum { FAST_PAIRS = 16 };

/* The same of n sends and receives that start together, begun: of each. FAST_PAIRS at most, none to this rank itself. */
int fast_pairs(struct comm *comm, const struct call *calls, int n, struct fast_begun *begun);

#endif
