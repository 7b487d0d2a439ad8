/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck's rounds between nodes: the blocks of a node follow each other and travel as one, in 1 + ceil(log2(nodes)) messages of a rank, however large
 * nodes are. Every rank goes through them, along its own rail. So all bytes cross each rail, and calls must be small. Nodes are of one size, with the
 * ranks in their order.
 *
 * all_gather: in the nodes first, then between them; blocks go to the receive buffer at once. reduce_scatter in reverse: between nodes each rank folds what those of
 * its rail have, for all ranks of its node; these then fold among each other.
 * Source: Bruck et al. (1997) and Traff (2024), as in algo_bruck.c; Kandalla et al., "Designing multi-leader-based allgather algorithms for
 * multi-core clusters" (2009).
 */
#include "algo_build.h"

struct nodes {
	struct plan *plan;
	int size; /* ranks of a node */
	uint8_t near, rail; /* queues */
	uint8_t first; /* my node's first rank */
};

static struct nodes begin(const struct algo_call *call, struct plan *plan)
{
	return (struct nodes){ .plan = plan,
			       .size = call->topo->map.max_node_size,
			       .near = algo_queue(call, plan),
			       .rail = algo_queue(call, plan),
			       .first = algo_rank_at(plan, algo_node(plan), plan_const(plan, 0)) };
}

static void gather_in_node(const struct nodes *n)
{
	struct plan *plan = n->plan;
	struct plan_step own =
	    algo_send(algo_vector(PLAN_SEND, PLAN_EXPR_NONE), PLAN_NODE, PLAN_EXPR_ALL, n->near);
	own.dst = algo_block(PLAN_RECV, algo_me(plan), PLAN_EXPR_NONE);
	plan_step(plan, own);
	const uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, algo_receive(PLAN_NODE, peer, n->near,
				     algo_block(PLAN_RECV, algo_rank_at(plan, algo_node(plan), peer),
						PLAN_EXPR_NONE)));
	plan_end(plan);
}

void algo_hier_bruck_all_gather(const struct algo_call *call, struct plan *plan)
{
	const struct nodes n = begin(call, plan);
	plan_program(plan, PLAN_SM);
	gather_in_node(&n);
	algo_bruck_gather_rounds(plan, PLAN_RAIL, n.size, n.rail, n.first);
}

static void reduce_in_node(const struct nodes *n)
{
	struct plan *plan = n->plan;
	const uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1), self = algo_self(plan);
	plan_step(plan, algo_with(algo_send(algo_block(PLAN_SCRATCH, peer, PLAN_EXPR_NONE), PLAN_NODE, peer,
					    n->near),
				  PLAN_STABLE));
	plan_end(plan);
	plan_step(plan, algo_with(algo_fold(PLAN_NODE, PLAN_EXPR_ALL, n->near,
					    algo_block(PLAN_SCRATCH, self, PLAN_EXPR_NONE),
					    algo_vector(PLAN_RECV, PLAN_EXPR_NONE)),
				  PLAN_REDUCE | PLAN_FINAL));
}

/* Cell i is of the block that is i behind the first one of my node. */
void algo_hier_bruck_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const struct nodes n = begin(call, plan);
	plan->scratch_cells = (uint32_t)call->topo->map.ranks;
	plan_program(plan, PLAN_SM);
	struct plan_step copy =
	    algo_copy(algo_block(PLAN_SEND, n.first, PLAN_EXPR_NONE), algo_cell(plan, PLAN_EXPR_NONE));
	copy.blocks = plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0);
	plan_step(plan, copy);
	algo_bruck_reduce_rounds(plan, PLAN_RAIL, n.size, n.rail, 0);
	reduce_in_node(&n);
}
