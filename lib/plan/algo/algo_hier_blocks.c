/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical all_gather and reduce_scatter: blocks travel around the rings of the rails, one rail per
 * local rank, and spread or collect inside the nodes. A block's rail is the local rank of its owner;
 * where a node is smaller, the rank that owns the rail there carries it. Steps of all rails of a rank
 * take turns (round first, then rail), so that no rail waits for another one's end.
 * Source: Kandalla et al., "Designing multi-leader-based allgather algorithms for multi-core clusters"
 * (2009), and Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication"
 * (2020).
 */
#include "algo_build.h"

struct blocks {
	struct plan *plan;
	int nodes;
	uint8_t push, rail, gather; /* queues; tokens to oneself go along push */
	uint8_t next, previous; /* nodes */
};

static struct blocks begin(const struct algo_call *call, struct plan *plan)
{
	return (struct blocks){ .plan = plan,
				.nodes = call->topo->map.nodes,
				.push = algo_queue(call, plan),
				.rail = algo_queue(call, plan),
				.gather = algo_queue(call, plan),
				.next = plan_shift(plan, PLAN_RAIL, 0, 0, 1),
				.previous = plan_shift(plan, PLAN_RAIL, 0, 0, -1) };
}

/* The block of node (me + stride * k + offset) on a rail; none where that node is smaller. */
static uint8_t block_of(const struct blocks *b, int k, int stride, int offset, uint8_t rail)
{
	uint8_t node = plan_shift(b->plan, PLAN_RAIL, k, stride, offset);
	return algo_rank_at(b->plan, node, rail);
}

/* From the node before along a rail, and on to the next one if it sends. */
static struct plan_step rail_step(const struct blocks *b, uint8_t rail, int sends, struct plan_span dst)
{
	struct plan_step step = algo_receive(PLAN_RAIL, b->previous, b->rail, dst);
	step.rail = rail;
	return sends ? algo_and_send(step, PLAN_RAIL, b->next, b->rail) : step;
}

/* Round k brings the blocks of node me - k; all but the last round's travel on. */
static void gather_rails(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	struct plan_step own = algo_send(algo_vector(PLAN_SEND, chunk), PLAN_RAIL, b->next, b->rail);
	own.dst = algo_block(PLAN_RECV, algo_me(plan), chunk);
	plan_step(plan, own);
	algo_signal_self(plan, b->push);
	for (int last = 0; last < 2; last++) {
		int k = plan_loop(plan, plan_const(plan, last ? 1 : b->nodes - 2));
		uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan));
		uint8_t block = block_of(b, k, last ? 0 : -1, last ? 1 : -1, rail);
		struct plan_step step = rail_step(b, rail, !last, algo_block(PLAN_RECV, block, chunk));
		step.flags |= last ? 0 : PLAN_STABLE;
		plan_step(plan, step);
		plan_end(plan);
		algo_signal_self(plan, b->push);
		plan_end(plan);
	}
}

static void share_in_node(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	int k = plan_loop(plan, plan_const(plan, b->nodes));
	algo_wait_self(plan, b->push);
	int owned = algo_owned_loop(plan);
	uint8_t block = block_of(b, k, -1, 0, algo_part_of(plan, algo_self(plan), owned));
	plan_step(plan, algo_send(algo_block(PLAN_RECV, block, chunk), PLAN_NODE, PLAN_EXPR_ALL, b->gather));
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	block = block_of(b, k, -1, 0, algo_part_of(plan, peer, owned));
	plan_step(plan, algo_receive(PLAN_NODE, peer, b->gather, algo_block(PLAN_RECV, block, chunk)));
	algo_end(plan, 3);
}

void algo_hier_all_gather(const struct algo_call *call, struct plan *plan)
{
	struct blocks b = begin(call, plan);
	gather_rails(&b, algo_chunk_program(plan, PLAN_NET));
	plan_end(plan);
	share_in_node(&b, algo_chunk_program(plan, PLAN_SM));
	plan_end(plan);
}

/* Round k is about the blocks of node me - 1 - k: each to the rank of my node that carries its rail. */
static void push_in_node(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	int k = plan_loop(plan, plan_const(plan, b->nodes)), owned = algo_owned_loop(plan);
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1);
	uint8_t block = block_of(b, k, -1, -1, algo_part_of(plan, peer, owned));
	plan_step(plan, algo_send(algo_block(PLAN_SEND, block, chunk), PLAN_NODE, peer, b->push));
	algo_end(plan, 3);
}

static struct plan_step node_fold(const struct blocks *b, uint8_t block, uint8_t chunk, struct plan_span dst)
{
	return algo_fold(PLAN_NODE, PLAN_EXPR_ALL, b->push, algo_block(PLAN_SEND, block, chunk), dst);
}

/* The node's sum of a block into the cell, then the sum of the nodes before it. */
static void fold_rail(const struct blocks *b, uint8_t block, uint8_t chunk, struct plan_step rail)
{
	rail.src = algo_cell(b->plan, chunk);
	plan_step(b->plan, node_fold(b, block, chunk, rail.src));
	plan_step(b->plan, rail);
}

static void reduce_rails(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan));
	struct plan_step first =
	    algo_and_send(node_fold(b, block_of(b, 0, 0, -1, rail), chunk, (struct plan_span){ 0 }),
			  PLAN_RAIL, b->next, b->rail);
	first.rail = rail;
	plan_step(plan, first);
	plan_end(plan);

	int k = plan_loop(plan, plan_const(plan, b->nodes - 2));
	rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan));
	uint8_t block = block_of(b, k, -1, -2, rail);
	struct plan_step step = algo_with(rail_step(b, rail, 1, (struct plan_span){ 0 }), PLAN_REDUCE);
	/* where the block exists */
	fold_rail(b, block, chunk, algo_if(step, PLAN_GE, block, PLAN_EXPR_NONE));
	algo_end(plan, 2);

	step = rail_step(b, PLAN_EXPR_NONE, 0, algo_vector(PLAN_RECV, chunk));
	fold_rail(b, algo_me(plan), chunk, algo_with(step, PLAN_REDUCE | PLAN_FINAL));
}

void algo_hier_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	struct blocks b = begin(call, plan);
	plan->scratch_cells = 1;
	push_in_node(&b, algo_chunk_program(plan, PLAN_SM));
	plan_end(plan);
	reduce_rails(&b, algo_chunk_program(plan, PLAN_SM));
	plan_end(plan);
}
