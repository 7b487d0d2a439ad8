/*
 * One-shot reduce: everybody tells the root all at once, which folds in rank order; one step, most bytes into the root.
 * Source: the flat tree of the collectives that every message passing library begins with.
 */
#include "algo_build.h"

void algo_oneshot_reduce(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0), root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	plan->scratch_cells = algo_fold_cells(call);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .pred = PLAN_NE,
					    .pred_a = me,
					    .pred_b = root,
					    .src = { PLAN_SEND, .chunk = chunk },
					    .to = root,
					    .to_queue = queue });
	const struct plan_step fold = { .op = PLAN_MOVE,
					.pred = PLAN_EQ,
					.pred_a = me,
					.pred_b = root,
					.from_queue = queue,
					.src = { PLAN_SEND, .chunk = chunk },
					.dst = { PLAN_RECV, .chunk = chunk } };
	plan_step(plan, algo_fold_of_all(call, plan, fold));
	plan_end(plan);
}
