/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical reduce: reduce-scatter inside each node, a reduce of each part among the ranks of one rail, whose results
 * the ranks of the root's node give to the root. Between nodes either from node to node (large vectors: chunks follow each
 * other) or along a binomial tree. Parts and rails as in the hierarchical all-reduce.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_rounds.h"

struct hier {
	struct plan *plan;
	uint8_t push, rail, give; /* queues */
};

/* Leaves the node's sum of my part in scratch. */
static void fold_in_node(const struct hier *h, uint8_t chunk, int owned, struct plan_span sum)
{
	struct plan *plan = h->plan;
	uint8_t mine = algo_part_of(plan, algo_self(plan), owned), peer = algo_peer_loop(plan, PLAN_NODE, 1);
	plan_step(plan, algo_send(algo_part(PLAN_SEND, algo_part_of(plan, peer, owned), chunk), PLAN_NODE,
				  peer, h->push));
	plan_end(plan);
	plan_step(plan, algo_fold(PLAN_NODE, PLAN_EXPR_ALL, h->push, algo_part(PLAN_SEND, mine, chunk), sum));
}

/* A program of the root alone, so a rank that gives it a part never waits for the root's own sums. */
static void collect(const struct hier *h)
{
	struct plan *plan = h->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, algo_me(plan), algo_root(plan));
	int owned = algo_owned_loop(plan);
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	const struct plan_span theirs = algo_part(PLAN_RECV, algo_part_of(plan, peer, owned), chunk);
	plan_step(plan, algo_with(algo_receive(PLAN_NODE, peer, h->give, theirs), 0));
	algo_end(plan, 3);
}

void algo_hier_reduce(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.max_node_size;
	plan->scratch_cells = 1;
	struct hier h = { .plan = plan,
			  .push = algo_queue(call, plan),
			  .rail = algo_queue(call, plan),
			  .give = algo_queue(call, plan) };
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	int owned = algo_owned_loop(plan);
	uint8_t mine = algo_part_of(plan, algo_self(plan), owned);
	struct plan_span sum = { PLAN_SCRATCH, plan_const(plan, 0), mine, chunk, 0 };
	fold_in_node(&h, chunk, owned, sum);
	call->row->rounds(plan, &(struct algo_rounds){ .group = PLAN_RAIL,
						       .n = call->topo->map.nodes,
						       .rail = mine,
						       .queue = h.rail,
						       .local = sum,
						       .acc = sum,
						       .result = algo_part(PLAN_RECV, mine, chunk),
						       .give = h.give });
	algo_end(plan, 2);
	plan_program(plan, PLAN_SM);
	collect(&h);
}
