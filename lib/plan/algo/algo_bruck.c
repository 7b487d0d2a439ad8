/*
 * Bruck's all_gather: in round i a rank that has 2^i blocks, its own first, sends them to the rank so far before it and gets as many from the one so
 * far behind it; the last round sends what is missing. So ceil(log2(n)) messages for any n. Blocks go to their places at once: a message's span
 * wraps around the end of the receive buffer, and nothing is rotated in the end.
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems" (1997).
 *
 * all_to_all: cell i of scratch has what goes i ranks on; in a round all cells whose number has the distance's bit go so far, in one message. In the
 * end cell i has what came from i ranks back.
 *
 * reduce_scatter is all_gather in reverse: sums go where blocks came from, the last round's first, and fold with the receiver's.
 * Source: Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms" (2024).
 */
#include "algo_build.h"

void algo_bruck_gather_rounds(struct plan *plan, enum plan_group group, int each, uint8_t queue, uint8_t own)
{
	const int round = plan_loop(plan, plan_rounds(plan, group, 2, 0));
	const uint8_t behind = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, 1, 0);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .blocks = algo_bruck_expr(plan, group, PLAN_BRUCK_BLOCKS, round, each, 0),
				  .src = { .space = PLAN_RECV, .block = own },
				  .to_group = (uint8_t)group,
				  .to = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, -1, 0),
				  .to_queue = queue };
	plan_step(plan, step);
	step.flags = PLAN_FRESH;
	step.src = (struct plan_span){ 0 };
	step.dst = (struct plan_span){ .space = PLAN_RECV,
				       .block = group == PLAN_WORLD
						    ? behind
						    : algo_rank_at(plan, behind, plan_const(plan, 0)) };
	step.to = PLAN_EXPR_NONE;
	step.from_group = (uint8_t)group;
	step.from = behind;
	step.from_queue = queue;
	plan_step(plan, step);
	plan_end(plan);
}

void algo_bruck_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0);
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .src = { .space = PLAN_SEND },
					    .dst = { .space = PLAN_RECV, .block = me } });
	algo_bruck_gather_rounds(plan, PLAN_WORLD, 1, queue, me);
}

void algo_bruck_reduce_rounds(struct plan *plan, enum plan_group group, int each, uint8_t queue, int less)
{
	const struct plan_span own = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) };
	const int round = plan_loop(plan, plan_rounds(plan, group, 2, -less));
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE | PLAN_TO_WIRE,
				  .blocks = algo_bruck_expr(plan, group, PLAN_BRUCK_BLOCKS, round, each, 1),
				  .src = { .space = PLAN_SCRATCH,
					   .block = algo_bruck_expr(plan, group, PLAN_BRUCK_DISTANCE, round,
								    each, 1) },
				  .to_group = (uint8_t)group,
				  .to = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, 1, 1),
				  .to_queue = queue };
	plan_step(plan, step);
	step.flags = PLAN_REDUCE | PLAN_FROM_WIRE;
	step.src = step.dst = own;
	step.to = PLAN_EXPR_NONE;
	step.from_group = (uint8_t)group;
	step.from = algo_bruck_expr(plan, group, PLAN_BRUCK_PEER, round, -1, 1);
	step.from_queue = queue;
	plan_step(plan, step);
	plan_end(plan);
}

/* Cell i of scratch has the sum of the block that is i behind this rank's own. The last round's sum goes to the receive buffer. */
void algo_bruck_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const int n = call->topo->map.ranks;
	plan->scratch_cells = (uint32_t)n;
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	const struct plan_span own = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) };
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .blocks = plan_const(plan, n),
			    .src = { .space = PLAN_SEND, .block = plan_shift(plan, PLAN_WORLD, 0, 0, 0) },
			    .dst = own });
	algo_bruck_reduce_rounds(plan, PLAN_WORLD, 1, queue, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE | PLAN_TO_WIRE,
					    .src = { .space = PLAN_SCRATCH, .block = plan_const(plan, 1) },
					    .to = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
					    .to_queue = queue });
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_REDUCE | PLAN_FINAL | PLAN_FROM_WIRE,
					    .src = own,
					    .dst = { .space = PLAN_RECV },
					    .from = plan_shift(plan, PLAN_WORLD, 0, 0, -1),
					    .from_queue = queue });
}

void algo_bruck_all_to_all(const struct algo_call *call, struct plan *plan)
{
	const int n = call->topo->map.ranks;
	plan->scratch_cells = (uint32_t)n;
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .blocks = plan_const(plan, n),
			    .src = { .space = PLAN_SEND, .block = plan_shift(plan, PLAN_WORLD, 0, 0, 0) },
			    .dst = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) } });
	algo_bruck_exchange(plan, queue, 1);

	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_BACK,
			    .blocks = plan_const(plan, n),
			    .src = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) },
			    .dst = { .space = PLAN_RECV, .block = plan_shift(plan, PLAN_WORLD, 0, 0, 0) } });
}
