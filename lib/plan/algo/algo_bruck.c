/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck's all_gather: in round i a rank that has 2^i blocks, its own first, sends them to the rank so far before it and gets as many from the one so
 * far behind it; the last round sends what is missing. So ceil(log2(n)) messages for any n. Blocks go to their places at once: a message's span
 * wraps around the end of the receive buffer, and nothing is rotated in the end.
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems" (1997).
 *
 * all_to_all: cell i of scratch has what goes i ranks on; in a round all cells whose number has the distance's bit go so far, in one message. In the
 * end cell i has what came from i ranks back.
 *
 * reduce_scatter is all_gather in reverse: sums go where blocks came from, the last round's first, and fold with the receiver's.
 * Source: Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms" (2024).
 */
#include "algo_build.h"

void algo_bruck_gather_rounds(struct plan *plan, enum plan_group group, int each, uint8_t queue, uint8_t own)
{
	const int round = plan_loop(plan, plan_rounds(plan, group, 2, 0));
	const uint8_t ahead = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, -1, 0),
		      behind = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, 1, 0),
		      blocks = algo_bruck_expr(plan, group, PLAN_BRUCK_BLOCKS, round, each, 0),
		      first = group == PLAN_WORLD ? behind : algo_rank_at(plan, behind, plan_const(plan, 0));
	struct plan_step send = algo_send(algo_block(PLAN_RECV, own, PLAN_EXPR_NONE), group, ahead, queue),
			 receive =
			     algo_receive(group, behind, queue, algo_block(PLAN_RECV, first, PLAN_EXPR_NONE));
	send.blocks = receive.blocks = blocks;
	plan_step(plan, send);
	plan_step(plan, receive);
	plan_end(plan);
}

void algo_bruck_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), me = algo_me(plan);
	plan_program(plan, PLAN_SM);
	plan_step(plan, algo_copy(algo_vector(PLAN_SEND, PLAN_EXPR_NONE),
				  algo_block(PLAN_RECV, me, PLAN_EXPR_NONE)));
	algo_bruck_gather_rounds(plan, PLAN_WORLD, 1, queue, me);
}

void algo_bruck_reduce_rounds(struct plan *plan, enum plan_group group, int each, uint8_t queue, int less)
{
	const struct plan_span own = algo_cell(plan, PLAN_EXPR_NONE);
	const int round = plan_loop(plan, plan_rounds(plan, group, 2, -less));
	const uint8_t first = algo_bruck_expr(plan, group, PLAN_BRUCK_DISTANCE, round, each, 1),
		      to = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, 1, 1),
		      from = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, -1, 1);
	struct plan_step send = algo_send(algo_block(PLAN_SCRATCH, first, PLAN_EXPR_NONE), group, to, queue),
			 fold = algo_fold(group, from, queue, own, own);
	send.blocks = fold.blocks = algo_bruck_expr(plan, group, PLAN_BRUCK_BLOCKS, round, each, 1);
	plan_step(plan, send);
	plan_step(plan, fold);
	plan_end(plan);
}

/* Copies a vector of n blocks, from this rank's own on, to as many cells of scratch. */
static void copy_to_cells(struct plan *plan, int n)
{
	plan->scratch_cells = (uint32_t)n;
	struct plan_step copy =
	    algo_copy(algo_block(PLAN_SEND, algo_me(plan), PLAN_EXPR_NONE), algo_cell(plan, PLAN_EXPR_NONE));
	copy.blocks = plan_const(plan, n);
	plan_step(plan, copy);
}

/* Cell i of scratch has the sum of the block that is i behind this rank's own. The last round's sum goes to the receive buffer. */
void algo_bruck_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), next = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
		previous = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	plan_program(plan, PLAN_SM);
	copy_to_cells(plan, call->topo->map.ranks);
	algo_bruck_reduce_rounds(plan, PLAN_WORLD, 1, queue, 1);
	plan_step(plan, algo_with(algo_send(algo_block(PLAN_SCRATCH, plan_const(plan, 1), PLAN_EXPR_NONE),
					    PLAN_WORLD, next, queue),
				  PLAN_STABLE));
	plan_step(plan, algo_with(algo_fold(PLAN_WORLD, previous, queue, algo_cell(plan, PLAN_EXPR_NONE),
					    algo_vector(PLAN_RECV, PLAN_EXPR_NONE)),
				  PLAN_REDUCE | PLAN_FINAL));
}

void algo_bruck_all_to_all(const struct algo_call *call, struct plan *plan)
{
	const int n = call->topo->map.ranks;
	uint8_t queue = algo_queue(call, plan);
	plan_program(plan, PLAN_SM);
	copy_to_cells(plan, n);
	algo_bruck_exchange(plan, queue, 1);

	struct plan_step back =
	    algo_copy(algo_cell(plan, PLAN_EXPR_NONE), algo_block(PLAN_RECV, algo_me(plan), PLAN_EXPR_NONE));
	back.flags = PLAN_BACK;
	back.blocks = plan_const(plan, n);
	plan_step(plan, back);
}
