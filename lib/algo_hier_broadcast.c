/*
 * Hierarchical broadcast: the root scatters parts over its node, each part travels along its rail from node to node,
 * and every node gathers. Chunks follow each other: the three phases overlap.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

struct broadcast {
	struct plan *plan;
	int nodes;
	uint8_t push, rail, gather; /* rings; tokens to oneself go along push */
	uint8_t self, me, root; /* me and root in the world */
	uint8_t node, root_node, next_node;
};

/* Adds a step twice: for the root, whose buffer holds everything already when it is used in place, and for the others. */
static void step_for_both(const struct broadcast *b, struct plan_step step)
{
	step.pred_a = b->me;
	step.pred_b = b->root;
	step.pred = PLAN_EQ;
	plan_step(b->plan, step);
	step.pred = PLAN_NE;
	step.flags |= PLAN_FRESH;
	plan_step(b->plan, step);
}

static struct plan_step rail_step(const struct broadcast *b, uint8_t part, uint8_t chunk)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_STABLE,
				   .to_group = PLAN_RAIL,
				   .to = b->nodes > 1 ? b->next_node : PLAN_EXPR_NONE,
				   .to_ring = b->rail,
				   .rail = part,
				   .dst = { PLAN_RECV, .part = part, .chunk = chunk } };
}

static void scatter(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	uint8_t part = algo_part_of(plan, b->self, owned);
	int k = plan_loop_if(plan, plan_base(plan, PLAN_SIZE, PLAN_NODE, -1), PLAN_EQ, b->me, b->root);
	uint8_t peer = plan_shift(plan, PLAN_NODE, k, 1, 1);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_STABLE,
			    .src = { PLAN_SEND, .part = algo_part_of(plan, peer, owned), .chunk = chunk },
			    .to_group = PLAN_NODE,
			    .to = peer,
			    .to_ring = b->push });
	plan_end(plan);
	struct plan_step step = rail_step(b, part, chunk);
	step.pred = PLAN_EQ;
	step.pred_a = b->me;
	step.pred_b = b->root;
	step.src = (struct plan_span){ PLAN_SEND, .part = part, .chunk = chunk };
	plan_step(plan, step);
	step.pred = PLAN_NE;
	step.flags |= PLAN_FRESH;
	step.src = (struct plan_span){ 0 };
	step.from_group = PLAN_NODE;
	step.from = plan_base(plan, PLAN_ROOT, PLAN_NODE, 0);
	step.from_ring = b->push;
	plan_step(plan, step);
	algo_signal_self(plan, b->push);
}

/* On the other nodes: from node to node, until the next one is the root's. */
static void forward(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	struct plan_step step = rail_step(b, algo_part_of(plan, b->self, owned), chunk);
	step.flags |= PLAN_FRESH;
	step.from_group = PLAN_RAIL;
	step.from = plan_shift(plan, PLAN_RAIL, 0, 0, -1);
	step.from_ring = b->rail;
	step.pred = PLAN_NE;
	step.pred_a = b->next_node;
	step.pred_b = b->root_node;
	plan_step(plan, step);
	step.pred = PLAN_EQ;
	step.to = PLAN_EXPR_NONE;
	plan_step(plan, step);
	algo_signal_self(plan, b->push);
}

static void gather(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	algo_wait_self(plan, b->push);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_STABLE,
			    .src = { PLAN_RECV, .part = algo_part_of(plan, b->self, owned), .chunk = chunk },
			    .to_group = PLAN_NODE,
			    .to = PLAN_EXPR_ALL,
			    .to_ring = b->gather });
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	step_for_both(b, (struct plan_step){
			     .op = PLAN_MOVE,
			     .from_group = PLAN_NODE,
			     .from = peer,
			     .from_ring = b->gather,
			     .dst = { PLAN_RECV, .part = algo_part_of(plan, peer, owned), .chunk = chunk } });
	plan_end(plan);
}

/* The body of one program: all chunks, all parts that I own; on the root's node, on the others, or everywhere. */
static void for_parts(const struct broadcast *b, enum plan_pred where,
		      void (*body)(const struct broadcast *b, uint8_t chunk, int owned))
{
	struct plan *plan = b->plan;
	int c = plan_loop_if(plan, plan_base(plan, PLAN_CHUNKS, PLAN_WORLD, 0), where, b->node, b->root_node);
	body(b, plan_var(plan, c, 0), algo_owned_loop(plan));
	plan_end(plan);
	plan_end(plan);
}

void algo_hier_broadcast(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.max_node_size;
	struct broadcast b = { .plan = plan,
			       .nodes = call->topo->map.nodes,
			       .push = plan_ring(plan, PLAN_CREDIT, call->slots),
			       .rail = plan_ring(plan, PLAN_CREDIT, call->slots),
			       .gather = plan_ring(plan, PLAN_CREDIT, call->slots),
			       .self = plan_shift(plan, PLAN_NODE, 0, 0, 0),
			       .me = plan_shift(plan, PLAN_WORLD, 0, 0, 0),
			       .root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0),
			       .node = plan_shift(plan, PLAN_RAIL, 0, 0, 0),
			       .root_node = plan_base(plan, PLAN_ROOT, PLAN_RAIL, 0),
			       .next_node = plan_shift(plan, PLAN_RAIL, 0, 0, 1) };
	plan_program(plan, PLAN_NET);
	for_parts(&b, PLAN_EQ, scatter);
	if (b.nodes > 1)
		for_parts(&b, PLAN_NE, forward);
	plan_program(plan, PLAN_SM);
	for_parts(&b, PLAN_ALWAYS, gather);
}
