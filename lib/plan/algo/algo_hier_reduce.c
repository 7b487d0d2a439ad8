/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical all-reduce: reduce-scatter inside each node, all-reduce of each part among the ranks of one rail,
 * all-gather inside each node. A vector has as many parts as the largest node has ranks; smaller nodes' ranks own
 * several. Chunk c + 1 is in the first phase while c is on the wire: each phase is a program, tokens join them.
 * Source: the multi-leader schemes of Kandalla et al., "Designing multi-leader-based allgather algorithms for
 * multi-core clusters" (2009), and Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane
 * communication" (2020).
 */
#include "algo_rounds.h"

struct hier {
	struct plan *plan;
	int nodes;
	int pieces; /* the node's messages are inner pieces, too: a chunk is as many messages as nodes */
	uint8_t push, rail, gather; /* queues; tokens to oneself go along push and rail */
	algo_rounds_build *rounds;
};

static struct plan_span part_span(enum plan_space space, uint8_t part, uint8_t chunk, uint8_t inner)
{
	return (struct plan_span){ .space = (uint8_t)space, .part = part, .chunk = chunk, .inner = inner };
}

/* Opens the loop over the messages of a chunk inside the node where there are several. */
static uint8_t piece_loop(const struct hier *h)
{
	return h->pieces ? plan_var(h->plan, plan_loop(h->plan, plan_const(h->plan, h->nodes)), 0)
			 : PLAN_EXPR_NONE;
}

static void piece_end(const struct hier *h)
{
	if (h->pieces)
		plan_end(h->plan);
}

static void push_and_fold(const struct hier *h, uint8_t chunk, int owned)
{
	struct plan *plan = h->plan;
	uint8_t mine = algo_part_of(plan, algo_self(plan), owned), inner = piece_loop(h);
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1), theirs = algo_part_of(plan, peer, owned);
	plan_step(plan, algo_send(part_span(PLAN_SEND, theirs, chunk, inner), PLAN_NODE, peer, h->push));
	plan_end(plan);
	struct plan_step fold =
	    algo_fold(PLAN_NODE, PLAN_EXPR_ALL, h->push, part_span(PLAN_SEND, mine, chunk, inner),
		      part_span(PLAN_RECV, mine, chunk, inner));
	if (h->nodes == 1)
		fold.flags |= PLAN_FINAL;
	plan_step(plan, fold);
	piece_end(h);
}

static void rail_rounds(const struct hier *h, uint8_t chunk, int owned)
{
	uint8_t mine = algo_part_of(h->plan, algo_self(h->plan), owned);
	struct plan_span sum = algo_part(PLAN_RECV, mine, chunk);
	h->rounds(h->plan, &(struct algo_rounds){ .group = PLAN_RAIL,
						  .n = h->nodes,
						  .rail = mine,
						  .queue = h->rail,
						  .local = sum,
						  .acc = sum,
						  .result = sum,
						  .inner = 1 });
}

static void gather(const struct hier *h, uint8_t chunk, int owned)
{
	struct plan *plan = h->plan;
	uint8_t mine = algo_part_of(plan, algo_self(plan), owned), inner = piece_loop(h);
	plan_step(plan,
		  algo_send(part_span(PLAN_RECV, mine, chunk, inner), PLAN_NODE, PLAN_EXPR_ALL, h->gather));
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1), theirs = algo_part_of(plan, peer, owned);
	plan_step(plan, algo_with(algo_receive(PLAN_NODE, peer, h->gather,
					       part_span(PLAN_RECV, theirs, chunk, inner)),
				  0));
	plan_end(plan);
	piece_end(h);
}

void algo_hier_all_reduce(const struct algo_call *call, struct plan *plan)
{
	const struct plan_map *map = &call->topo->map;
	const int is_ring = call->row->rounds == algo_ring_rounds;
	const struct hier hier = { .plan = plan,
				   .nodes = map->nodes,
				   .pieces = is_ring && map->nodes > 1 &&
					     call->bytes / (size_t)map->max_node_size > call->slot_bytes,
				   .push = algo_queue(call, plan),
				   .rail = algo_queue(call, plan),
				   .gather = algo_queue(call, plan),
				   .rounds = call->row->rounds },
			  *h = &hier;
	plan->parts = map->max_node_size;
	plan->inner = is_ring ? map->nodes : plan->inner;
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	int owned = algo_owned_loop(plan);
	push_and_fold(h, chunk, owned);
	if (h->nodes > 1) {
		algo_signal_self(plan, h->push);
		algo_end(plan, 2);
		chunk = algo_chunk_program(plan, PLAN_NET);
		owned = algo_owned_loop(plan);
		algo_wait_self(plan, h->push);
		rail_rounds(h, chunk, owned);
	}
	algo_signal_self(plan, h->rail);
	algo_end(plan, 2);

	chunk = algo_chunk_program(plan, PLAN_SM);
	owned = algo_owned_loop(plan);
	algo_wait_self(plan, h->rail);
	gather(h, chunk, owned);
	algo_end(plan, 2);
}
