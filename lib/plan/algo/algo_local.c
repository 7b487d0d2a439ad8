/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank: a copy, and nothing to wait for. */
#include "algo_build.h"
#include "base/collectives.h"

/* A fold of one contribution: the operators may still have something to do (avg, premultiplied sum). */
void algo_local(const struct algo_call *call, struct plan *plan)
{
	const struct collective *coll = &coll_table[call->key.coll];
	plan_program(plan, PLAN_SM);
	if (!coll_has_data(call->key.coll))
		return;
	const uint8_t me = algo_me(plan);
	uint8_t trips = plan_base(plan, PLAN_CHUNKS, PLAN_WORLD, 0);
	if (coll->send == COLL_UNEVEN)
		trips = plan_expr(plan, (struct plan_expr){ .base = PLAN_SEND_CHUNKS, .a = me });
	uint8_t chunk = plan_var(plan, plan_loop(plan, trips), 0);
	plan_step(plan,
		  (struct plan_step){
		      .op = PLAN_MOVE,
		      .flags = coll->folds ? PLAN_REDUCE | PLAN_FINAL : 0,
		      .src = algo_block(PLAN_SEND, coll->send == COLL_UNEVEN ? me : PLAN_EXPR_NONE, chunk),
		      .dst = algo_block(PLAN_RECV, coll->recv == COLL_UNEVEN ? me : PLAN_EXPR_NONE, chunk) });
	plan_end(plan);
}
