/*
 * Reduce of large vectors: a reduce-scatter by one exchange, whose parts then go to the root; everybody folds.
 * Source: Rabenseifner, "Optimization of collective reduction operations" (2004), with direct instead of halving
 * exchanges.
 */
#include "algo_build.h"

struct scattered {
	uint8_t scatter, gather; /* queues */
	uint8_t me, root;
};

/* The root's own part stays, the others' go there. */
static void fold_part(const struct algo_call *call, struct plan *plan, const struct scattered *s,
		      uint8_t chunk)
{
	struct plan_step step =
	    algo_fold_of_all(call, plan,
			     (struct plan_step){ .op = PLAN_MOVE,
						 .from_queue = s->scatter,
						 .src = { PLAN_SEND, .part = s->me, .chunk = chunk } });
	step.pred = PLAN_EQ;
	step.pred_a = s->me;
	step.pred_b = s->root;
	step.dst = (struct plan_span){ PLAN_RECV, .part = s->me, .chunk = chunk };
	plan_step(plan, step);
	step.pred = PLAN_NE;
	step.dst = (struct plan_span){ 0 };
	step.to = s->root;
	step.to_queue = s->gather;
	plan_step(plan, step);
}

static void collect_parts(struct plan *plan, const struct scattered *s, uint8_t chunk)
{
	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, -1, s->me, s->root);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .from = peer,
					    .from_queue = s->gather,
					    .dst = { PLAN_RECV, .part = peer, .chunk = chunk } });
	plan_end(plan);
}

void algo_scatter_reduce(const struct algo_call *call, struct plan *plan)
{
	plan->parts = call->topo->map.ranks;
	plan->scratch_cells = algo_fold_cells(call);
	struct scattered s = { plan_queue(plan, PLAN_CREDIT, call->slots),
			       plan_queue(plan, PLAN_CREDIT, call->slots),
			       plan_shift(plan, PLAN_WORLD, 0, 0, 0),
			       plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0) };
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	algo_push_parts(plan, s.scatter, chunk);
	fold_part(call, plan, &s, chunk);
	collect_parts(plan, &s, chunk);
	plan_end(plan);
}
