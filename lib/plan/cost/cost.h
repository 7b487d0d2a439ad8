/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan costs by the model, and the bound that no schedule can go below. The constants are those of the topology and of cost_rates.c. Pure. */
#ifndef COST_H
#define COST_H

#include "corale.h"
#include "plan/machine/topo.h"

/* Modelled times of one call: from its last rank's entry to its last exit; and of the busiest rank's cores or proxy, which is what a call takes
 * where many follow each other. */
struct plan_cost {
	double ns, busy_ns;
	int slowest; /* which of the ranks that the model asks takes longest */
};

/* Of a plan for a call of count elements on this topology. Only costs below most_ns are right: others are no less than it, and busy_ns is nothing.
 * slowest: the rank to begin with, of those that the model asks. */
struct plan_cost cost_plan_below(const struct topo *topo, const struct plan *plan, size_t count,
				 double most_ns, int slowest);
/* Its ns, and the bound that no schedule on these links can go below. */
double cost_of_plan(const struct topo *topo, const struct plan *plan, size_t count);
double cost_lower_bound(const struct topo *topo, corale_coll coll, size_t bytes);

#endif
