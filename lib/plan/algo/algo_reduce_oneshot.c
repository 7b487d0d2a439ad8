/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot reduce: all ranks send to the root, which folds in rank order; one step, most bytes into the root.
 * Source: the flat tree of the collectives that every message passing library begins with.
 */
#include "algo_build.h"

void algo_oneshot_reduce(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), me = algo_me(plan), root = algo_root(plan);
	plan->scratch_cells = algo_fold_cells(call);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	const struct plan_span own = algo_vector(PLAN_SEND, chunk);
	plan_step(plan, algo_if(algo_send(own, PLAN_WORLD, root, queue), PLAN_NE, me, root));
	const struct plan_step fold =
	    algo_fold(PLAN_WORLD, PLAN_EXPR_ALL, queue, own, algo_vector(PLAN_RECV, chunk));
	plan_step(plan, algo_fold_of_all(call, plan, algo_if(fold, PLAN_EQ, me, root)));
	plan_end(plan);
}
