/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers: every rank signals every other, or log2(n) rounds of exchanges where that is too much.
 * Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization" (1988).
 */
#include "algo_build.h"

static struct plan_step signal_to(uint8_t to, uint8_t queue)
{
	return (struct plan_step){ .op = PLAN_SIGNAL, .to = to, .to_queue = queue };
}

static struct plan_step wait_for(uint8_t from, uint8_t queue)
{
	return (struct plan_step){ .op = PLAN_WAIT, .from = from, .from_queue = queue };
}

void algo_flat_barrier(const struct algo_call *call, struct plan *plan)
{
	(void)call;
	uint8_t queue = plan_queue(plan, PLAN_PARITY, 2);
	plan_program(plan, PLAN_SM);
	plan_step(plan, signal_to(PLAN_EXPR_ALL, queue));
	plan_step(plan, wait_for(PLAN_EXPR_ALL, queue));
}

void algo_doubling_barrier(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), give = plan_base(plan, PLAN_DOUBLING_GIVE, PLAN_WORLD, 0),
		take = plan_base(plan, PLAN_DOUBLING_TAKE, PLAN_WORLD, 0);
	plan_program(plan, PLAN_SM);
	plan_step(plan, signal_to(give, queue));
	plan_step(plan, wait_for(take, queue));
	int k = plan_loop(plan, plan_base(plan, PLAN_DOUBLING_STEPS, PLAN_WORLD, 0));
	uint8_t partner = plan_term(plan, PLAN_DOUBLING, PLAN_WORLD, k, 1, 0);
	plan_step(plan, signal_to(partner, queue));
	plan_step(plan, wait_for(partner, queue));
	plan_end(plan);
	plan_step(plan, signal_to(take, queue));
	plan_step(plan, wait_for(give, queue));
}
