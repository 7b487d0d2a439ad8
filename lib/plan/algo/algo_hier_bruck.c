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
	uint8_t near, rail; /* rings */
	uint8_t self, first; /* index in my node; its first rank */
};

static struct nodes begin(const struct algo_call *call, struct plan *plan)
{
	return (struct nodes){ .plan = plan,
			       .size = call->topo->map.max_node_size,
			       .near = plan_ring(plan, PLAN_CREDIT, call->slots),
			       .rail = plan_ring(plan, PLAN_CREDIT, call->slots),
			       .self = plan_shift(plan, PLAN_NODE, 0, 0, 0),
			       .first = algo_rank_at(plan, plan_shift(plan, PLAN_RAIL, 0, 0, 0),
						     plan_const(plan, 0)) };
}

/* A value of a round over the nodes; times: of peers the direction, of others what a node has of each. */
static uint8_t round_expr(const struct nodes *n, enum plan_base base, int round, int times, int backwards)
{
	return plan_expr(n->plan, (struct plan_expr){ .base = (uint8_t)base,
						      .group = PLAN_RAIL,
						      .var = (uint8_t)round,
						      .wrap = (uint8_t)backwards,
						      .stride = (int8_t)times });
}

static int open_rounds(const struct nodes *n)
{
	return plan_loop(n->plan, plan_base(n->plan, PLAN_TREE_LEVELS, PLAN_RAIL, 0));
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
			    .to_ring = n->near });
	const uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH,
					    .dst = { .space = PLAN_RECV,
						     .block = algo_rank_at(
							 plan, plan_shift(plan, PLAN_RAIL, 0, 0, 0), peer) },
					    .from_group = PLAN_NODE,
					    .from = peer,
					    .from_ring = n->near });
	plan_end(plan);
}

void algo_hier_bruck_all_gather(const struct algo_call *call, struct plan *plan)
{
	const struct nodes n = begin(call, plan);
	plan_program(plan, PLAN_SM);
	gather_in_node(&n);
	const int round = open_rounds(&n);
	const uint8_t behind = round_expr(&n, PLAN_BRUCK_PEER, round, 1, 0);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .blocks = round_expr(&n, PLAN_BRUCK_BLOCKS, round, n.size, 0),
				  .src = { .space = PLAN_RECV, .block = n.first },
				  .to_group = PLAN_RAIL,
				  .to = round_expr(&n, PLAN_BRUCK_PEER, round, -1, 0),
				  .to_ring = n.rail };
	plan_step(plan, step);
	step.flags = PLAN_FRESH;
	step.src = (struct plan_span){ 0 };
	step.dst = (struct plan_span){ .space = PLAN_RECV,
				       .block = algo_rank_at(plan, behind, plan_const(plan, 0)) };
	step.to = PLAN_EXPR_NONE;
	step.from_group = PLAN_RAIL;
	step.from = behind;
	step.from_ring = n.rail;
	plan_step(plan, step);
	plan_end(plan);
}

/* Cell i is of the block that is i behind the first one of my node. */
static void reduce_between_nodes(const struct nodes *n)
{
	struct plan *plan = n->plan;
	const struct plan_span own = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) };
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .blocks = plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0),
					    .src = { .space = PLAN_SEND, .block = n->first },
					    .dst = own });
	const int round = open_rounds(n);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE | PLAN_TO_WIRE,
				  .blocks = round_expr(n, PLAN_BRUCK_BLOCKS, round, n->size, 1),
				  .src = { .space = PLAN_SCRATCH,
					   .block = round_expr(n, PLAN_BRUCK_DISTANCE, round, n->size, 1) },
				  .to_group = PLAN_RAIL,
				  .to = round_expr(n, PLAN_BRUCK_PEER, round, 1, 1),
				  .to_ring = n->rail };
	plan_step(plan, step);
	step.flags = PLAN_REDUCE | PLAN_FROM_WIRE;
	step.src = step.dst = own;
	step.to = PLAN_EXPR_NONE;
	step.from_group = PLAN_RAIL;
	step.from = round_expr(n, PLAN_BRUCK_PEER, round, -1, 1);
	step.from_ring = n->rail;
	plan_step(plan, step);
	plan_end(plan);
}

void algo_hier_bruck_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const struct nodes n = begin(call, plan);
	plan->scratch_cells = (uint32_t)call->topo->map.ranks;
	plan_program(plan, PLAN_SM);
	reduce_between_nodes(&n);
	const uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE | PLAN_TO_WIRE,
					    .src = { .space = PLAN_SCRATCH, .block = peer },
					    .to_group = PLAN_NODE,
					    .to = peer,
					    .to_ring = n.near });
	plan_end(plan);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_REDUCE | PLAN_FINAL | PLAN_FROM_WIRE,
					    .src = { .space = PLAN_SCRATCH, .block = n.self },
					    .dst = { .space = PLAN_RECV },
					    .from_group = PLAN_NODE,
					    .from = PLAN_EXPR_ALL,
					    .from_ring = n.near });
}
