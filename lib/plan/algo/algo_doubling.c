/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: log2(n) exchanges of everything; for what is small and far away. Where n is no power of two,
 * some ranks hand their data to a neighbour before it and get the result after it.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include <string.h>

#include "algo_rounds.h"

/* A rank hands over, or takes and adds; those that take part begin their first exchange. */
static void begin(struct plan *plan, const struct algo_rounds *rounds, struct plan_step step)
{
	uint8_t give = plan_base(plan, PLAN_DOUBLING_GIVE, rounds->group, 0);
	uint8_t take = plan_base(plan, PLAN_DOUBLING_TAKE, rounds->group, 0);
	step.src = rounds->local;
	step.flags = PLAN_STABLE;
	step.to = give;
	plan_step(plan, step);

	step.flags = 0;
	if (memcmp(&rounds->acc, &rounds->local, sizeof(rounds->acc)))
		step.dst = rounds->acc;
	step.to = plan_term(plan, PLAN_DOUBLING, rounds->group, 0, 0, 0);
	plan_step(plan, algo_if(step, PLAN_EQ, take, plan_const(plan, PLAN_NONE)));

	step.dst = rounds->acc;
	step.from = take;
	step.flags = PLAN_REDUCE;
	plan_step(plan, step);
}

/* Exchanges first .. steps - 2: adds the partner's sum and passes the new one to the next partner. */
static void exchange(struct plan *plan, const struct algo_rounds *rounds, struct plan_step step, int first,
		     int steps)
{
	if (first >= steps - 1)
		return;
	step.flags = PLAN_REDUCE;
	step.src = step.dst = rounds->acc;
	int k = plan_loop(plan, plan_const(plan, steps - 1 - first));
	step.from = plan_term(plan, PLAN_DOUBLING, rounds->group, k, 1, first);
	step.to = plan_term(plan, PLAN_DOUBLING, rounds->group, k, 1, first + 1);
	plan_step(plan, step);
	plan_end(plan);
}

void algo_give_back(struct plan *plan, const struct algo_rounds *rounds)
{
	struct plan_step step = algo_rounds_step(rounds);
	step.flags = PLAN_STABLE;
	step.src = rounds->result;
	step.to = plan_base(plan, PLAN_DOUBLING_TAKE, rounds->group, 0);
	plan_step(plan, step);
	step.flags = 0;
	step.src = (struct plan_span){ 0 };
	step.to = PLAN_EXPR_NONE;
	step.from = plan_base(plan, PLAN_DOUBLING_GIVE, rounds->group, 0);
	step.dst = rounds->result;
	plan_step(plan, step);
}

/*
 * Both partners of an exchange fold two operands, each its own last: the operators commute bit for bit. In a power of
 * two ranks the first exchange reads local itself, otherwise everybody starts from acc.
 */
void algo_doubling_rounds(struct plan *plan, const struct algo_rounds *rounds)
{
	int steps = 0, even;
	while (2 << steps <= rounds->n)
		steps++;
	even = 1 << steps == rounds->n;
	struct plan_step step = algo_rounds_step(rounds);
	if (even) {
		struct plan_step first = step;
		first.src = rounds->local;
		first.to = plan_term(plan, PLAN_DOUBLING, rounds->group, 0, 0, 0);
		plan_step(plan, first);
		if (steps > 1) {
			first.flags = PLAN_REDUCE;
			first.dst = rounds->acc;
			first.from = first.to;
			first.to = plan_term(plan, PLAN_DOUBLING, rounds->group, 0, 0, 1);
			plan_step(plan, first);
		}
	} else {
		begin(plan, rounds, step);
	}
	exchange(plan, rounds, step, even, steps);
	struct plan_step last = step;
	last.flags = PLAN_REDUCE | PLAN_FINAL;
	last.from = plan_term(plan, PLAN_DOUBLING, rounds->group, 0, 0, steps - 1);
	last.src = even && steps == 1 ? rounds->local : rounds->acc;
	last.dst = rounds->result;
	plan_step(plan, last);
	if (!even)
		algo_give_back(plan, rounds);
}

void algo_fold_rounds(const struct algo_call *call, struct plan *plan)
{
	plan->scratch_cells = 1;
	algo_flat_rounds(call, plan, call->row->rounds);
}
