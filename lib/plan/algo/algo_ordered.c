/*
 * Ordered: contributions travel as they are, in ceil(log2(n)) messages, and who needs a result folds all of them at once, in rank order. So the result
 * is bit for bit that of one-shot at any number of ranks. Cell i of scratch has the contribution of the rank i ahead of this one, so the fold begins with
 * rank 0's cell and goes on with the first cell behind the last one.
 *
 * all_reduce: Bruck's all_gather of whole vectors. reduce_scatter: his all_to_all of blocks. Both send many blocks, so they are for small ones.
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems" (1997).
 *
 * reduce: a gather along a binomial tree.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include "algo_build.h"

static struct plan_span first_cell(struct plan *plan)
{
	return (struct plan_span){ .space = PLAN_SCRATCH, .block = plan_const(plan, 0) };
}

static uint8_t begin(const struct algo_call *call, struct plan *plan)
{
	plan->scratch_cells = (uint32_t)call->topo->map.ranks;
	const uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	return queue;
}

/* This rank's contribution is in the first cell. */
static uint8_t begin_with_own(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin(call, plan);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE, .src = { .space = PLAN_SEND }, .dst = first_cell(plan) });
	return queue;
}

static struct plan_step fold_step(struct plan *plan)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .flags = PLAN_REDUCE | PLAN_FINAL,
				   .src = { .space = PLAN_SCRATCH, .block = algo_rank_0_ahead(plan) },
				   .cells = plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0),
				   .dst = { .space = PLAN_RECV } };
}

/* In a round a rank has as many contributions as the distance, from its own on. It sends them so far back, and gets those behind them. */
void algo_ordered_all_reduce(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin_with_own(call, plan);
	int round = plan_loop(plan, plan_rounds(plan, PLAN_WORLD, 2, 0));
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .blocks = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_BLOCKS, round, 0, 0),
				  .src = first_cell(plan),
				  .to = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_PEER, round, -1, 0),
				  .to_queue = queue };
	plan_step(plan, step);
	step.flags = PLAN_FRESH;
	step.src = (struct plan_span){ 0 };
	step.dst = (struct plan_span){ .space = PLAN_SCRATCH,
				       .block = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_DISTANCE, round,
								0, 0) };
	step.to = PLAN_EXPR_NONE;
	step.from = algo_bruck_expr(plan, PLAN_WORLD, PLAN_BRUCK_PEER, round, 1, 0);
	step.from_queue = queue;
	plan_step(plan, step);
	plan_end(plan);
	plan_step(plan, fold_step(plan));
}

/* Cell i has what goes to the rank i back, in the end what has come from the rank i ahead. */
void algo_ordered_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const uint8_t queue = begin(call, plan);
	int i = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0));
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .src = { .space = PLAN_SEND, .block = plan_shift(plan, PLAN_WORLD, i, -1, 0) },
			    .dst = { .space = PLAN_SCRATCH, .block = plan_var(plan, i, 0) } });
	plan_end(plan);

	algo_bruck_exchange(plan, queue, -1);
	plan_step(plan, fold_step(plan));
}

void algo_ordered_reduce(const struct algo_call *call, struct plan *plan)
{
	const uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0),
		      root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	const uint8_t queue = begin_with_own(call, plan);
	struct plan_step step = { .op = PLAN_MOVE, .flags = PLAN_FRESH, .from_queue = queue };
	step.from = algo_subtree_loop(plan, call->topo->map.ranks, 0, &step.blocks, &step.dst);
	plan_step(plan, step);
	plan_end(plan);

	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .blocks = plan_base(plan, PLAN_TREE_OWN, PLAN_WORLD, 0),
					    .src = first_cell(plan),
					    .to = plan_base(plan, PLAN_TREE_PARENT, PLAN_WORLD, 0),
					    .to_queue = queue });
	step = fold_step(plan);
	step.pred = PLAN_EQ;
	step.pred_a = me;
	step.pred_b = root;
	plan_step(plan, step);
}
