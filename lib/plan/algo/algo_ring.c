/*
 * Rings: every rank talks to its two neighbours only; fewest bytes, most steps.
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
 */
#include "algo_build.h"

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
	struct plan_step step = { .op = PLAN_MOVE,
				  .from_group = (uint8_t)g,
				  .to_group = (uint8_t)g,
				  .from_queue = rounds->queue,
				  .to_queue = rounds->queue,
				  .rail = rounds->rail };
	step.flags = PLAN_STABLE | PLAN_TO_WIRE;
	step.to = next;
	step.src = piece(rounds, rounds->local, me);
	plan_step(plan, step);

	step.from = plan_shift(plan, g, 0, 0, -1);
	step.flags = PLAN_REDUCE | PLAN_FROM_WIRE | PLAN_TO_WIRE;
	int k = plan_loop(plan, plan_const(plan, n - 2));
	step.src = piece(rounds, rounds->local, plan_shift(plan, g, k, -1, -1));
	plan_step(plan, step);
	plan_end(plan);

	step.flags = PLAN_REDUCE | PLAN_FINAL | PLAN_FROM_WIRE | PLAN_STABLE;
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
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	algo_ring_rounds(plan, &(struct algo_rounds){ .group = PLAN_WORLD,
						      .n = call->topo->map.ranks,
						      .queue = queue,
						      .local = { .space = PLAN_SEND, .chunk = chunk },
						      .result = { .space = PLAN_RECV, .chunk = chunk } });
	plan_end(plan);
}

/* Each block travels once around. */
void algo_ring_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE,
				  .src = { .space = PLAN_SEND, .chunk = chunk },
				  .dst = { .space = PLAN_RECV, .block = me, .chunk = chunk },
				  .to = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
				  .to_queue = queue,
				  .from_queue = queue };
	plan_step(plan, step);
	step.flags = PLAN_STABLE | PLAN_FRESH;
	step.src = (struct plan_span){ 0 };
	step.from = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	int k = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, -2));
	step.dst.block = plan_shift(plan, PLAN_WORLD, k, -1, -1);
	plan_step(plan, step);
	plan_end(plan);
	step.flags = PLAN_FRESH;
	step.to = PLAN_EXPR_NONE;
	step.dst.block = plan_shift(plan, PLAN_WORLD, 0, 0, 1);
	plan_step(plan, step);
	plan_end(plan);
}

/* The sum of block b sets out at rank b + 1 and arrives at rank b. */
void algo_ring_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0), previous = plan_shift(plan, PLAN_WORLD, 0, 0, -1);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	struct plan_step step = { .op = PLAN_MOVE,
				  .flags = PLAN_STABLE | PLAN_TO_WIRE,
				  .src = { .space = PLAN_SEND, .block = previous, .chunk = chunk },
				  .to = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
				  .to_queue = queue,
				  .from_queue = queue };
	plan_step(plan, step);
	step.flags = PLAN_REDUCE | PLAN_FROM_WIRE | PLAN_TO_WIRE;
	step.from = previous;
	int k = plan_loop(plan, plan_base(plan, PLAN_SIZE, PLAN_WORLD, -2));
	step.src.block = plan_shift(plan, PLAN_WORLD, k, -1, -2);
	plan_step(plan, step);
	plan_end(plan);
	step.flags = PLAN_REDUCE | PLAN_FINAL | PLAN_FROM_WIRE;
	step.to = PLAN_EXPR_NONE;
	step.src.block = me;
	step.dst = (struct plan_span){ .space = PLAN_RECV, .chunk = chunk };
	plan_step(plan, step);
	plan_end(plan);
}
