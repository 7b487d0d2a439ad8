/*
 * Hierarchical gather: every rank of another node sends its block to the rank of the root's node on its rail, which passes
 * it on to the root; so all links of the root's node bring blocks. Where that node is smaller than others its ranks have
 * several rails each.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

static void send_own(const struct algo_rooted *g)
{
	uint8_t chunk = algo_chunk_loop_if(g->plan, PLAN_NE, g->me, g->root);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .pred = PLAN_EQ,
				  .pred_a = g->node,
				  .pred_b = g->root_node,
				  .src = { PLAN_SEND, .chunk = chunk },
				  .to = g->root,
				  .to_ring = g->near };
	plan_step(g->plan, step);
	step.pred = PLAN_NE;
	step.to_group = PLAN_RAIL;
	step.to = g->root_node;
	step.to_ring = g->rail;
	plan_step(g->plan, step);
	plan_end(g->plan);
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
				  .from_ring = g->rail,
				  .dst = { PLAN_RECV, .block = owner, .chunk = chunk } };
	plan_step(plan, step);
	step.flags = 0;
	step.pred = PLAN_NE;
	step.dst = (struct plan_span){ PLAN_SCRATCH, .block = plan_const(plan, 0), .chunk = chunk };
	step.to = g->root;
	step.to_ring = g->pass;
	plan_step(plan, step);
	plan_end(plan);
	plan_end(plan);
	plan_end(plan);
}

static struct plan_step receive(uint8_t peer, uint8_t ring, uint8_t block, uint8_t chunk)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_FRESH,
				   .from_group = PLAN_NODE,
				   .from = peer,
				   .from_ring = ring,
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

void algo_hier_gather(const struct algo_call *call, struct plan *plan)
{
	struct algo_rooted g = algo_rooted_begin(call, plan);
	plan_program(plan, PLAN_SM);
	send_own(&g);
	plan_program(plan, PLAN_NET);
	pass_on(&g);
	plan_program(plan, PLAN_SM);
	collect(&g);
}
