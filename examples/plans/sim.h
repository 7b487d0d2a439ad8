/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discrete-event simulation: all ranks run a plan on a machine of links, wires and cores that take the time that
 * the cost model's constants say. Slower than the model and sharper: it knows who waits for whom.
 */
#ifndef SIM_H
#define SIM_H

#include "plan/plan_eval.h"
#include "plan/machine/topo.h"

struct sim_event { /* one action */
	int rank, channel, program, step; /* step: index in the plan */
	double ready_ns, start_ns, end_ns; /* ready: its messages and its room were there */
	struct plan_action action;
};

struct sim_options {
	size_t count; /* elements, as in plan_env_init */
	int root;
	int record_ranks; /* events of ranks 0 .. record_ranks - 1 are kept */
	long most_actions; /* gives up beyond; 0: never */
};

struct sim_result {
	double ns; /* when the last rank is done */
	long actions;
	double rail_bytes; /* sent between nodes by the busiest rank */
	struct sim_event *events; /* in the order in which they started */
	long nevents;
};

/* 0, CORALE_ENOMEM, CORALE_ENOTSUP (more than most_actions), CORALE_EINTERNAL (the plan deadlocks). */
int sim_run(const struct topo *topo, const struct plan *plan, const struct sim_options *options,
	    struct sim_result *out);
void sim_result_free(struct sim_result *result);

#endif
