/*
 * Barriers: everybody tells everybody, or log2(n) rounds of exchanges where that is too much.
 * Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization" (1988).
 */
#include "algo_build.h"

void algo_flat_barrier(const struct algo_call *call, struct plan *plan)
{
	(void)call;
	uint8_t queue = plan_queue(plan, PLAN_PARITY, 2);
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = PLAN_EXPR_ALL, .to_queue = queue });
	plan_step(plan, (struct plan_step){ .op = PLAN_WAIT, .from = PLAN_EXPR_ALL, .from_queue = queue });
}

static void signal_to(struct plan *plan, uint8_t to, uint8_t queue)
{
	plan_step(plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = to, .to_queue = queue });
}

static void wait_for(struct plan *plan, uint8_t from, uint8_t queue)
{
	plan_step(plan, (struct plan_step){ .op = PLAN_WAIT, .from = from, .from_queue = queue });
}

void algo_doubling_barrier(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t give = plan_base(plan, PLAN_DOUBLING_GIVE, PLAN_WORLD, 0);
	uint8_t take = plan_base(plan, PLAN_DOUBLING_TAKE, PLAN_WORLD, 0);
	plan_program(plan, PLAN_SM);
	signal_to(plan, give, queue);
	wait_for(plan, take, queue);
	int k = plan_loop(plan, plan_base(plan, PLAN_DOUBLING_STEPS, PLAN_WORLD, 0));
	uint8_t partner =
	    plan_expr(plan, (struct plan_expr){ .base = PLAN_DOUBLING, .var = (uint8_t)k, .stride = 1 });
	signal_to(plan, partner, queue);
	wait_for(plan, partner, queue);
	plan_end(plan);
	signal_to(plan, take, queue);
	wait_for(plan, give, queue);
}
