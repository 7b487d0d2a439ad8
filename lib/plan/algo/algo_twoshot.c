/* SPDX-License-Identifier: BSD-3-Clause */
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

/* Of my part. */
static struct plan_step fold_step(const struct twoshot *t, uint8_t chunk)
{
	return algo_fold(PLAN_WORLD, PLAN_EXPR_ALL, t->scatter, algo_part(PLAN_SEND, t->me, chunk),
			 algo_part(PLAN_RECV, t->me, chunk));
}

static void collect_parts(struct plan *plan, const struct twoshot *t, uint8_t chunk)
{
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, -1);
	plan_step(plan,
		  algo_with(algo_receive(PLAN_WORLD, peer, t->gather, algo_part(PLAN_RECV, peer, chunk)), 0));
	algo_end(plan, 2);
}

static struct twoshot begin(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.ranks;
	plan->scratch_cells = algo_fold_cells(call);
	return (struct twoshot){ algo_queue(call, plan), algo_queue(call, plan), algo_me(plan) };
}

void algo_twoshot_all_reduce(const struct algo_call *call, struct plan *plan)
{
	const struct twoshot t = begin(call, plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	algo_push_parts(plan, t.scatter, chunk);
	const struct plan_step fold =
	    algo_and_send(fold_step(&t, chunk), PLAN_WORLD, PLAN_EXPR_ALL, t.gather);
	plan_step(plan, algo_fold_of_all(call, plan, algo_with(fold, PLAN_STABLE)));
	collect_parts(plan, &t, chunk);
}

/* Parts are of the others: a root's part would only add to what comes to it. */
void algo_twoshot_reduce(const struct algo_call *call, struct plan *plan)
{
	const int others = call->topo->map.ranks - 1;
	plan->parts = others;
	plan->scratch_cells = algo_fold_cells(call);
	const uint8_t scatter = algo_queue(call, plan), gather = algo_queue(call, plan), me = algo_me(plan),
		      root = algo_root(plan), mine = plan_term(plan, PLAN_OTHERS, PLAN_WORLD, 0, 0, 0);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	int k = plan_loop(plan, plan_const(plan, others));
	uint8_t to = plan_shift(plan, PLAN_WORLD, k, 1, 1),
		part = plan_term(plan, PLAN_OTHERS, PLAN_WORLD, k, 1, 1);
	plan_step(plan, algo_if(algo_send(algo_part(PLAN_SEND, part, chunk), PLAN_WORLD, to, scatter),
				PLAN_NE, to, root));
	plan_end(plan);

	const struct plan_step fold = algo_fold(PLAN_WORLD, PLAN_EXPR_ALL, scatter,
						algo_part(PLAN_SEND, mine, chunk), (struct plan_span){ 0 });
	const struct plan_step sent =
	    algo_and_send(algo_fold_of_all(call, plan, fold), PLAN_WORLD, root, gather);
	plan_step(plan, algo_if(sent, PLAN_NE, me, root));

	k = plan_loop_if(plan, plan_const(plan, others), PLAN_EQ, me, root);
	const uint8_t from = plan_shift(plan, PLAN_WORLD, k, -1, -1),
		      of_from = plan_term(plan, PLAN_OTHERS, PLAN_WORLD, k, -1, -1);
	plan_step(plan,
		  algo_with(algo_receive(PLAN_WORLD, from, gather, algo_part(PLAN_RECV, of_from, chunk)), 0));
	algo_end(plan, 2);
}

/* Pushes chunk c's parts, then chunk c - 1's results, so that the engines never wait for the fold of the same chunk. */
static void push_in_step(struct plan *plan, const struct twoshot *t)
{
	plan_program(plan, PLAN_CE);
	int c = plan_loop(plan, plan_base(plan, PLAN_CHUNKS, PLAN_WORLD, 1));
	uint8_t chunk = plan_var(plan, c, 0), previous = plan_var(plan, c, -1);
	algo_push_parts(plan, t->scatter, chunk);
	const struct plan_step wait = { .op = PLAN_WAIT, .from = t->me, .from_queue = t->scatter };
	plan_step(plan, algo_if(wait, PLAN_GE, previous, plan_const(plan, 0)));
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	plan_step(plan, algo_send(algo_part(PLAN_RECV, t->me, previous), PLAN_WORLD, peer, t->gather));
	algo_end(plan, 2);
}

/* The same exchange as a pipeline for copy engines: they push, a few processors fold, a third program collects. */
void algo_ce_all_reduce(const struct algo_call *call, struct plan *plan)
{
	const struct twoshot t = begin(call, plan);
	push_in_step(plan, &t);

	plan_program(plan, PLAN_SM);
	plan_width(plan, ALGO_FOLD_WIDTH);
	plan_step(plan, algo_fold_of_all(call, plan, fold_step(&t, algo_chunk_loop(plan))));
	plan_step(plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = t.me, .to_queue = t.scatter });
	plan_end(plan);

	collect_parts(plan, &t, algo_chunk_program(plan, PLAN_CE));
}
