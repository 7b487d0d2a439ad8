/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather and scatter along binomial trees: a subtree's blocks in one message, so the root has log2(n) messages. Positions of a subtree follow each
 * other, so its blocks do: at the root in the user's buffer, which they wrap around in, elsewhere in scratch, whose cell i is the block of the member i
 * behind this rank.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include "algo_build.h"

struct tree {
	uint8_t queue, me, root, own, parent;
	struct plan_span cell; /* the first one */
};

static struct tree begin(const struct algo_call *call, struct plan *plan)
{
	plan->scratch_cells = (uint32_t)(call->topo->map.ranks + 1) / 2;
	return (struct tree){ .queue = algo_queue(call, plan),
			      .me = algo_me(plan),
			      .root = algo_root(plan),
			      .own = plan_base(plan, PLAN_TREE_OWN, PLAN_WORLD, 0),
			      .parent = plan_base(plan, PLAN_TREE_PARENT, PLAN_WORLD, 0),
			      .cell = algo_cell(plan, PLAN_EXPR_NONE) };
}

/* A step of the root, or of all others. */
static void add_step(struct plan *plan, const struct tree *t, enum plan_pred pred, struct plan_step step)
{
	plan_step(plan, algo_if(step, pred, t->me, t->root));
}

static struct plan_step of_blocks(struct plan_step step, uint8_t blocks)
{
	step.blocks = blocks;
	return step;
}

void algo_binomial_gather(const struct algo_call *call, struct plan *plan)
{
	const struct tree t = begin(call, plan);
	const struct plan_span own = algo_vector(PLAN_SEND, PLAN_EXPR_NONE);
	uint8_t blocks;
	struct plan_span cells;
	plan_program(plan, PLAN_SM);
	add_step(plan, &t, PLAN_EQ, algo_copy(own, algo_block(PLAN_RECV, t.me, PLAN_EXPR_NONE)));
	add_step(plan, &t, PLAN_NE, algo_copy(own, t.cell));

	const uint8_t child = algo_subtree_loop(plan, call->topo->map.ranks, 0, &blocks, &cells);
	const struct plan_span place = algo_block(PLAN_RECV, child, PLAN_EXPR_NONE);
	add_step(plan, &t, PLAN_EQ, of_blocks(algo_receive(PLAN_WORLD, child, t.queue, place), blocks));
	add_step(plan, &t, PLAN_NE,
		 of_blocks(algo_with(algo_receive(PLAN_WORLD, child, t.queue, cells), 0), blocks));
	plan_end(plan);
	add_step(plan, &t, PLAN_NE, of_blocks(algo_send(t.cell, PLAN_WORLD, t.parent, t.queue), t.own));
}

void algo_binomial_scatter(const struct algo_call *call, struct plan *plan)
{
	const struct tree t = begin(call, plan);
	const struct plan_span own = algo_vector(PLAN_RECV, PLAN_EXPR_NONE);
	uint8_t blocks;
	struct plan_span cells;
	plan_program(plan, PLAN_SM);
	add_step(plan, &t, PLAN_NE,
		 of_blocks(algo_with(algo_receive(PLAN_WORLD, t.parent, t.queue, t.cell), 0), t.own));

	const uint8_t child = algo_subtree_loop(plan, call->topo->map.ranks, 1, &blocks, &cells);
	const struct plan_span place = algo_block(PLAN_SEND, child, PLAN_EXPR_NONE);
	add_step(plan, &t, PLAN_EQ, of_blocks(algo_send(place, PLAN_WORLD, child, t.queue), blocks));
	add_step(plan, &t, PLAN_NE, of_blocks(algo_send(cells, PLAN_WORLD, child, t.queue), blocks));
	plan_end(plan);
	add_step(plan, &t, PLAN_EQ, algo_copy(algo_block(PLAN_SEND, t.me, PLAN_EXPR_NONE), own));
	add_step(plan, &t, PLAN_NE, algo_copy(t.cell, own));
}
