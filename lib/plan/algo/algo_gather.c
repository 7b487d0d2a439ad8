/*
 * Flat gather: every block goes straight to its place at the root; one step, as few bytes as there can be.
 * Source: the linear gather of Chan et al., "Collective communication: theory, practice, and experience" (2007).
 */
#include "algo_build.h"

void algo_flat_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0), root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	struct plan_step own = { .op = PLAN_MOVE,
				 .flags = PLAN_STABLE,
				 .pred = PLAN_NE,
				 .pred_a = me,
				 .pred_b = root,
				 .src = { PLAN_SEND, .chunk = chunk },
				 .to = root,
				 .to_queue = queue };
	plan_step(plan, own);
	own.flags = 0;
	own.pred = PLAN_EQ;
	own.to = PLAN_EXPR_NONE;
	own.dst = (struct plan_span){ PLAN_RECV, .block = me, .chunk = chunk };
	plan_step(plan, own);
	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, -1, me, root);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH,
					    .from = peer,
					    .from_queue = queue,
					    .dst = { PLAN_RECV, .block = peer, .chunk = chunk } });
	plan_end(plan);
	plan_end(plan);
}
