/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce of large vectors: a reduce-scatter by one exchange, whose parts then go to the root; every rank folds one.
 * Source: Rabenseifner, "Optimization of collective reduction operations" (2004), with direct instead of halving
 * exchanges.
 */
#include "algo_build.h"

void algo_scatter_reduce(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.ranks;
	plan->scratch_cells = algo_fold_cells(call);
	const uint8_t scatter = algo_queue(call, plan), gather = algo_queue(call, plan), me = algo_me(plan),
		      root = algo_root(plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	algo_push_parts(plan, scatter, chunk);

	/* The root's own part stays, the others' go there. */
	struct plan_step fold = algo_fold(PLAN_WORLD, PLAN_EXPR_ALL, scatter, algo_part(PLAN_SEND, me, chunk),
					  (struct plan_span){ 0 });
	fold = algo_fold_of_all(call, plan, fold);
	const struct plan_step others = algo_and_send(fold, PLAN_WORLD, root, gather);
	fold.dst = algo_part(PLAN_RECV, me, chunk);
	plan_step(plan, algo_if(fold, PLAN_EQ, me, root));
	plan_step(plan, algo_if(others, PLAN_NE, me, root));

	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, -1, me, root);
	plan_step(plan,
		  algo_with(algo_receive(PLAN_WORLD, peer, gather, algo_part(PLAN_RECV, peer, chunk)), 0));
	algo_end(plan, 2);
}
