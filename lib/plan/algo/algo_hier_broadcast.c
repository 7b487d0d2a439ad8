/*
 * Hierarchical broadcast: the root scatters parts over its node, each part travels along its rail, and every node
 * gathers. On the rails either from node to node (large messages: chunks follow each other, the phases overlap), or
 * from the root's node to every other one (small messages: one hop), or along a binomial tree (many nodes).
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

enum way { CHAIN, FLAT, TREE };

struct broadcast {
	struct plan *plan;
	int nodes;
	enum way way;
	uint8_t push, rail, gather; /* queues; tokens to oneself go along push */
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
				   .to = b->nodes > 1 && b->way == CHAIN ? b->next_node : PLAN_EXPR_NONE,
				   .to_queue = b->rail,
				   .rail = part,
				   .dst = { PLAN_RECV, .part = part, .chunk = chunk } };
}

/* Opens the loop over the nodes that this one sends to: all others from the root's, or its children, the largest subtree first. */
static uint8_t node_loop(const struct broadcast *b)
{
	if (b->way == FLAT)
		return algo_peer_loop(b->plan, PLAN_RAIL, 1);
	int k = plan_loop(b->plan, plan_rounds(b->plan, PLAN_RAIL, 2, 0)), levels = 0;
	while (1 << levels < b->nodes)
		levels++;
	return plan_child(b->plan, PLAN_RAIL, k, -1, levels - 1);
}

static void spread(const struct broadcast *b, uint8_t part, uint8_t chunk)
{
	uint8_t node = node_loop(b);
	struct plan_step step = rail_step(b, part, chunk);
	step.src = step.dst;
	step.dst = (struct plan_span){ 0 };
	step.to = node;
	plan_step(b->plan, step);
	plan_end(b->plan);
}

static void scatter(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	uint8_t part = algo_part_of(plan, b->self, owned);
	uint8_t peer = algo_root_loop(plan, PLAN_NODE, 1, b->me, b->root);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_STABLE,
			    .src = { PLAN_SEND, .part = algo_part_of(plan, peer, owned), .chunk = chunk },
			    .to_group = PLAN_NODE,
			    .to = peer,
			    .to_queue = b->push });
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
	step.from_queue = b->push;
	plan_step(plan, step);
	if (b->way != CHAIN)
		spread(b, part, chunk);
	algo_signal_self(plan, b->push);
}

/* On the other nodes; those of a chain pass on, until the next one is the root's. */
static void forward(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	uint8_t part = algo_part_of(plan, b->self, owned);
	struct plan_step step = rail_step(b, part, chunk);
	step.flags |= PLAN_FRESH;
	step.from_group = PLAN_RAIL;
	step.from = b->way == CHAIN  ? plan_shift(plan, PLAN_RAIL, 0, 0, -1)
		    : b->way == FLAT ? b->root_node
				     : plan_base(plan, PLAN_TREE_PARENT, PLAN_RAIL, 0);
	step.from_queue = b->rail;
	if (b->way == CHAIN) {
		step.pred = PLAN_NE;
		step.pred_a = b->next_node;
		step.pred_b = b->root_node;
		plan_step(plan, step);
		step.pred = PLAN_EQ;
		step.to = PLAN_EXPR_NONE;
	}
	plan_step(plan, step);
	if (b->way == TREE)
		spread(b, part, chunk);
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
			    .to_queue = b->gather });
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	step_for_both(b, (struct plan_step){
			     .op = PLAN_MOVE,
			     .from_group = PLAN_NODE,
			     .from = peer,
			     .from_queue = b->gather,
			     .dst = { PLAN_RECV, .part = algo_part_of(plan, peer, owned), .chunk = chunk } });
	plan_end(plan);
}

/* The body of one program: all chunks, all parts that I own; on the root's node, on the others, or everywhere. */
static void for_parts(const struct broadcast *b, enum plan_pred where,
		      void (*body)(const struct broadcast *b, uint8_t chunk, int owned))
{
	struct plan *plan = b->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, where, b->node, b->root_node);
	body(b, chunk, algo_owned_loop(plan));
	plan_end(plan);
	plan_end(plan);
}

static void build(const struct algo_call *call, struct plan *plan, enum way way)
{
	plan->parts = call->topo->map.max_node_size;
	struct broadcast b = { .plan = plan,
			       .nodes = call->topo->map.nodes,
			       .way = way,
			       .push = plan_queue(plan, PLAN_CREDIT, call->slots),
			       .rail = plan_queue(plan, PLAN_CREDIT, call->slots),
			       .gather = plan_queue(plan, PLAN_CREDIT, call->slots),
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

void algo_hier_chain_broadcast(const struct algo_call *call, struct plan *plan)
{
	build(call, plan, CHAIN);
}

void algo_hier_flat_broadcast(const struct algo_call *call, struct plan *plan)
{
	build(call, plan, FLAT);
}

void algo_hier_binomial_broadcast(const struct algo_call *call, struct plan *plan)
{
	build(call, plan, TREE);
}
