/*
 * Chain: the sum sets out behind the root and grows from rank to rank until it is there; every rank sends everything
 * once, chunk behind chunk; fewest bytes, most steps.
 * Source: Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations" (2007), the pipeline.
 */
#include "algo_build.h"

void algo_chain_sums(struct plan *plan, const struct algo_sums *sums)
{
	struct plan_step step = algo_sums_step(sums);
	uint8_t position = plan_base(plan, PLAN_POSITION, sums->group, 0);
	step.flags = sums->local.space == PLAN_SEND ? PLAN_STABLE | PLAN_TO_WIRE : PLAN_TO_WIRE;
	step.src = sums->local;
	step.to = plan_shift(plan, sums->group, 0, 0, 1);
	step.pred = PLAN_EQ;
	step.pred_a = position;
	step.pred_b = plan_const(plan, 1);
	plan_step(plan, step);

	step.flags = PLAN_REDUCE | PLAN_FROM_WIRE | PLAN_TO_WIRE;
	step.from = plan_shift(plan, sums->group, 0, 0, -1);
	step.pred = PLAN_GE;
	step.pred_b = plan_const(plan, 2);
	if (sums->n > 2)
		plan_step(plan, step);

	step.to = PLAN_EXPR_NONE;
	step.pred = PLAN_EQ;
	step.pred_b = plan_const(plan, 0);
	int twice = sums->group == PLAN_RAIL; /* the end has two steps with predicates of their own */
	if (twice)
		plan_loop_if(plan, plan_const(plan, 1), PLAN_EQ, position, step.pred_b);
	algo_sums_end(plan, sums, step);
	if (twice)
		plan_end(plan);
}

void algo_chain_reduce(const struct algo_call *call, struct plan *plan)
{
	uint8_t ring = plan_ring(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	algo_chain_sums(plan, &(struct algo_sums){ .group = PLAN_WORLD,
						   .n = call->topo->map.ranks,
						   .ring = ring,
						   .local = { PLAN_SEND, .chunk = chunk },
						   .result = { PLAN_RECV, .chunk = chunk } });
	plan_end(plan);
}
