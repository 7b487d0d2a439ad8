/*
 * Flat scatter: the root sends each rank its block straight; one step, as few bytes as there can be.
 * Source: the linear scatter of Chan et al., "Collective communication: theory, practice, and experience" (2007).
 */
#include "algo_build.h"

void algo_flat_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0), root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, 1, me, root);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_SEND, .block = peer, .chunk = chunk },
					    .to = peer,
					    .to_queue = queue });
	plan_end(plan);
	struct plan_step own = { .op = PLAN_MOVE,
				 .pred = PLAN_EQ,
				 .pred_a = me,
				 .pred_b = root,
				 .src = { PLAN_SEND, .block = me, .chunk = chunk },
				 .dst = { PLAN_RECV, .chunk = chunk } };
	plan_step(plan, own);
	own.flags = PLAN_FRESH;
	own.pred = PLAN_NE;
	own.src = (struct plan_span){ 0 };
	own.from = root;
	own.from_queue = queue;
	plan_step(plan, own);
	plan_end(plan);
}
