/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordered: contributions travel as they are, in ceil(log2(n)) messages, and a rank that needs a result folds all of them at once, in rank order. So the result
 * is bit for bit that of one-shot at any number of ranks. Cell i of scratch has the contribution of the rank i ahead of this one, so the fold begins with
 * rank 0's cell and goes on with the first cell behind the last one.
 *
 * all_reduce: Bruck's all_gather of whole vectors. reduce_scatter: his all_to_all of blocks. Both send many blocks, so they are for small ones.
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems" (1997).
 *
 * reduce: a gather along a binomial tree.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include "algo_build.h"

static uint8_t begin(const struct algo_call *call, struct plan *plan)
{
	plan->scratch_cells = (uint32_t)call->topo->map.ranks;
	const uint8_t queue = algo_queue(call, plan);
	plan_program(plan, PLAN_SM);
	return queue;
}

/* This rank's contribution is in the first cell. */
static uint8_t begin_with_own(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin(call, plan);
	plan_step(plan, algo_copy(algo_vector(PLAN_SEND, PLAN_EXPR_NONE), algo_cell(plan, PLAN_EXPR_NONE)));
	return queue;
}

static struct plan_step fold_step(struct plan *plan)
{
	struct plan_step fold = algo_copy(algo_block(PLAN_SCRATCH, algo_rank_0_ahead(plan), PLAN_EXPR_NONE),
					  algo_vector(PLAN_RECV, PLAN_EXPR_NONE));
	fold.flags = PLAN_REDUCE | PLAN_FINAL;
	fold.cells = plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0);
	return fold;
}

/* In a round a rank has as many contributions as the distance, from its own on. It sends them so far back, and gets those behind them. */
void algo_ordered_all_reduce(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin_with_own(call, plan);
	int round = plan_loop(plan, plan_rounds(plan, PLAN_WORLD, 2, 0));
	const uint8_t to = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_PEER, round, -1, 0),
		      from = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_PEER, round, 1, 0),
		      behind = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_DISTANCE, round, 0, 0);
	struct plan_step send = algo_send(algo_cell(plan, PLAN_EXPR_NONE), PLAN_WORLD, to, queue),
			 receive = algo_receive(PLAN_WORLD, from, queue,
						algo_block(PLAN_SCRATCH, behind, PLAN_EXPR_NONE));
	send.blocks = receive.blocks = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_BLOCKS, round, 0, 0);
	plan_step(plan, send);
	plan_step(plan, receive);
	plan_end(plan);
	plan_step(plan, fold_step(plan));
}

/* Cell i has what goes to the rank i back, in the end what has come from the rank i ahead. */
void algo_ordered_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin(call, plan);
	int i = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0));
	plan_step(plan,
		  algo_copy(algo_block(PLAN_SEND, plan_shift(plan, PLAN_WORLD, i, -1, 0), PLAN_EXPR_NONE),
			    algo_block(PLAN_SCRATCH, plan_var(plan, i, 0), PLAN_EXPR_NONE)));
	plan_end(plan);

	algo_bruck_exchange(plan, queue, -1);
	plan_step(plan, fold_step(plan));
}

void algo_ordered_reduce(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin_with_own(call, plan);
	uint8_t blocks;
	struct plan_span cells;
	const uint8_t child = algo_subtree_loop(plan, call->topo->map.ranks, 0, &blocks, &cells);
	struct plan_step take = algo_receive(PLAN_WORLD, child, queue, cells);
	take.blocks = blocks;
	plan_step(plan, take);
	plan_end(plan);

	struct plan_step give = algo_send(algo_cell(plan, PLAN_EXPR_NONE), PLAN_WORLD,
					  plan_base(plan, PLAN_TREE_PARENT, PLAN_WORLD, 0), queue);
	give.blocks = plan_base(plan, PLAN_TREE_OWN, PLAN_WORLD, 0);
	plan_step(plan, give);
	plan_step(plan, algo_if(fold_step(plan), PLAN_EQ, algo_me(plan), algo_root(plan)));
}
