/*
 * One-shot: every rank tells every other all that it needs at once; one exchange, most bytes.
 * Source: the "one-shot" all-reduce of GPU inference engines and of OpenSHMEM-style libraries; as an idea, the
 * all-to-all broadcast of Johnsson and Ho, "Optimum broadcasting and personalized communication in hypercubes" (1989).
 */
#include "algo_build.h"

/* One message to all, then a fold of what all others sent. Whoever sends chunk c + 2 has heard from everybody after
 * they read chunk c, hence two halves suffice and nobody waits for room. */
void algo_oneshot_all_reduce(const struct algo_call *call, struct plan *plan)
{
	(void)call;
	uint8_t queue = plan_queue(plan, PLAN_PARITY, 2);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	struct plan_span mine = { .space = PLAN_SEND, .chunk = chunk };
	struct plan_span result = { .space = PLAN_RECV, .chunk = chunk };
	plan_step(plan,
		  (struct plan_step){ .op = PLAN_MOVE, .src = mine, .to = PLAN_EXPR_ALL, .to_queue = queue });
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_REDUCE | PLAN_FINAL,
					    .from = PLAN_EXPR_ALL,
					    .from_queue = queue,
					    .src = mine,
					    .dst = result });
	plan_end(plan);
}

void algo_oneshot_all_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { .space = PLAN_SEND, .chunk = chunk },
					    .dst = { .space = PLAN_RECV, .block = me, .chunk = chunk },
					    .to = PLAN_EXPR_ALL,
					    .to_queue = queue });
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, -1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH,
					    .from = peer,
					    .from_queue = queue,
					    .dst = { .space = PLAN_RECV, .block = peer, .chunk = chunk } });
	plan_end(plan);
	plan_end(plan);
}

struct owned {
	uint8_t queue, me;
};

static struct owned begin_owned(const struct algo_call *call, struct plan *plan)
{
	plan->scratch_cells = algo_fold_cells(call);
	return (struct owned){ plan_queue(plan, PLAN_CREDIT, call->slots),
			       plan_shift(plan, PLAN_WORLD, 0, 0, 0) };
}

static void push_blocks(struct plan *plan, const struct owned *o, uint8_t chunk)
{
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { .space = PLAN_SEND, .block = peer, .chunk = chunk },
					    .to = peer,
					    .to_queue = o->queue });
	plan_end(plan);
}

static void fold_own(const struct algo_call *call, struct plan *plan, const struct owned *o, uint8_t chunk)
{
	const struct plan_step fold = { .op = PLAN_MOVE,
					.from_queue = o->queue,
					.src = { .space = PLAN_SEND, .block = o->me, .chunk = chunk },
					.dst = { .space = PLAN_RECV, .chunk = chunk } };
	plan_step(plan, algo_fold_of_all(call, plan, fold));
}

/* Each block goes straight to its owner, who folds all contributions at once. */
void algo_oneshot_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	struct owned o = begin_owned(call, plan);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	push_blocks(plan, &o, chunk);
	fold_own(call, plan, &o, chunk);
	plan_end(plan);
}

/* The same for copy engines, which push while a few processors fold. */
void algo_ce_reduce_scatter(const struct algo_call *call, struct plan *plan)
{
	struct owned o = begin_owned(call, plan);
	plan_program(plan, PLAN_CE);
	push_blocks(plan, &o, algo_chunk_loop(plan));
	plan_end(plan);

	plan_program(plan, PLAN_SM);
	plan_width(plan, ALGO_FOLD_WIDTH);
	fold_own(call, plan, &o, algo_chunk_loop(plan));
	plan_end(plan);
}
