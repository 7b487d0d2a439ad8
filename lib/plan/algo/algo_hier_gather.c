/*
 * Hierarchical gathers: every rank of another node sends its block to the rank of the root's node on its rail, which passes
 * it on to the root; so all links of the root's node bring blocks. Where that node is smaller than others its ranks have
 * several rails each. In a chain blocks go from node to node on their rails instead, the nearest node's first: each rank talks to two other nodes, however many
 * there are.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

/* to: the node that it goes to from other nodes. */
static uint8_t send_own(const struct algo_rooted *g, uint8_t to)
{
	uint8_t chunk = algo_chunk_loop_if(g->plan, PLAN_NE, g->me, g->root);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .pred = PLAN_EQ,
				  .pred_a = g->node,
				  .pred_b = g->root_node,
				  .src = { PLAN_SEND, .chunk = chunk },
				  .to = g->root,
				  .to_queue = g->near };
	plan_step(g->plan, step);
	step.pred = PLAN_NE;
	step.to_group = PLAN_RAIL;
	step.to = to;
	step.to_queue = g->rail;
	plan_step(g->plan, step);
	return chunk;
}

/* What comes along my rails: the root keeps it, others pass it on. */
static void pass_on(const struct algo_rooted *g)
{
	struct plan *plan = g->plan;
	uint8_t chunk = algo_chunk_loop_if(g->plan, PLAN_EQ, g->node, g->root_node);
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, -1);
	uint8_t rail = algo_part_of(plan, g->self, algo_owned_loop(plan)),
		owner = algo_rank_at(g->plan, node, rail);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_FRESH,
				  .pred = PLAN_EQ,
				  .pred_a = g->me,
				  .pred_b = g->root,
				  .from = owner,
				  .from_queue = g->rail,
				  .dst = { PLAN_RECV, .block = owner, .chunk = chunk } };
	plan_step(plan, step);
	step.flags = 0;
	step.pred = PLAN_NE;
	step.dst = (struct plan_span){ PLAN_SCRATCH, .block = plan_const(plan, 0), .chunk = chunk };
	step.to = g->root;
	step.to_queue = g->pass;
	plan_step(plan, step);
	plan_end(plan);
	plan_end(plan);
	plan_end(plan);
}

static struct plan_step receive(uint8_t peer, uint8_t queue, uint8_t block, uint8_t chunk)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_FRESH,
				   .from_group = PLAN_NODE,
				   .from = peer,
				   .from_queue = queue,
				   .dst = { PLAN_RECV, .block = block, .chunk = chunk } };
}

static void collect(const struct algo_rooted *g)
{
	struct plan *plan = g->plan;
	uint8_t chunk = algo_chunk_loop_if(g->plan, PLAN_EQ, g->me, g->root);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .src = { PLAN_SEND, .chunk = chunk },
					    .dst = { PLAN_RECV, .block = g->me, .chunk = chunk } });
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, receive(peer, g->near, algo_rank_at(g->plan, g->node, peer), chunk));
	plan_end(plan);
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, -1);
	int owned = algo_owned_loop(plan);
	peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, receive(peer, g->pass, algo_rank_at(g->plan, node, algo_part_of(plan, peer, owned)),
				chunk));
	for (int i = 0; i < 4; i++)
		plan_end(plan);
}

/* Behind its own: the blocks of the nodes behind, which may have no rank on a rail. */
static void pass_along(const struct algo_rooted *g, uint8_t chunk, uint8_t previous, uint8_t next)
{
	struct plan *plan = g->plan;
	int k = plan_loop(plan, plan_base(plan, PLAN_POSITION, PLAN_RAIL, -1));
	uint8_t node = plan_shift(plan, PLAN_RAIL, k, -1, -1);
	algo_pass_along(g, node, chunk, previous, next);
	plan_end(plan);
}

/* What comes from the node before: the root keeps it, others pass it on. */
static void take_chain(const struct algo_rooted *g, uint8_t previous)
{
	struct plan *plan = g->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, g->node, g->root_node), zero = plan_const(plan, 0);
	for (int keeps = 0; keeps < 2; keeps++) {
		int k = plan_loop_if(plan, plan_base(plan, PLAN_SIZE, PLAN_RAIL, -1),
				     keeps ? PLAN_EQ : PLAN_NE, g->me, g->root);
		uint8_t rail = algo_part_of(plan, g->self, algo_owned_loop(plan));
		uint8_t owner = algo_rank_at(plan, plan_shift(plan, PLAN_RAIL, k, -1, -1), rail);
		struct plan_step step = { .op = PLAN_MOVE,
					  .from_group = PLAN_RAIL,
					  .from = previous,
					  .from_queue = g->rail,
					  .rail = rail };
		step.flags = keeps ? PLAN_FRESH : 0;
		step.dst = keeps ? (struct plan_span){ PLAN_RECV, .block = owner, .chunk = chunk }
				 : (struct plan_span){ PLAN_SCRATCH, .block = zero, .chunk = chunk };
		step.to = keeps ? PLAN_EXPR_NONE : g->root;
		step.to_queue = g->pass;
		algo_if_owned(g, owner, &step);
		plan_step(plan, step);
		plan_end(plan);
		plan_end(plan);
	}
	plan_end(plan);
}

void algo_hier_chain_gather(const struct algo_call *call, struct plan *plan)
{
	struct algo_rooted g = algo_rooted_begin(call, plan);
	uint8_t previous = plan_shift(plan, PLAN_RAIL, 0, 0, -1), next = plan_shift(plan, PLAN_RAIL, 0, 0, 1);
	plan_program(plan, PLAN_SM);
	pass_along(&g, send_own(&g, next), previous, next);
	plan_end(plan);
	plan_program(plan, PLAN_NET);
	take_chain(&g, previous);
	plan_program(plan, PLAN_SM);
	collect(&g);
}

void algo_hier_gather(const struct algo_call *call, struct plan *plan)
{
	struct algo_rooted g = algo_rooted_begin(call, plan);
	plan_program(plan, PLAN_SM);
	send_own(&g, g.root_node);
	plan_end(plan);
	plan_program(plan, PLAN_NET);
	pass_on(&g);
	plan_program(plan, PLAN_SM);
	collect(&g);
}
