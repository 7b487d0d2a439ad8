/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical broadcast: the root scatters parts over its node, each part travels along its rail, and every node
 * gathers. On the rails either from node to node (large messages: chunks follow each other, the phases overlap), or
 * from the root's node to every other one (small messages: one hop), or along a binomial tree (many nodes).
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

struct broadcast {
	struct plan *plan;
	int nodes;
	enum algo_between by;
	uint8_t push, rail, gather; /* queues; tokens to oneself go along push */
	uint8_t next_node;
};

/* Adds a step twice: for the root, whose buffer holds everything already when it is used in place, and for the others. */
static void step_for_both(const struct broadcast *b, struct plan_step step)
{
	plan_step(b->plan, algo_if(algo_with(step, 0), PLAN_EQ, algo_me(b->plan), algo_root(b->plan)));
	plan_step(b->plan, algo_if(step, PLAN_NE, algo_me(b->plan), algo_root(b->plan)));
}

/* A step for a part of mine that goes on to the next node of a chain. */
static struct plan_step along_rail(const struct broadcast *b, uint8_t part, struct plan_step step)
{
	step.flags |= PLAN_STABLE;
	step.rail = part;
	if (b->nodes > 1 && b->by == ALGO_CHAIN)
		step = algo_and_send(step, PLAN_RAIL, b->next_node, b->rail);
	return step;
}

/* Opens the loop over the nodes that this one sends to: all others from the root's, or its children, the largest subtree first. */
static uint8_t node_loop(const struct broadcast *b)
{
	if (b->by == ALGO_FLAT)
		return algo_peer_loop(b->plan, PLAN_RAIL, 1);
	int k = plan_loop(b->plan, plan_rounds(b->plan, PLAN_RAIL, 2, 0)), levels = 0;
	while (1 << levels < b->nodes)
		levels++;
	return plan_term(b->plan, PLAN_TREE_CHILD, PLAN_RAIL, k, -1, levels - 1);
}

static void spread(const struct broadcast *b, uint8_t part, uint8_t chunk)
{
	struct plan_step step =
	    algo_send(algo_part(PLAN_RECV, part, chunk), PLAN_RAIL, node_loop(b), b->rail);
	step.rail = part;
	plan_step(b->plan, step);
	plan_end(b->plan);
}

static void scatter(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	uint8_t part = algo_part_of(plan, algo_self(plan), owned);
	uint8_t peer = algo_root_loop(plan, PLAN_NODE, 1, algo_me(plan), algo_root(plan)),
		root = plan_base(plan, PLAN_ROOT, PLAN_NODE, 0);
	plan_step(plan, algo_send(algo_part(PLAN_SEND, algo_part_of(plan, peer, owned), chunk), PLAN_NODE,
				  peer, b->push));
	plan_end(plan);
	const struct plan_span mine = algo_part(PLAN_RECV, part, chunk);
	plan_step(plan, algo_if(along_rail(b, part, algo_copy(algo_part(PLAN_SEND, part, chunk), mine)),
				PLAN_EQ, algo_me(plan), algo_root(plan)));
	plan_step(plan, algo_if(along_rail(b, part, algo_receive(PLAN_NODE, root, b->push, mine)), PLAN_NE,
				algo_me(plan), algo_root(plan)));
	if (b->by != ALGO_CHAIN)
		spread(b, part, chunk);
	algo_signal_self(plan, b->push);
}

/* On the other nodes; those of a chain pass on, until the next one is the root's. */
static void forward(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	uint8_t part = algo_part_of(plan, algo_self(plan), owned);
	uint8_t from = b->by == ALGO_CHAIN  ? plan_shift(plan, PLAN_RAIL, 0, 0, -1)
		       : b->by == ALGO_FLAT ? algo_root_node(plan)
					    : plan_base(plan, PLAN_TREE_PARENT, PLAN_RAIL, 0);
	struct plan_step step =
	    along_rail(b, part, algo_receive(PLAN_RAIL, from, b->rail, algo_part(PLAN_RECV, part, chunk)));
	if (b->by == ALGO_CHAIN) {
		plan_step(plan, algo_if(step, PLAN_NE, b->next_node, algo_root_node(plan)));
		step = algo_if(step, PLAN_EQ, b->next_node, algo_root_node(plan));
		step.to = PLAN_EXPR_NONE;
	}
	plan_step(plan, step);
	if (b->by == ALGO_TREE)
		spread(b, part, chunk);
	algo_signal_self(plan, b->push);
}

static void gather(const struct broadcast *b, uint8_t chunk, int owned)
{
	struct plan *plan = b->plan;
	algo_wait_self(plan, b->push);
	plan_step(plan, algo_send(algo_part(PLAN_RECV, algo_part_of(plan, algo_self(plan), owned), chunk),
				  PLAN_NODE, PLAN_EXPR_ALL, b->gather));
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	step_for_both(b, algo_receive(PLAN_NODE, peer, b->gather,
				      algo_part(PLAN_RECV, algo_part_of(plan, peer, owned), chunk)));
	plan_end(plan);
}

/* The body of one program: all chunks, all parts that I own; on the root's node, on the others, or everywhere. */
static void for_parts(const struct broadcast *b, enum plan_pred where,
		      void (*body)(const struct broadcast *b, uint8_t chunk, int owned))
{
	struct plan *plan = b->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, where, algo_node(plan), algo_root_node(plan));
	body(b, chunk, algo_owned_loop(plan));
	algo_end(plan, 2);
}

void algo_hier_broadcast(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.max_node_size;
	struct broadcast b = { .plan = plan,
			       .nodes = call->topo->map.nodes,
			       .by = call->row->between,
			       .push = algo_queue(call, plan),
			       .rail = algo_queue(call, plan),
			       .gather = algo_queue(call, plan),
			       .next_node = plan_shift(plan, PLAN_RAIL, 0, 0, 1) };
	plan_program(plan, PLAN_NET);
	for_parts(&b, PLAN_EQ, scatter);
	if (b.nodes > 1)
		for_parts(&b, PLAN_NE, forward);
	plan_program(plan, PLAN_SM);
	for_parts(&b, PLAN_ALWAYS, gather);
}
