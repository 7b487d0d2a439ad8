/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot: every rank sends every other all that it needs; one exchange, most bytes.
 * Source: the "one-shot" all-reduce of GPU inference engines and of OpenSHMEM-style libraries; as an idea, the
 * all-to-all broadcast of Johnsson and Ho, "Optimum broadcasting and personalized communication in hypercubes" (1989).
 */
#include "algo_build.h"

/* Sends everybody its block of my vector. */
static void push_blocks(struct plan *plan, uint8_t queue, uint8_t chunk)
{
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	plan_step(plan, algo_send(algo_block(PLAN_SEND, peer, chunk), PLAN_WORLD, peer, queue));
	plan_end(plan);
}

/* One message to all, then a fold of what all others sent. A rank that sends chunk c + 2 has a message that each other
 * rank sent after it read chunk c, so double buffering suffices and no rank waits for room. */
void algo_oneshot_all_reduce(const struct algo_call *call, struct plan *plan)
{
	(void)call;
	uint8_t queue = plan_queue(plan, PLAN_PARITY, 2);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	const struct plan_span mine = algo_vector(PLAN_SEND, chunk), result = algo_vector(PLAN_RECV, chunk);
	plan_step(plan, algo_with(algo_send(mine, PLAN_WORLD, PLAN_EXPR_ALL, queue), 0));
	plan_step(plan, algo_with(algo_fold(PLAN_WORLD, PLAN_EXPR_ALL, queue, mine, result),
				  PLAN_REDUCE | PLAN_FINAL));
	plan_end(plan);
}

void algo_oneshot_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	struct plan_step own = algo_send(algo_vector(PLAN_SEND, chunk), PLAN_WORLD, PLAN_EXPR_ALL, queue);
	own.dst = algo_block(PLAN_RECV, algo_me(plan), chunk);
	plan_step(plan, own);
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, -1);
	plan_step(plan, algo_receive(PLAN_WORLD, peer, queue, algo_block(PLAN_RECV, peer, chunk)));
	algo_end(plan, 2);
}

static void fold_own(const struct algo_call *call, struct plan *plan, uint8_t queue, uint8_t chunk)
{
	const struct plan_step fold =
	    algo_fold(PLAN_WORLD, PLAN_EXPR_ALL, queue, algo_block(PLAN_SEND, algo_me(plan), chunk),
		      algo_vector(PLAN_RECV, chunk));
	plan_step(plan, algo_fold_of_all(call, plan, fold));
	plan_end(plan);
}

/* Each block goes straight to its owner, who folds all contributions at once. */
void algo_oneshot_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan);
	plan->scratch_cells = algo_fold_cells(call);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	push_blocks(plan, queue, chunk);
	fold_own(call, plan, queue, chunk);
}

/* The same for copy engines, which push while a few processors fold. */
void algo_ce_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan);
	plan->scratch_cells = algo_fold_cells(call);
	push_blocks(plan, queue, algo_chunk_program(plan, PLAN_CE));
	plan_end(plan);

	plan_program(plan, PLAN_SM);
	plan_width(plan, ALGO_FOLD_WIDTH);
	fold_own(call, plan, queue, algo_chunk_loop(plan));
}
