/*
 * Bruck's rounds between nodes: the blocks of a node follow each other and travel as one, in 1 + ceil(log2(nodes)) messages of a rank, however large
 * nodes are. Every rank goes through them, along its own rail. So all bytes cross each rail, and calls must be small. Nodes are of one size, with the
 * ranks in their order.
 *
 * all_gather: in the nodes first, then between them; whatever comes goes to its place. reduce_scatter in reverse: between nodes each rank folds what those of
 * its rail have, for all ranks of its node; these then fold among each other.
 * Source: Bruck et al. (1997) and Traff (2024), as in algo_bruck.c; Kandalla et al., "Designing multi-leader-based allgather algorithms for
 * multi-core clusters" (2009).
 */
#include "algo_build.h"

struct nodes {
	struct plan *plan;
	int size; /* ranks of a node */
	uint8_t near, rail; /* queues */
	uint8_t node, first; /* my node; its first rank */
};

static struct nodes begin(const struct algo_call *call, struct plan *plan)
{
	const uint8_t node = plan_shift(plan, PLAN_RAIL, 0, 0, 0);
	return (struct nodes){ .plan = plan,
			       .size = call->topo->map.max_node_size,
			       .near = plan_queue(plan, PLAN_CREDIT, call->slots),
			       .rail = plan_queue(plan, PLAN_CREDIT, call->slots),
			       .node = node,
			       .first = algo_rank_at(plan, node, plan_const(plan, 0)) };
}

static void gather_in_node(const struct nodes *n)
{
	struct plan *plan = n->plan;
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_STABLE,
			    .src = { .space = PLAN_SEND },
			    .dst = { .space = PLAN_RECV, .block = plan_shift(plan, PLAN_WORLD, 0, 0, 0) },
			    .to_group = PLAN_NODE,
			    .to = PLAN_EXPR_ALL,
			    .to_queue = n->near });
	const uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_FRESH,
			    .dst = { .space = PLAN_RECV, .block = algo_rank_at(plan, n->node, peer) },
			    .from_group = PLAN_NODE,
			    .from = peer,
			    .from_queue = n->near });
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
	const uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE | PLAN_TO_WIRE,
					    .src = { .space = PLAN_SCRATCH, .block = peer },
					    .to_group = PLAN_NODE,
					    .to = peer,
					    .to_queue = n->near });
	plan_end(plan);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_REDUCE | PLAN_FINAL | PLAN_FROM_WIRE,
			    .src = { .space = PLAN_SCRATCH, .block = plan_shift(plan, PLAN_NODE, 0, 0, 0) },
			    .dst = { .space = PLAN_RECV },
			    .from_group = PLAN_NODE,
			    .from = PLAN_EXPR_ALL,
			    .from_queue = n->near });
}

/* Cell i is of the block that is i behind the first one of my node. */
void algo_hier_bruck_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const struct nodes n = begin(call, plan);
	plan->scratch_cells = (uint32_t)call->topo->map.ranks;
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .blocks = plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0),
					    .src = { .space = PLAN_SEND, .block = n.first },
					    .dst = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) } });
	algo_bruck_reduce_rounds(plan, PLAN_RAIL, n.size, n.rail, 0);
	reduce_in_node(&n);
}
