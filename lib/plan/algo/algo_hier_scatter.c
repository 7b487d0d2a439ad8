/*
 * Hierarchical scatter: the root gives the blocks of other nodes to the ranks of its node, each of which sends along its
 * rail what the ranks on it are to have; so all links of the root's node carry blocks. Where that node is smaller than
 * others its ranks have several rails each.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

struct scatter {
	struct plan *plan;
	uint8_t near, rail, pass; /* rings: of the root's node, between nodes, of what is passed on */
	uint8_t self, me, root, node, root_node; /* me and root in the world, self in my node */
};

static uint8_t chunk_loop_if(const struct scatter *s, enum plan_pred pred, uint8_t a, uint8_t b)
{
	uint8_t chunks = plan_base(s->plan, PLAN_CHUNKS, PLAN_WORLD, 0);
	return plan_var(s->plan, plan_loop_if(s->plan, chunks, pred, a, b), 0);
}

/* The rank on a rail at the node: the owner of a block. */
static uint8_t rank_at(const struct scatter *s, uint8_t node, uint8_t rail)
{
	return plan_expr(s->plan, (struct plan_expr){ .base = PLAN_RANK_AT, .a = node, .b = rail });
}

static struct plan_step send(uint8_t group, uint8_t peer, uint8_t ring, uint8_t block, uint8_t chunk)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_STABLE,
				   .src = { PLAN_SEND, .block = block, .chunk = chunk },
				   .to_group = group,
				   .to = peer,
				   .to_ring = ring };
}

/* What has the longest way first: along my own rails, and to be passed on along the others'. */
static void spread(const struct scatter *s)
{
	struct plan *plan = s->plan;
	uint8_t chunk = chunk_loop_if(s, PLAN_EQ, s->me, s->root), node = algo_peer_loop(plan, PLAN_RAIL, 1);
	int owned = algo_owned_loop(plan);
	uint8_t rail = algo_part_of(plan, s->self, owned), owner = rank_at(s, node, rail);
	plan_step(plan, send(PLAN_WORLD, owner, s->rail, owner, chunk));
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1);
	owner = rank_at(s, node, algo_part_of(plan, peer, owned));
	plan_step(plan, send(PLAN_NODE, peer, s->pass, owner, chunk));
	for (int i = 0; i < 3; i++)
		plan_end(plan);
	peer = algo_peer_loop(plan, PLAN_NODE, 1);
	plan_step(plan, send(PLAN_NODE, peer, s->near, rank_at(s, s->node, peer), chunk));
	plan_end(plan);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .src = { PLAN_SEND, .block = s->me, .chunk = chunk },
					    .dst = { PLAN_RECV, .chunk = chunk } });
	plan_end(plan);
}

static void pass_on(const struct scatter *s)
{
	struct plan *plan = s->plan;
	uint8_t chunk = chunk_loop_if(s, PLAN_EQ, s->node, s->root_node);
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, 1);
	uint8_t rail = algo_part_of(plan, s->self, algo_owned_loop(plan));
	plan_step(plan,
		  (struct plan_step){ .op = PLAN_MOVE,
				      .pred = PLAN_NE,
				      .pred_a = s->me,
				      .pred_b = s->root,
				      .from_group = PLAN_NODE,
				      .from = plan_base(plan, PLAN_ROOT, PLAN_NODE, 0),
				      .from_ring = s->pass,
				      .dst = { PLAN_SCRATCH, .block = plan_const(plan, 0), .chunk = chunk },
				      .to = rank_at(s, node, rail),
				      .to_ring = s->rail });
	plan_end(plan);
	plan_end(plan);
	plan_end(plan);
}

static void receive_own(const struct scatter *s)
{
	uint8_t chunk = chunk_loop_if(s, PLAN_NE, s->me, s->root);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_FRESH,
				  .pred = PLAN_EQ,
				  .pred_a = s->node,
				  .pred_b = s->root_node,
				  .from = s->root,
				  .from_ring = s->near,
				  .dst = { PLAN_RECV, .chunk = chunk } };
	plan_step(s->plan, step);
	step.pred = PLAN_NE;
	step.from_group = PLAN_RAIL;
	step.from = s->root_node;
	step.from_ring = s->rail;
	plan_step(s->plan, step);
	plan_end(s->plan);
}

void algo_hier_scatter(const struct algo_call *call, struct plan *plan)
{
	struct scatter s = { .plan = plan,
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
	spread(&s);
	plan_program(plan, PLAN_NET);
	pass_on(&s);
	plan_program(plan, PLAN_SM);
	receive_own(&s);
}
