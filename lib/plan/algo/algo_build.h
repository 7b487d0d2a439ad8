/* SPDX-License-Identifier: BSD-3-Clause */
/* The builders of all algorithm files, and the pieces that several of them are made of. */
#ifndef ALGO_BUILD_H
#define ALGO_BUILD_H

#include "plan/codelet/row.h"

/* The builders of rows (row.h: build). */
typedef void algo_builder(const struct algo_call *call, struct plan *plan);
algo_builder algo_local, algo_oneshot_all_reduce, algo_oneshot_all_gather, algo_oneshot_reduce_scatter,
    algo_twoshot_all_reduce, algo_twoshot_reduce, algo_ce_reduce_scatter, algo_ce_all_reduce,
    algo_ring_all_reduce, algo_bruck_all_gather, algo_bruck_all_to_all, algo_bruck_reduce_scatter,
    algo_hier_bruck_all_gather, algo_hier_bruck_reduce_scatter, algo_ordered_all_reduce, algo_ordered_reduce,
    algo_ordered_reduce_scatter, algo_ring_all_gather, algo_ring_reduce_scatter, algo_flat_broadcast,
    algo_scatter_allgather_broadcast, algo_chain_broadcast, algo_ce_chain_broadcast, algo_scatter_broadcast,
    algo_pairwise_all_to_all, algo_flat_barrier, algo_doubling_barrier, algo_hier_oneshot_all_reduce,
    algo_hier_oneshot_doubling_all_reduce, algo_hier_all_gather, algo_hier_reduce_scatter,
    algo_binomial_broadcast, algo_oneshot_reduce, algo_scatter_reduce, algo_chain_reduce, algo_flat_gather,
    algo_binomial_gather, algo_binomial_scatter, algo_flat_scatter, algo_hier_gather, algo_hier_scatter,
    algo_hier_chain_gather, algo_fold_rounds, algo_p2p, algo_hier_all_reduce, algo_hier_broadcast,
    algo_hier_reduce;

/* ---- Spans and moves --------------------------------------------------------------------------------------- */

/* A chunk of a whole vector or block (no block: there is one), or of a part of a vector; of a block, all of it where chunk is PLAN_EXPR_NONE. */
static inline struct plan_span algo_vector(enum plan_space space, uint8_t chunk)
{
	return (struct plan_span){ .space = (uint8_t)space, .chunk = chunk };
}

static inline struct plan_span algo_block(enum plan_space space, uint8_t block, uint8_t chunk)
{
	return (struct plan_span){ .space = (uint8_t)space, .block = block, .chunk = chunk };
}

static inline struct plan_span algo_part(enum plan_space space, uint8_t part, uint8_t chunk)
{
	return (struct plan_span){ .space = (uint8_t)space, .part = part, .chunk = chunk };
}

/* The first cell of scratch. */
static inline struct plan_span algo_cell(struct plan *plan, uint8_t chunk)
{
	return algo_block(PLAN_SCRATCH, plan_const(plan, 0), chunk);
}

/* A span of the user's memory, which stays as it is until the message is read, goes to a member of a group. */
static inline struct plan_step algo_send(struct plan_span src, enum plan_group group, uint8_t to,
					 uint8_t queue)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_STABLE,
				   .src = src,
				   .to_group = (uint8_t)group,
				   .to = to,
				   .to_queue = queue };
}

/* What a member of a group sends comes to a span that nothing has been in before. */
static inline struct plan_step algo_receive(enum plan_group group, uint8_t from, uint8_t queue,
					    struct plan_span dst)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_FRESH,
				   .from_group = (uint8_t)group,
				   .from = from,
				   .from_queue = queue,
				   .dst = dst };
}

static inline struct plan_step algo_copy(struct plan_span src, struct plan_span dst)
{
	return (struct plan_step){ .op = PLAN_MOVE, .src = src, .dst = dst };
}

/* What a member of a group sends, or all, and src are folded into dst. */
static inline struct plan_step algo_fold(enum plan_group group, uint8_t from, uint8_t queue,
					 struct plan_span src, struct plan_span dst)
{
	struct plan_step step = algo_receive(group, from, queue, dst);
	step.flags = PLAN_REDUCE;
	step.src = src;
	return step;
}

static inline struct plan_step algo_with(struct plan_step step, int flags)
{
	step.flags = (uint8_t)flags;
	return step;
}

/* The same for the ranks alone for which the predicate of a and b holds. */
static inline struct plan_step algo_if(struct plan_step step, enum plan_pred pred, uint8_t a, uint8_t b)
{
	step.pred = (uint8_t)pred;
	step.pred_a = a;
	step.pred_b = b;
	return step;
}

/* The same, and what is moved goes on to a member of a group. */
static inline struct plan_step algo_and_send(struct plan_step step, enum plan_group group, uint8_t to,
					     uint8_t queue)
{
	step.to_group = (uint8_t)group;
	step.to = to;
	step.to_queue = queue;
	return step;
}

static inline void algo_end(struct plan *plan, int loops)
{
	while (loops--)
		plan_end(plan);
}

/* My index among all ranks. */
static inline uint8_t algo_me(struct plan *plan)
{
	return plan_shift(plan, PLAN_WORLD, 0, 0, 0);
}

static inline uint8_t algo_root(struct plan *plan)
{
	return plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
}

/* My index in my node; my node; the root's node. */
static inline uint8_t algo_self(struct plan *plan)
{
	return plan_shift(plan, PLAN_NODE, 0, 0, 0);
}

static inline uint8_t algo_node(struct plan *plan)
{
	return plan_shift(plan, PLAN_RAIL, 0, 0, 0);
}

static inline uint8_t algo_root_node(struct plan *plan)
{
	return plan_base(plan, PLAN_ROOT, PLAN_RAIL, 0);
}

/* A queue as deep as calls of this size may have it. */
static inline uint8_t algo_queue(const struct algo_call *call, struct plan *plan)
{
	return plan_queue(plan, PLAN_CREDIT, call->slots);
}

/* ---- Loops and expressions --------------------------------------------------------------------------------- */

/* All nodes have as many ranks as the largest. */
static inline int algo_even_nodes(const struct algo_call *call)
{
	const struct plan_map *map = &call->topo->map;
	return map->ranks == map->nodes * map->max_node_size;
}
/* Blocks that fold as fast as one GPU's copy engines bring contributions. */
enum { ALGO_FOLD_WIDTH = 16 };

/* Opens the loop over the call's chunks; its variable as an expression. */
static inline uint8_t algo_chunk_loop(struct plan *plan)
{
	return plan_var(plan, plan_loop(plan, plan_base(plan, PLAN_CHUNKS, PLAN_WORLD, 0)), 0);
}

/* The same at the beginning of a program. */
static inline uint8_t algo_chunk_program(struct plan *plan, enum plan_engine engine)
{
	plan_program(plan, engine);
	return algo_chunk_loop(plan);
}

/* The same for the ranks alone for which the predicate of a and b holds. */
static inline uint8_t algo_chunk_loop_if(struct plan *plan, enum plan_pred pred, uint8_t a, uint8_t b)
{
	uint8_t chunks = plan_base(plan, PLAN_CHUNKS, PLAN_WORLD, 0);
	return plan_var(plan, plan_loop_if(plan, chunks, pred, a, b), 0);
}

/* Opens the loop over the other members of a group; the k-th of them as an expression: me + 1, me + 2, ... */
static inline uint8_t algo_peer_loop(struct plan *plan, enum plan_group group, int direction)
{
	int k = plan_loop(plan, plan_base(plan, PLAN_SIZE, group, -1));
	return plan_shift(plan, group, k, direction, direction);
}

/* The same for the root alone; me and root are ranks in the world. */
static inline uint8_t algo_root_loop(struct plan *plan, enum plan_group group, int direction, uint8_t me,
				     uint8_t root)
{
	int k = plan_loop_if(plan, plan_base(plan, PLAN_SIZE, group, -1), PLAN_EQ, me, root);
	return plan_shift(plan, group, k, direction, direction);
}

/* The rank on a rail at a node, and so the owner of a block; none where that node is smaller. */
static inline uint8_t algo_rank_at(struct plan *plan, uint8_t node, uint8_t rail)
{
	return plan_expr(plan, (struct plan_expr){ .base = PLAN_RANK_AT, .a = node, .b = rail });
}

/* Opens the loop over the parts that a rank of my node owns; returns its variable. */
static inline int algo_owned_loop(struct plan *plan)
{
	return plan_loop(plan, plan_base(plan, PLAN_OWNED, PLAN_NODE, 0));
}

/* The part, and so the rail, that local rank `local` of my node owns in a trip of that loop. */
static inline uint8_t algo_part_of(struct plan *plan, uint8_t local, int owned)
{
	return plan_expr(plan, (struct plan_expr){ .base = PLAN_RAIL_OF, .var = (uint8_t)owned, .a = local });
}

/* A value of a round of Bruck's; stride: of peers the direction, of others as many as a member has, 0 is one. backwards: the last round comes first. */
static inline uint8_t algo_bruck_expr(struct plan *plan, enum plan_group group, enum plan_base base,
				      int round, int stride, int backwards)
{
	return plan_expr(plan, (struct plan_expr){ .base = (uint8_t)base,
						   .group = (uint8_t)group,
						   .var = (uint8_t)round,
						   .wrap = (uint8_t)backwards,
						   .stride = (int8_t)stride,
						   .radix = 2,
						   .digit = 1 });
}

/* The rounds of Bruck's all_gather among a group, a member of which has so many blocks, this one those from `own` on in its receive buffer. */
void algo_bruck_gather_rounds(struct plan *plan, enum plan_group group, int each, uint8_t queue, uint8_t own);
/* The same in reverse, but for `less` of the last rounds: sums of cells of scratch, from this member's own on. */
void algo_bruck_reduce_rounds(struct plan *plan, enum plan_group group, int each, uint8_t queue, int less);

/* The rounds of Bruck's all_to_all of one cell of scratch for each rank: in a round all cells whose number has the distance's bit go so far, in one
 * message. stride: 1 ahead, -1 back. */
static inline void algo_bruck_exchange(struct plan *plan, uint8_t queue, int stride)
{
	const int round = plan_loop(plan, plan_rounds(plan, PLAN_WORLD, 2, 0));
	const uint8_t distance = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_DISTANCE, round, 0, 0),
		      to = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_PEER, round, stride, 0),
		      from = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_PEER, round, -stride, 0);
	const struct plan_span cells = { PLAN_SCRATCH, .block = distance };
	struct plan_step steps[] = { algo_send(cells, PLAN_WORLD, to, queue),
				     algo_receive(PLAN_WORLD, from, queue, cells) };
	for (int i = 0; i < 2; i++) {
		steps[i].flags = 0;
		steps[i].run = distance;
		steps[i].blocks = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_SET, round, 0, 0);
		plan_step(plan, steps[i]);
	}
	plan_end(plan);
}

/* Opens the loop over the levels of the tree of n ranks, whose child it returns; *blocks: of its subtree, *cells: where in scratch they are. last: of
 * the last level first. */
static inline uint8_t algo_subtree_loop(struct plan *plan, int n, int last, uint8_t *blocks,
					struct plan_span *cells)
{
	const int level = plan_loop(plan, plan_rounds(plan, PLAN_WORLD, 2, 0)), stride = last ? -1 : 1;
	int levels = 0;
	while (1 << levels < n)
		levels++;
	*blocks = plan_term(plan, PLAN_TREE_BLOCKS, PLAN_WORLD, level, stride, last ? levels - 1 : 0);
	*cells =
	    (struct plan_span){ PLAN_SCRATCH, .block = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_DISTANCE,
								       level, 0, last) };
	return plan_term(plan, PLAN_TREE_CHILD, PLAN_WORLD, level, stride, last ? levels - 1 : 0);
}

/* How far rank 0 is ahead of me, around the circle of all ranks. */
static inline uint8_t algo_rank_0_ahead(struct plan *plan)
{
	return plan_base(plan, PLAN_AHEAD, PLAN_WORLD, 0);
}

/* Cells of scratch in which algo_fold_of_all keeps contributions: none where a fold waits for all of them. */
static inline uint32_t algo_fold_cells(const struct algo_call *call)
{
	const int ranks = call->topo->map.ranks;
	return ranks > call->most_at_once ? (uint32_t)ranks : 0;
}

/* Keeps all contributions in cells, cell i that of the rank i ahead, for the ranks that fold is for; returns cell 0. */
static inline struct plan_span algo_keep_all(struct plan *plan, const struct plan_step *fold)
{
	struct plan_span cell = fold->src;
	cell.space = PLAN_SCRATCH;
	cell.block = plan_const(plan, 0);
	const struct plan_span first = cell;
	plan_step(plan, algo_if(algo_copy(fold->src, cell), fold->pred, fold->pred_a, fold->pred_b));
	const int k = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, -1));
	cell.block = plan_term(plan, PLAN_SIZE, PLAN_WORLD, k, -1, -1);
	/* in the order in which they send */
	const struct plan_step keep = algo_with(
	    algo_receive(PLAN_WORLD, plan_shift(plan, PLAN_WORLD, k, -1, -1), fold->from_queue, cell), 0);
	plan_step(plan, algo_if(keep, fold->pred, fold->pred_a, fold->pred_b));
	plan_end(plan);
	return first;
}

/*
 * Completes a fold of all ranks' contributions in rank order. Where these are more than one fold waits for, steps before it keep them in cells, which it
 * folds then.
 */
static inline struct plan_step algo_fold_of_all(const struct algo_call *call, struct plan *plan,
						struct plan_step fold)
{
	fold.flags |= PLAN_REDUCE | PLAN_FINAL;
	if (!algo_fold_cells(call))
		return fold;
	fold.from = PLAN_EXPR_NONE;
	fold.src = algo_keep_all(plan, &fold);
	fold.src.block = algo_rank_0_ahead(plan);
	fold.cells = plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0);
	return fold;
}

/* Sends everybody its part of my vector. */
static inline void algo_push_parts(struct plan *plan, uint8_t queue, uint8_t chunk)
{
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	plan_step(plan, algo_send(algo_part(PLAN_SEND, peer, chunk), PLAN_WORLD, peer, queue));
	plan_end(plan);
}

/* A token from one program to another one of the same rank. */
static inline void algo_signal_self(struct plan *plan, uint8_t queue)
{
	plan_step(plan,
		  (struct plan_step){
		      .op = PLAN_SIGNAL, .to_group = PLAN_NODE, .to = algo_self(plan), .to_queue = queue });
}

static inline void algo_wait_self(struct plan *plan, uint8_t queue)
{
	plan_step(plan, (struct plan_step){ .op = PLAN_WAIT,
					    .from_group = PLAN_NODE,
					    .from = algo_self(plan),
					    .from_queue = queue });
}

/* What the hierarchical gather and scatter are made of: blocks, between the root and everybody. */
struct algo_rooted {
	struct plan *plan;
	uint8_t near, rail, pass; /* queues: of the root's node, between nodes, of what is passed on */
	int even; /* nodes: each has a rank on each rail */
};

static inline struct algo_rooted algo_rooted_begin(const struct algo_call *call, struct plan *plan)
{
	plan->scratch_cells = 1;
	return (struct algo_rooted){ .plan = plan,
				     .near = algo_queue(call, plan),
				     .rail = algo_queue(call, plan),
				     .pass = algo_queue(call, plan),
				     .even = algo_even_nodes(call) };
}

/* A step is done where the block that it passes on has an owner. */
static inline void algo_if_owned(const struct algo_rooted *r, uint8_t owner, struct plan_step *step)
{
	if (r->even)
		return;
	*step = algo_if(*step, PLAN_GE, owner, plan_const(r->plan, 0));
}

/* In a chain of nodes, within a loop over the nodes behind mine: their blocks go on along my rails; those of a node that has no rank on a rail do not. */
static inline void algo_pass_along(const struct algo_rooted *r, uint8_t node, uint8_t chunk, uint8_t previous,
				   uint8_t next)
{
	struct plan *plan = r->plan;
	uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan));
	struct plan_step step =
	    algo_and_send(algo_with(algo_receive(PLAN_RAIL, previous, r->rail, algo_cell(plan, chunk)), 0),
			  PLAN_RAIL, next, r->rail);
	step.rail = rail;
	algo_if_owned(r, algo_rank_at(plan, node, rail), &step);
	plan_step(plan, step);
	plan_end(plan);
}

#endif
