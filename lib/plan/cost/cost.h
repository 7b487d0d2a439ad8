/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan costs by the model, and the bound that no schedule can go below. The constants are those of the topology and of cost_rates.c. Pure. */
#ifndef COST_H
#define COST_H

#include "corale.h"
#include "plan/machine/topo.h"
#include "plan/plan_eval.h"

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

/*
 * What one action costs: the constants of the model beside those of the topology, and the arithmetic that the cost
 * model and the simulator share.
 */

/* How many ranks of my node, and of others, a `from` or `to` means; oneself is neither. */
struct cost_peers {
	int local, remote;
};

struct cost_peers cost_peers(const struct plan_map *map, int rank, int peer, int group);

/* Bytes of an action's message, or of its elements in the other of the two types. */
double cost_message_bytes(const struct plan *plan, const struct plan_action *action);

/* What each step of a plan takes besides its bytes and messages: of a codelet, or of what reads the plan's steps. */
double cost_step_ns(const struct topo *topo, const struct plan *plan);

/* Cores that work for a rank side by side, at least one: a host runs a channel's programs by one thread. */
double cost_cores(const struct topo *topo, const struct plan *plan);

/* What a message takes on its way until it is seen, waking its reader included: to a rank of the same node, and of another. */
double cost_node_latency_ns(const struct topo *topo);
double cost_rail_latency_ns(const struct topo *topo);

/* Time that sending or receiving a message of so many bytes between nodes takes of the rank's core, or of its proxy. */
double cost_send_ns(const struct topo *topo, double bytes);
double cost_recv_ns(const struct topo *topo, double bytes);

/* Time of a rank's proxy for what an action sends or receives, whichever is more, as both mostly overlap with another action's; 0 where there
 * is none. */
double cost_proxy_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		     const struct cost_peers *from, const struct cost_peers *to);

/* Time that the link of a rank to the others of its node is busy, each way, with what an action sends or receives;
 * 0 where that is memory, which each core reaches by itself. */
double cost_link_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		    const struct cost_peers *peers);

/* Time that the memory of a GPU is busy with what an action folds or copies, which all its blocks share; 0 where cores reach memory each by
 * itself. */
double cost_memory_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		      const struct cost_peers *from);

/* Time that a thread or block spends on an action, waits not counted: the fixed cost, its messages, the fold or copy, and the writing of
 * messages to ranks of its node. */
double cost_work_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		    const struct cost_peers *from, const struct cost_peers *to);

#endif
