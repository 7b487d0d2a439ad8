/*
 * Bruck's all_gather: in round i a rank that has 2^i blocks, its own first, sends them to the rank so far before it and gets as many from the one so
 * far behind it; the last round sends what is missing. So ceil(log2(n)) messages for any n. Blocks go to their places at once: a message's span
 * wraps around the end of the receive buffer, and nothing is rotated in the end.
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems" (1997).
 *
 * all_to_all: cell i of scratch has what goes i ranks on; in a round all cells whose number has the distance's bit go so far, in one message.
 *
 * reduce_scatter is all_gather in reverse: sums go where blocks came from, the last round's first, and fold with the receiver's.
 * Source: Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms" (2024).
 */
#include "algo_build.h"

void algo_bruck_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t ring = plan_ring(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0);
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .src = { .space = PLAN_SEND },
					    .dst = { .space = PLAN_RECV, .block = me } });
	int round = plan_loop(plan, plan_base(plan, PLAN_TREE_LEVELS, PLAN_WORLD, 0));
	uint8_t behind = algo_bruck_expr(plan, PLAN_BRUCK_PEER, round, 1, 0);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .blocks = algo_bruck_expr(plan, PLAN_BRUCK_BLOCKS, round, 0, 0),
				  .src = { .space = PLAN_RECV, .block = me },
				  .to = algo_bruck_expr(plan, PLAN_BRUCK_PEER, round, -1, 0),
				  .to_ring = ring };
	plan_step(plan, step);
	step.flags = PLAN_FRESH;
	step.src = (struct plan_span){ 0 };
	step.dst = (struct plan_span){ .space = PLAN_RECV, .block = behind };
	step.to = PLAN_EXPR_NONE;
	step.from = behind;
	step.from_ring = ring;
	plan_step(plan, step);
	plan_end(plan);
}

/* Cell i of scratch has the sum of the block that is i behind this rank's own. */
void algo_bruck_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	const int n = call->topo->map.ranks;
	plan->scratch_cells = (uint32_t)n;
	uint8_t ring = plan_ring(plan, PLAN_CREDIT, call->slots);
	const struct plan_span own = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) };
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .blocks = plan_const(plan, n),
			    .src = { .space = PLAN_SEND, .block = plan_shift(plan, PLAN_WORLD, 0, 0, 0) },
			    .dst = own });
	int round = plan_loop(plan, plan_base(plan, PLAN_TREE_LEVELS, PLAN_WORLD, -1));
	struct plan_step send = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE | PLAN_TO_WIRE,
				  .blocks = algo_bruck_expr(plan, PLAN_BRUCK_BLOCKS, round, 0, 1),
				  .src = { .space = PLAN_SCRATCH,
					   .block = algo_bruck_expr(plan, PLAN_BRUCK_DISTANCE, round, 0, 1) },
				  .to = algo_bruck_expr(plan, PLAN_BRUCK_PEER, round, 1, 1),
				  .to_ring = ring };
	struct plan_step add = { .op = PLAN_MOVE,
				 .flags = PLAN_REDUCE | PLAN_FROM_WIRE,
				 .blocks = send.blocks,
				 .src = own,
				 .dst = own,
				 .from = algo_bruck_expr(plan, PLAN_BRUCK_PEER, round, -1, 1),
				 .from_ring = ring };
	plan_step(plan, send);
	plan_step(plan, add);
	plan_end(plan);
	send.blocks = add.blocks = PLAN_EXPR_NONE;
	send.src.block = plan_const(plan, 1);
	send.to = plan_shift(plan, PLAN_WORLD, 0, 0, 1);
	plan_step(plan, send);
	add.flags |= PLAN_FINAL;
	add.dst = (struct plan_span){ .space = PLAN_RECV };
	add.from = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	plan_step(plan, add);
}

void algo_bruck_all_to_all(const struct algo_call *call, struct plan *plan)
{
	const int n = call->topo->map.ranks;
	plan->scratch_cells = (uint32_t)n;
	uint8_t ring = plan_ring(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .blocks = plan_const(plan, n),
			    .src = { .space = PLAN_SEND, .block = plan_shift(plan, PLAN_WORLD, 0, 0, 0) },
			    .dst = { .space = PLAN_SCRATCH, .block = plan_const(plan, 0) } });
	algo_bruck_exchange(plan, ring, 1);

	int i = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, 0));
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .src = { .space = PLAN_SCRATCH, .block = plan_var(plan, i, 0) },
			    .dst = { .space = PLAN_RECV, .block = plan_shift(plan, PLAN_WORLD, i, -1, 0) } });
	plan_end(plan);
}
