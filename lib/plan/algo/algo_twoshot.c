/*
 * Two-shot: reduce-scatter by one exchange, all-gather by another; the bytes of a ring in two steps.
 * Source: Rabenseifner, "Optimization of collective reduction operations" (2004), with direct instead of halving
 * exchanges.
 */
#include "algo_build.h"

struct twoshot {
	uint8_t scatter, gather; /* queues */
	uint8_t me;
};

/* From and to nobody yet. */
static struct plan_step fold_step(const struct twoshot *t, uint8_t chunk)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .from_queue = t->scatter,
				   .src = { PLAN_SEND, .part = t->me, .chunk = chunk },
				   .dst = { PLAN_RECV, .part = t->me, .chunk = chunk } };
}

static void collect_parts(struct plan *plan, const struct twoshot *t, uint8_t chunk)
{
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, -1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .from = peer,
					    .from_queue = t->gather,
					    .dst = { PLAN_RECV, .part = peer, .chunk = chunk } });
	plan_end(plan);
}

static struct twoshot begin(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.ranks;
	plan->scratch_cells = algo_fold_cells(call);
	return (struct twoshot){ plan_queue(plan, PLAN_CREDIT, call->slots),
				 plan_queue(plan, PLAN_CREDIT, call->slots),
				 plan_shift(plan, PLAN_WORLD, 0, 0, 0) };
}

void algo_twoshot_all_reduce(const struct algo_call *call, struct plan *plan)
{
	struct twoshot t = begin(call, plan);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	algo_push_parts(plan, t.scatter, chunk);
	struct plan_step fold = fold_step(&t, chunk);
	fold.flags = PLAN_STABLE;
	fold.to = PLAN_EXPR_ALL;
	fold.to_queue = t.gather;
	plan_step(plan, algo_fold_of_all(call, plan, fold));
	collect_parts(plan, &t, chunk);
	plan_end(plan);
}

/* Pushes chunk c's parts, then chunk c - 1's results, so that the engines never wait for the fold of the same chunk. */
static void push_in_step(struct plan *plan, const struct twoshot *t)
{
	plan_program(plan, PLAN_CE);
	int c = plan_loop(plan, plan_base(plan, PLAN_CHUNKS, PLAN_WORLD, 1));
	uint8_t chunk = plan_var(plan, c, 0), previous = plan_var(plan, c, -1);
	algo_push_parts(plan, t->scatter, chunk);
	plan_step(plan, (struct plan_step){ .op = PLAN_WAIT,
					    .from = t->me,
					    .from_queue = t->scatter,
					    .pred = PLAN_GE,
					    .pred_a = previous,
					    .pred_b = plan_const(plan, 0) });
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_RECV, .part = t->me, .chunk = previous },
					    .to = peer,
					    .to_queue = t->gather });
	plan_end(plan);
	plan_end(plan);
}

/* The same exchange as a pipeline for copy engines: they push, a few processors fold, a third program collects. */
void algo_ce_all_reduce(const struct algo_call *call, struct plan *plan)
{
	struct twoshot t = begin(call, plan);
	push_in_step(plan, &t);

	plan_program(plan, PLAN_SM);
	plan_width(plan, ALGO_FOLD_WIDTH);
	uint8_t chunk = algo_chunk_loop(plan);
	plan_step(plan, algo_fold_of_all(call, plan, fold_step(&t, chunk)));
	plan_step(plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = t.me, .to_queue = t.scatter });
	plan_end(plan);

	plan_program(plan, PLAN_CE);
	chunk = algo_chunk_loop(plan);
	collect_parts(plan, &t, chunk);
	plan_end(plan);
}
