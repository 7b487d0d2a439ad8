/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive halving, then doubling: a reduce-scatter in which a rank gives one half of what it still has to a partner in each
 * step, and the same way back as an all-gather. As few steps as doubling allows where each element travels but twice. Where n is no
 * power of two, some ranks hand their data to a neighbour before it and get the result after it, as in algo_doubling.c.
 * Source: Rabenseifner, "Optimization of collective reduction operations" (2004); Thakur, Rabenseifner and Gropp,
 * "Optimization of collective communication operations in MPICH" (2005): vector halving with distance doubling, and
 * back, so both phases have the partners of doubling.
 */
#include <string.h>

#include "algo_rounds.h"
#include "plan/plan_eval.h"

struct halving {
	struct plan *plan;
	const struct algo_rounds *rounds;
	int steps;
	int apart; /* the sums are not where the contributions are */
};

/* One half of a span as step stride * var + offset divides it. */
static struct plan_span half(const struct halving *h, struct plan_span span, enum plan_base base, int var,
			     int stride, int offset)
{
	span.inner = plan_term(h->plan, base, h->rounds->group, var, stride, offset);
	return span;
}

/* Ranks beyond a power of two hand their data over; then all others have something in acc. */
static void begin(const struct halving *h)
{
	struct plan *plan = h->plan;
	struct plan_step step = algo_rounds_step(h->rounds);
	uint8_t take = plan_base(plan, PLAN_DOUBLING_TAKE, h->rounds->group, 0);
	step.src = h->rounds->local;
	step.flags = PLAN_STABLE;
	step.to = plan_base(plan, PLAN_DOUBLING_GIVE, h->rounds->group, 0);
	plan_step(plan, step);
	step.to = PLAN_EXPR_NONE;
	step.dst =
	    half(h, h->rounds->acc, PLAN_HALVING_KEPT, 0, 0, -1); /* the whole; none if I handed over */
	if (h->apart) {
		step.flags = 0;
		plan_step(plan, algo_if(step, PLAN_EQ, take, plan_const(plan, PLAN_NONE)));
	}
	step.flags = PLAN_REDUCE;
	step.from = take;
	plan_step(plan, step);
}

/* What the partner of step stride * var + offset keeps of own goes to it. */
static void give_half(const struct halving *h, struct plan_span own, int var, int stride, int offset)
{
	struct plan_step step = algo_rounds_step(h->rounds);
	step.flags = PLAN_STABLE;
	step.src = half(h, own, PLAN_HALVING_GIVEN, var, stride, offset);
	step.to = plan_term(h->plan, PLAN_DOUBLING, h->rounds->group, var, stride, offset);
	plan_step(h->plan, step);
}

/* My half of own with the partner's contribution to it. */
static struct plan_step fold_half(const struct halving *h, struct plan_span own, int var, int stride,
				  int offset)
{
	struct plan_step step = algo_rounds_step(h->rounds);
	step.flags = PLAN_REDUCE;
	step.from = plan_term(h->plan, PLAN_DOUBLING, h->rounds->group, var, stride, offset);
	step.src = half(h, own, PLAN_HALVING_KEPT, var, stride, offset);
	step.dst = half(h, h->rounds->acc, PLAN_HALVING_KEPT, var, stride, offset);
	return step;
}

/* Steps 0 .. steps - 1; the last fold has the result, which goes to the partner at once: the first step of the all-gather. */
static void reduce_scatter(const struct halving *h, struct plan_span first)
{
	int last = h->steps - 1;
	give_half(h, first, 0, 0, 0);
	if (last > 0) {
		plan_step(h->plan, fold_half(h, first, 0, 0, 0));
		give_half(h, h->rounds->acc, 0, 0, 1);
	}
	if (last > 1) {
		int k = plan_loop(h->plan, plan_const(h->plan, last - 1));
		plan_step(h->plan, fold_half(h, h->rounds->acc, k, 1, 1));
		give_half(h, h->rounds->acc, k, 1, 2);
		plan_end(h->plan);
	}
	struct plan_step step = fold_half(h, last > 0 ? h->rounds->acc : first, 0, 0, last);
	step.flags = PLAN_REDUCE | PLAN_FINAL | PLAN_STABLE;
	step.dst = half(h, h->rounds->result, PLAN_HALVING_KEPT, 0, 0, last);
	step.to = step.from;
	plan_step(h->plan, step);
}

/* Steps steps - 1 .. 0: the partner's half comes, and what it makes whole goes to the partner before. */
static void all_gather(const struct halving *h)
{
	struct plan_span result = h->rounds->result;
	struct plan_step get = algo_rounds_step(h->rounds), pass = get;
	int last = h->steps - 1;
	if (last > 0) {
		int k = plan_loop(h->plan, plan_const(h->plan, last));
		get.from = plan_term(h->plan, PLAN_DOUBLING, h->rounds->group, k, -1, last);
		get.dst = half(h, result, PLAN_HALVING_GIVEN, k, -1, last);
		plan_step(h->plan, get);
		pass.flags = PLAN_STABLE;
		pass.src = half(h, result, PLAN_HALVING_KEPT, k, -1, last - 1);
		pass.to = plan_term(h->plan, PLAN_DOUBLING, h->rounds->group, k, -1, last - 1);
		plan_step(h->plan, pass);
		plan_end(h->plan);
	}
	get.from = plan_term(h->plan, PLAN_DOUBLING, h->rounds->group, 0, 0, 0);
	get.dst = half(h, result, PLAN_HALVING_GIVEN, 0, 0, 0);
	plan_step(h->plan, get);
}

void algo_halving_rounds(struct plan *plan, const struct algo_rounds *rounds)
{
	struct halving h = { plan, rounds, plan_log2(rounds->n),
			     memcmp(&rounds->acc, &rounds->local, sizeof(rounds->acc)) != 0 };
	int even = 1 << h.steps == rounds->n;
	if (!even)
		begin(&h);
	reduce_scatter(&h, even ? rounds->local : rounds->acc);
	all_gather(&h);
	if (!even)
		algo_give_back(plan, rounds);
}
