/*
 * Hierarchical gather: every rank of another node sends its block to the rank of the root's node on its rail, which passes
 * it on to the root; so all links of the root's node bring blocks. Where that node is smaller than others its ranks have
 * several rails each.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

struct gather {
	struct plan *plan;
	uint8_t near, rail, pass; /* rings: of the root's node, between nodes, of what is passed on */
	uint8_t self, me, root, node, root_node; /* me and root in the world, self in my node */
};

static uint8_t chunk_loop_if(const struct gather *g, enum plan_pred pred, uint8_t a, uint8_t b)
{
	uint8_t chunks = plan_base(g->plan, PLAN_CHUNKS, PLAN_WORLD, 0);
	return plan_var(g->plan, plan_loop_if(g->plan, chunks, pred, a, b), 0);
}

/* The rank on a rail at the node: the owner of a block. */
static uint8_t rank_at(const struct gather *g, uint8_t node, uint8_t rail)
{
	return plan_expr(g->plan, (struct plan_expr){ .base = PLAN_RANK_AT, .a = node, .b = rail });
}

static void send_own(const struct gather *g)
{
	uint8_t chunk = chunk_loop_if(g, PLAN_NE, g->me, g->root);
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
static void pass_on(const struct gather *g)
{
	struct plan *plan = g->plan;
	uint8_t chunk = chunk_loop_if(g, PLAN_EQ, g->node, g->root_node);
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, -1);
	uint8_t rail = algo_part_of(plan, g->self, algo_owned_loop(plan)), owner = rank_at(g, node, rail);
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

static void collect(const struct gather *g)
{
	struct plan *plan = g->plan;
	uint8_t chunk = chunk_loop_if(g, PLAN_EQ, g->me, g->root);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .src = { PLAN_SEND, .chunk = chunk },
					    .dst = { PLAN_RECV, .block = g->me, .chunk = chunk } });
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, receive(peer, g->near, rank_at(g, g->node, peer), chunk));
	plan_end(plan);
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, -1);
	int owned = algo_owned_loop(plan);
	peer = algo_peer_loop(plan, PLAN_NODE, -1);
	plan_step(plan, receive(peer, g->pass, rank_at(g, node, algo_part_of(plan, peer, owned)), chunk));
	for (int i = 0; i < 4; i++)
		plan_end(plan);
}

void algo_hier_gather(const struct algo_call *call, struct plan *plan)
{
	struct gather g = { .plan = plan,
			    .near = plan_ring(plan, PLAN_CREDIT, call->slots),
			    .rail = plan_ring(plan, PLAN_CREDIT, call->slots),
			    .pass = plan_ring(plan, PLAN_CREDIT, call->slots),
			    .self = plan_shift(plan, PLAN_NODE, 0, 0, 0),
			    .me = plan_shift(plan, PLAN_WORLD, 0, 0, 0),
			    .root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0),
			    .node = plan_shift(plan, PLAN_RAIL, 0, 0, 0),
			    .root_node = plan_base(plan, PLAN_ROOT, PLAN_RAIL, 0) };
	plan->scratch_cells = 1;
	plan_program(plan, PLAN_SM);
	send_own(&g);
	plan_program(plan, PLAN_NET);
	pass_on(&g);
	plan_program(plan, PLAN_SM);
	collect(&g);
}
