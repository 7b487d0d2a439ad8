/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chain: the sum sets out behind the root and grows from rank to rank until it is there; a broadcast sets out at the root. Every rank
 * sends everything once, chunk behind chunk; fewest bytes, most steps.
 * Source: Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations" (2007), the pipeline.
 */
#include "algo_rounds.h"

void algo_chain_sums(struct plan *plan, const struct algo_rounds *sums)
{
	struct plan_step step = algo_rounds_step(sums);
	uint8_t position = plan_base(plan, PLAN_POSITION, sums->group, 0);
	step.flags = sums->local.space == PLAN_SEND ? PLAN_STABLE : 0;
	step.src = sums->local;
	step.to = plan_shift(plan, sums->group, 0, 0, 1);
	plan_step(plan, algo_if(step, PLAN_EQ, position, plan_const(plan, 1)));

	step.flags = PLAN_REDUCE;
	step.from = plan_shift(plan, sums->group, 0, 0, -1);
	if (sums->n > 2)
		plan_step(plan, algo_if(step, PLAN_GE, position, plan_const(plan, 2)));

	step.to = PLAN_EXPR_NONE;
	step = algo_if(step, PLAN_EQ, position, plan_const(plan, 0));
	int twice = sums->group == PLAN_RAIL; /* the end has two steps with predicates of their own */
	if (twice)
		plan_loop_if(plan, plan_const(plan, 1), PLAN_EQ, position, step.pred_b);
	algo_sums_end(plan, sums, step);
	if (twice)
		plan_end(plan);
}

void algo_chain_reduce(const struct algo_call *call, struct plan *plan)
{
	algo_flat_rounds(call, plan, algo_chain_sums);
}

/* The last rank has nobody to pass it on to. */
static void chain_broadcast(const struct algo_call *call, struct plan *plan, enum plan_engine engine)
{
	int n = call->topo->map.ranks;
	uint8_t queue = algo_queue(call, plan), next = plan_shift(plan, PLAN_WORLD, 0, 0, 1);
	uint8_t chunk = algo_chunk_program(plan, engine), zero = plan_const(plan, 0),
		last = plan_const(plan, n - 1);
	uint8_t position = plan_base(plan, PLAN_POSITION, PLAN_WORLD, 0);
	const struct plan_span all = algo_vector(PLAN_RECV, chunk);
	struct plan_step first = algo_send(algo_vector(PLAN_SEND, chunk), PLAN_WORLD, next, queue);
	first.dst = all;
	plan_step(plan, algo_if(first, PLAN_EQ, position, zero));

	plan_loop_if(plan, plan_const(plan, 1), PLAN_NE, position, zero);
	const struct plan_step take = algo_receive(PLAN_WORLD, plan_shift(plan, PLAN_WORLD, 0, 0, -1), queue,
						   all),
			       pass = algo_with(algo_and_send(take, PLAN_WORLD, next, queue),
						PLAN_FRESH | PLAN_STABLE);
	if (n > 2)
		plan_step(plan, algo_if(pass, PLAN_LT, position, last));
	plan_step(plan, algo_if(take, PLAN_EQ, position, last));
	algo_end(plan, 2);
}

void algo_chain_broadcast(const struct algo_call *call, struct plan *plan)
{
	chain_broadcast(call, plan, PLAN_SM);
}

void algo_ce_chain_broadcast(const struct algo_call *call, struct plan *plan)
{
	chain_broadcast(call, plan, PLAN_CE);
}
