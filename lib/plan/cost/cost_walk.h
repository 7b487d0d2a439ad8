/* SPDX-License-Identifier: BSD-3-Clause */
/* The walk of a plan's text by which cost.c finds what the plan costs, and what one action adds to it. */
#ifndef COST_WALK_H
#define COST_WALK_H

#include "plan/plan_eval.h"

struct program_cost {
	double work_ns, chain_ns; /* its own work; waiting in chains */
	double paced_ns, once_ns; /* waiting when it collects: in each chunk, or once */
	double crowd_ns; /* and for the other channels, where all are at the same step */
	double last_ns; /* of these the last one, beyond that */
	double since_ns, since_link_ns, since_rail_ns; /* since it last received: its own time, the links' */
	int sends; /* elements, to others */
	double signals; /* tokens that it sends */
	double out_ns, in_ns; /* of the rail, each way */
	double link_out_ns, link_in_ns; /* of the node's link, each way */
	double memory_ns; /* of the memory that blocks share */
	double proxy_ns; /* of the rank's proxy */
};

struct walk {
	const struct topo *topo;
	const struct plan *plan;
	struct plan_env env;
	int var[PLAN_MAX_LOOPS];
	int first_visit, inner_first; /* first trip of all loops around; of the innermost one */
	double outer_weight; /* of the innermost loop as a whole */
	double crossing; /* of the links of a ring through all ranks, the share that goes between nodes */
	struct program_cost cost;
};

static inline double slower(double a, double b)
{
	return a > b ? a : b;
}

/* Adds an action of a step, which weighs as much as so many. */
void cost_add_action(struct walk *walk, const struct plan_step *step, const struct plan_action *action,
		     double weight);

#endif
