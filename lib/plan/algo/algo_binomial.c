/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binomial trees: log2(n) levels, everything once along each edge; for what is small and far away. Sums grow towards the
 * root, the smallest subtree first; a broadcast goes to the largest one first.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include "algo_rounds.h"

static int levels_of(int n)
{
	int levels = 0;
	while (1 << levels < n)
		levels++;
	return levels;
}

/* Adds what the child of step.from sends; with the last child's, which is the one without a next, to the parent. */
static void add_child(struct plan *plan, const struct algo_rounds *sums, struct plan_step step, uint8_t next)
{
	const uint8_t none = plan_const(plan, PLAN_NONE);
	step.dst = sums->acc;
	plan_step(plan, algo_if(algo_with(step, PLAN_REDUCE), PLAN_NE, next, none));
	step.dst = (struct plan_span){ 0 };
	step.to = plan_base(plan, PLAN_TREE_PARENT, sums->group, 0);
	plan_step(plan, algo_if(algo_with(step, PLAN_REDUCE), PLAN_EQ, next, none));
}

/* The root alone has a child of the last level: what comes from there ends the sum. */
void algo_binomial_sums(struct plan *plan, const struct algo_rounds *sums)
{
	int levels = levels_of(sums->n);
	struct plan_step step = algo_rounds_step(sums), leaf = step;
	step.from = plan_term(plan, PLAN_TREE_CHILD, sums->group, 0, 0, 0);
	step.src = sums->local;

	leaf.flags = sums->local.space == PLAN_SEND ? PLAN_STABLE : 0;
	leaf.src = sums->local;
	leaf.to = plan_base(plan, PLAN_TREE_PARENT, sums->group, 0);
	plan_step(plan, algo_if(leaf, PLAN_EQ, step.from, plan_const(plan, PLAN_NONE)));

	if (levels > 1) {
		add_child(plan, sums, step, plan_term(plan, PLAN_TREE_CHILD, sums->group, 0, 0, 1));
		step.src = sums->acc;
	}
	if (levels > 2) {
		int k = plan_loop(plan, plan_rounds(plan, sums->group, 2, -2));
		step.from = plan_term(plan, PLAN_TREE_CHILD, sums->group, k, 1, 1);
		add_child(plan, sums, step, plan_term(plan, PLAN_TREE_CHILD, sums->group, k, 1, 2));
		plan_end(plan);
	}
	step.from = plan_term(plan, PLAN_TREE_CHILD, sums->group, 0, 0, levels - 1);
	algo_sums_end(plan, sums, step);
}

/* The root alone has a child of the last level, to whom it sends what it copies; all else goes on from recv. */
void algo_binomial_broadcast(const struct algo_call *call, struct plan *plan)
{
	int levels = levels_of(call->topo->map.ranks);
	uint8_t queue = algo_queue(call, plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	const struct plan_span all = algo_vector(PLAN_RECV, chunk);
	struct plan_step first =
	    algo_send(algo_vector(PLAN_SEND, chunk), PLAN_WORLD,
		      plan_term(plan, PLAN_TREE_CHILD, PLAN_WORLD, 0, 0, levels - 1), queue);
	first.dst = all;
	plan_step(plan, first);
	plan_step(plan,
		  algo_receive(PLAN_WORLD, plan_base(plan, PLAN_TREE_PARENT, PLAN_WORLD, 0), queue, all));
	if (levels > 1) {
		int k = plan_loop(plan, plan_rounds(plan, PLAN_WORLD, 2, -1));
		plan_step(plan,
			  algo_send(all, PLAN_WORLD,
				    plan_term(plan, PLAN_TREE_CHILD, PLAN_WORLD, k, -1, levels - 2), queue));
		plan_end(plan);
	}
	plan_end(plan);
}
