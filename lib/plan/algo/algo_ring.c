/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings: every rank talks to its two neighbours only; fewest bytes, most steps.
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
 */
#include "algo_rounds.h"

static struct plan_span piece(const struct algo_rounds *rounds, struct plan_span span, uint8_t index)
{
	if (rounds->inner)
		span.inner = index;
	else
		span.part = index;
	return span;
}

/*
 * Reduce-scatter, then all-gather. In round k of the first a rank passes on piece me - k with its own share added;
 * piece me + 1 is complete here after n - 1 rounds and sets out on the second tour at once.
 */
void algo_ring_rounds(struct plan *plan, const struct algo_rounds *rounds)
{
	int g = rounds->group, n = rounds->n;
	uint8_t me = plan_shift(plan, g, 0, 0, 0), next = plan_shift(plan, g, 0, 0, 1);
	struct plan_step step = algo_rounds_step(rounds);
	step.flags = PLAN_STABLE;
	step.to = next;
	step.src = piece(rounds, rounds->local, me);
	plan_step(plan, step);

	step.from = plan_shift(plan, g, 0, 0, -1);
	step.flags = PLAN_REDUCE;
	int k = plan_loop(plan, plan_const(plan, n - 2));
	step.src = piece(rounds, rounds->local, plan_shift(plan, g, k, -1, -1));
	plan_step(plan, step);
	plan_end(plan);

	step.flags = PLAN_REDUCE | PLAN_FINAL | PLAN_STABLE;
	step.src = piece(rounds, rounds->local, next);
	step.dst = piece(rounds, rounds->result, next);
	plan_step(plan, step);

	step.flags = PLAN_STABLE;
	step.src = (struct plan_span){ 0 };
	k = plan_loop(plan, plan_const(plan, n - 2));
	step.dst = piece(rounds, rounds->result, plan_shift(plan, g, k, -1, 0));
	plan_step(plan, step);
	plan_end(plan);

	step.flags = 0;
	step.to = PLAN_EXPR_NONE;
	step.dst = piece(rounds, rounds->result, plan_shift(plan, g, 0, 0, 2));
	plan_step(plan, step);
}

void algo_ring_all_reduce(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.ranks;
	algo_flat_rounds(call, plan, algo_ring_rounds);
}

/* Each block travels once around. */
void algo_ring_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), next = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
		previous = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	struct plan_step own = algo_send(algo_vector(PLAN_SEND, chunk), PLAN_WORLD, next, queue);
	own.dst = algo_block(PLAN_RECV, algo_me(plan), chunk);
	plan_step(plan, own);
	int k = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, -2));
	struct plan_step step =
	    algo_receive(PLAN_WORLD, previous, queue,
			 algo_block(PLAN_RECV, plan_shift(plan, PLAN_WORLD, k, -1, -1), chunk));
	plan_step(plan, algo_with(algo_and_send(step, PLAN_WORLD, next, queue), PLAN_STABLE | PLAN_FRESH));
	plan_end(plan);
	step.dst.block = next;
	plan_step(plan, step);
	plan_end(plan);
}

/* The sum of block b sets out at rank b + 1 and arrives at rank b. */
void algo_ring_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), next = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
		previous = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	plan_step(plan, algo_with(algo_send(algo_block(PLAN_SEND, previous, chunk), PLAN_WORLD, next, queue),
				  PLAN_STABLE));
	int k = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, -2));
	struct plan_step step = algo_fold(
	    PLAN_WORLD, previous, queue,
	    algo_block(PLAN_SEND, plan_shift(plan, PLAN_WORLD, k, -1, -2), chunk), (struct plan_span){ 0 });
	plan_step(plan, algo_with(algo_and_send(step, PLAN_WORLD, next, queue), PLAN_REDUCE));
	plan_end(plan);
	step.src.block = algo_me(plan);
	step.dst = algo_vector(PLAN_RECV, chunk);
	plan_step(plan, algo_with(step, PLAN_REDUCE | PLAN_FINAL));
	plan_end(plan);
}
