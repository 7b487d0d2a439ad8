/* SPDX-License-Identifier: BSD-3-Clause */
/* From a call to its run by the host engine: plan, environment and binding. */
#ifndef START_H
#define START_H

#include "fast.h"
#include "progress.h"

/* What a run of a call has to know beside its plan. */
struct host_binding start_binding(const struct comm *comm, const struct call *call, const struct plan *plan,
				  uint64_t signature);

/* The run of one call with that signature; to be freed by progress_end. */
int start_run(struct comm *comm, const struct call *call, uint64_t signature, struct run_item *item);

/* Executes a collective of a communicator with one rank, which talks to nobody. 0 or CORALE_ESYSTEM: its buffers can't be used. */
int start_alone(struct comm *comm, const struct call *call);

/*
 * The runs of n sends and receives that start together: those of one ordered pair follow each other, those to oneself are executed at once.
 * begun: of each, or NULL. items: n of them; *used: how many there are, also after a failure.
 */
int start_pairs(struct comm *comm, const struct call *calls, int n, const struct fast_begun *begun,
		struct run_item *items, int *used);
/* The call before number i that is of the same ordered pair of ranks, or -1. */
int start_after(const struct call *calls, int i);

#endif
