/*
 * Chain: the sum sets out behind the root and grows from rank to rank until it is there; a broadcast sets out at the root. Every rank
 * sends everything once, chunk behind chunk; fewest bytes, most steps.
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
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	algo_chain_sums(plan, &(struct algo_sums){ .group = PLAN_WORLD,
						   .n = call->topo->map.ranks,
						   .queue = queue,
						   .local = { PLAN_SEND, .chunk = chunk },
						   .result = { PLAN_RECV, .chunk = chunk } });
	plan_end(plan);
}

/* The last rank has nobody to pass it on to. */
void algo_chain_broadcast(const struct algo_call *call, struct plan *plan)
{
	int n = call->topo->map.ranks;
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_CE);
	uint8_t chunk = algo_chunk_loop(plan), zero = plan_const(plan, 0);
	uint8_t position = plan_base(plan, PLAN_POSITION, PLAN_WORLD, 0);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .pred = PLAN_EQ,
				  .pred_a = position,
				  .pred_b = zero,
				  .src = { PLAN_SEND, .chunk = chunk },
				  .dst = { PLAN_RECV, .chunk = chunk },
				  .to = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
				  .to_queue = queue };
	plan_step(plan, step);

	plan_loop_if(plan, plan_const(plan, 1), PLAN_NE, position, zero);
	step.flags = PLAN_FRESH | PLAN_STABLE;
	step.src = (struct plan_span){ 0 };
	step.from = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	step.from_queue = queue;
	step.pred = PLAN_LT;
	step.pred_b = plan_const(plan, n - 1);
	if (n > 2)
		plan_step(plan, step);
	step.flags = PLAN_FRESH;
	step.to = PLAN_EXPR_NONE;
	step.pred = PLAN_EQ;
	plan_step(plan, step);
	plan_end(plan);
	plan_end(plan);
}
