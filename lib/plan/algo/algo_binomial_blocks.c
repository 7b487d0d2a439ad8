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
	return (struct tree){ .queue = plan_queue(plan, PLAN_CREDIT, call->slots),
			      .me = plan_shift(plan, PLAN_WORLD, 0, 0, 0),
			      .root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0),
			      .own = plan_base(plan, PLAN_TREE_OWN, PLAN_WORLD, 0),
			      .parent = plan_base(plan, PLAN_TREE_PARENT, PLAN_WORLD, 0),
			      .cell = { PLAN_SCRATCH, .block = plan_const(plan, 0) } };
}

/* A move of the root, or of all others. */
static struct plan_step step_of(const struct tree *t, enum plan_pred pred)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .pred = (uint8_t)pred,
				   .pred_a = t->me,
				   .pred_b = t->root,
				   .from_queue = t->queue,
				   .to_queue = t->queue };
}

void algo_binomial_gather(const struct algo_call *call, struct plan *plan)
{
	const struct tree t = begin(call, plan);
	uint8_t blocks;
	struct plan_span cells;
	plan_program(plan, PLAN_SM);
	struct plan_step root = step_of(&t, PLAN_EQ), other = step_of(&t, PLAN_NE);
	root.src = other.src = (struct plan_span){ .space = PLAN_SEND };
	root.dst = (struct plan_span){ PLAN_RECV, .block = t.me };
	other.dst = t.cell;
	plan_step(plan, root);
	plan_step(plan, other);

	const uint8_t child = algo_subtree_loop(plan, call->topo->map.ranks, 0, &blocks, &cells);
	root.flags = PLAN_FRESH;
	root.from = other.from = child;
	root.blocks = other.blocks = blocks;
	root.src = other.src = (struct plan_span){ 0 };
	root.dst.block = child;
	other.dst = cells;
	plan_step(plan, root);
	plan_step(plan, other);
	plan_end(plan);

	other = step_of(&t, PLAN_NE);
	other.flags = PLAN_STABLE;
	other.blocks = t.own;
	other.src = t.cell;
	other.to = t.parent;
	plan_step(plan, other);
}

void algo_binomial_scatter(const struct algo_call *call, struct plan *plan)
{
	const struct tree t = begin(call, plan);
	uint8_t blocks;
	struct plan_span cells;
	plan_program(plan, PLAN_SM);
	struct plan_step root = step_of(&t, PLAN_EQ), other = step_of(&t, PLAN_NE);
	other.blocks = t.own;
	other.from = t.parent;
	other.dst = t.cell;
	plan_step(plan, other);

	const uint8_t child = algo_subtree_loop(plan, call->topo->map.ranks, 1, &blocks, &cells);
	other = step_of(&t, PLAN_NE);
	root.flags = other.flags = PLAN_STABLE;
	root.blocks = other.blocks = blocks;
	root.src = (struct plan_span){ PLAN_SEND, .block = child };
	other.src = cells;
	root.to = other.to = child;
	plan_step(plan, root);
	plan_step(plan, other);
	plan_end(plan);

	root = step_of(&t, PLAN_EQ);
	other = step_of(&t, PLAN_NE);
	root.src = (struct plan_span){ PLAN_SEND, .block = t.me };
	other.src = t.cell;
	root.dst = other.dst = (struct plan_span){ .space = PLAN_RECV };
	plan_step(plan, root);
	plan_step(plan, other);
}
