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
	uint8_t self, me; /* my index in my node, in the world */
	uint8_t next, previous; /* nodes */
};

static struct blocks begin(const struct algo_call *call, struct plan *plan)
{
	return (struct blocks){ .plan = plan,
				.nodes = call->topo->map.nodes,
				.push = plan_queue(plan, PLAN_CREDIT, call->slots),
				.rail = plan_queue(plan, PLAN_CREDIT, call->slots),
				.gather = plan_queue(plan, PLAN_CREDIT, call->slots),
				.self = plan_shift(plan, PLAN_NODE, 0, 0, 0),
				.me = plan_shift(plan, PLAN_WORLD, 0, 0, 0),
				.next = plan_shift(plan, PLAN_RAIL, 0, 0, 1),
				.previous = plan_shift(plan, PLAN_RAIL, 0, 0, -1) };
}

/* The block of node (me + stride * k + offset) on a rail; none where that node is smaller. */
static uint8_t block_of(const struct blocks *b, int k, int stride, int offset, uint8_t rail)
{
	uint8_t node = plan_shift(b->plan, PLAN_RAIL, k, stride, offset);
	return algo_rank_at(b->plan, node, rail);
}

static struct plan_step rail_step(const struct blocks *b, uint8_t rail, int receives, int sends)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .from_group = PLAN_RAIL,
				   .from = receives ? b->previous : PLAN_EXPR_NONE,
				   .from_queue = b->rail,
				   .to_group = PLAN_RAIL,
				   .to = sends ? b->next : PLAN_EXPR_NONE,
				   .to_queue = b->rail,
				   .rail = rail };
}

/* Round k brings the blocks of node me - k; all but the last round's travel on. */
static void gather_rails(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	struct plan_step own = rail_step(b, PLAN_EXPR_NONE, 0, 1);
	own.flags = PLAN_STABLE;
	own.src = (struct plan_span){ PLAN_SEND, .chunk = chunk };
	own.dst = (struct plan_span){ PLAN_RECV, .block = b->me, .chunk = chunk };
	plan_step(plan, own);
	algo_signal_self(plan, b->push);
	for (int last = 0; last < 2; last++) {
		int k = plan_loop(plan, plan_const(plan, last ? 1 : b->nodes - 2));
		uint8_t rail = algo_part_of(plan, b->self, algo_owned_loop(plan));
		uint8_t block = block_of(b, k, last ? 0 : -1, last ? 1 : -1, rail);
		struct plan_step step = rail_step(b, rail, 1, !last);
		step.flags = last ? PLAN_FRESH : PLAN_FRESH | PLAN_STABLE;
		step.dst = (struct plan_span){ PLAN_RECV, .block = block, .chunk = chunk };
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
	uint8_t block = block_of(b, k, -1, 0, algo_part_of(plan, b->self, owned));
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_RECV, .block = block, .chunk = chunk },
					    .to_group = PLAN_NODE,
					    .to = PLAN_EXPR_ALL,
					    .to_queue = b->gather });
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1);
	block = block_of(b, k, -1, 0, algo_part_of(plan, peer, owned));
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH,
					    .from_group = PLAN_NODE,
					    .from = peer,
					    .from_queue = b->gather,
					    .dst = { PLAN_RECV, .block = block, .chunk = chunk } });
	plan_end(plan);
	plan_end(plan);
	plan_end(plan);
}

void algo_hier_all_gather(const struct algo_call *call, struct plan *plan)
{
	struct blocks b = begin(call, plan);
	plan_program(plan, PLAN_NET);
	gather_rails(&b, algo_chunk_loop(plan));
	plan_end(plan);
	plan_program(plan, PLAN_SM);
	share_in_node(&b, algo_chunk_loop(plan));
	plan_end(plan);
}

/* Round k is about the blocks of node me - 1 - k: each to the rank of my node that carries its rail. */
static void push_in_node(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	int k = plan_loop(plan, plan_const(plan, b->nodes)), owned = algo_owned_loop(plan);
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1);
	uint8_t block = block_of(b, k, -1, -1, algo_part_of(plan, peer, owned));
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_SEND, .block = block, .chunk = chunk },
					    .to_group = PLAN_NODE,
					    .to = peer,
					    .to_queue = b->push });
	plan_end(plan);
	plan_end(plan);
	plan_end(plan);
}

static struct plan_step node_fold(const struct blocks *b, uint8_t block, uint8_t chunk)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_REDUCE,
				   .from_group = PLAN_NODE,
				   .from = PLAN_EXPR_ALL,
				   .from_queue = b->push,
				   .src = { PLAN_SEND, .block = block, .chunk = chunk } };
}

/* The node's sum of a block into the cell, then the sum of the nodes before it. */
static void fold_rail(const struct blocks *b, uint8_t block, uint8_t chunk, struct plan_step rail)
{
	struct plan_span cell = { PLAN_SCRATCH, .block = plan_const(b->plan, 0), .chunk = chunk };
	struct plan_step node = node_fold(b, block, chunk);
	node.dst = cell;
	plan_step(b->plan, node);
	rail.src = cell;
	plan_step(b->plan, rail);
}

static void reduce_rails(const struct blocks *b, uint8_t chunk)
{
	struct plan *plan = b->plan;
	uint8_t rail = algo_part_of(plan, b->self, algo_owned_loop(plan));
	struct plan_step first = node_fold(b, block_of(b, 0, 0, -1, rail), chunk);
	first.flags = PLAN_REDUCE | PLAN_TO_WIRE;
	first.to_group = PLAN_RAIL;
	first.to = b->next;
	first.to_queue = b->rail;
	first.rail = rail;
	plan_step(plan, first);
	plan_end(plan);

	int k = plan_loop(plan, plan_const(plan, b->nodes - 2));
	rail = algo_part_of(plan, b->self, algo_owned_loop(plan));
	uint8_t block = block_of(b, k, -1, -2, rail);
	struct plan_step step = rail_step(b, rail, 1, 1);
	step.flags = PLAN_REDUCE | PLAN_FROM_WIRE | PLAN_TO_WIRE;
	step.pred = PLAN_GE; /* the block exists */
	step.pred_a = block;
	step.pred_b = PLAN_EXPR_NONE;
	fold_rail(b, block, chunk, step);
	plan_end(plan);
	plan_end(plan);

	step = rail_step(b, PLAN_EXPR_NONE, 1, 0);
	step.flags = PLAN_REDUCE | PLAN_FINAL | PLAN_FROM_WIRE;
	step.dst = (struct plan_span){ PLAN_RECV, .chunk = chunk };
	fold_rail(b, b->me, chunk, step);
}

void algo_hier_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	struct blocks b = begin(call, plan);
	plan->scratch_cells = 1;
	plan_program(plan, PLAN_SM);
	push_in_node(&b, algo_chunk_loop(plan));
	plan_end(plan);
	plan_program(plan, PLAN_SM);
	reduce_rails(&b, algo_chunk_loop(plan));
	plan_end(plan);
}
