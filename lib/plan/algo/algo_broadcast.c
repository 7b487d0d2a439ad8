/*
 * Broadcasts that ignore nodes: the root tells everybody (one write where memory is shared); or it scatters parts,
 * which then travel around a ring; or it scatters parts to the others, each of which sends its part to all others at once.
 * Source: van de Geijn, "On global combine operations" (1994), for scatter and all-gather.
 */
#include "algo_build.h"

void algo_flat_broadcast(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0), root = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .pred = PLAN_EQ,
					    .pred_a = me,
					    .pred_b = root,
					    .src = { PLAN_SEND, .chunk = chunk },
					    .dst = { PLAN_RECV, .chunk = chunk },
					    .to = PLAN_EXPR_ALL,
					    .to_queue = queue });
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH,
					    .pred = PLAN_NE,
					    .pred_a = me,
					    .pred_b = root,
					    .from = root,
					    .from_queue = queue,
					    .dst = { PLAN_RECV, .chunk = chunk } });
	plan_end(plan);
}

struct scatter {
	uint8_t scatter, gather; /* queues */
	uint8_t me, next, previous, root;
};

/* The root keeps its own part, and reads the others back from nobody: it only passes on what others wait for. */
static void scatter_parts(struct plan *plan, const struct scatter *s, uint8_t chunk)
{
	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, 1, s->me, s->root);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_SEND, .part = peer, .chunk = chunk },
					    .to = peer,
					    .to_queue = s->scatter });
	plan_end(plan);
	struct plan_step own = { .op = PLAN_MOVE,
				 .flags = PLAN_STABLE,
				 .pred = PLAN_EQ,
				 .pred_a = s->me,
				 .pred_b = s->root,
				 .src = { PLAN_SEND, .part = s->me, .chunk = chunk },
				 .dst = { PLAN_RECV, .part = s->me, .chunk = chunk },
				 .to = s->next,
				 .to_queue = s->gather };
	plan_step(plan, own);
	own.flags = PLAN_STABLE | PLAN_FRESH;
	own.pred = PLAN_NE;
	own.src = (struct plan_span){ 0 };
	own.from = s->root;
	own.from_queue = s->scatter;
	plan_step(plan, own);
}

/* Part me - 1, me - 2, ... come by; all but the last travel on. The root's buffer holds them already when it is used
 * in place, so only the others' parts may land early. */
static void gather_parts(struct plan *plan, const struct scatter *s, uint8_t chunk, int n)
{
	struct plan_step step = { .op = PLAN_MOVE,
				  .pred_a = s->me,
				  .pred_b = s->root,
				  .from = s->previous,
				  .to = s->next,
				  .from_queue = s->gather,
				  .to_queue = s->gather };
	int k = plan_loop(plan, plan_const(plan, n - 2));
	for (int last = 0; last < 2; last++) {
		uint8_t part = last ? s->next : plan_shift(plan, PLAN_WORLD, k, -1, -1);
		uint8_t stable = last ? 0 : PLAN_STABLE;
		step.to = last ? PLAN_EXPR_NONE : s->next;
		step.dst = (struct plan_span){ PLAN_RECV, .part = part, .chunk = chunk };
		step.pred = PLAN_EQ;
		step.flags = stable;
		plan_step(plan, step);
		step.pred = PLAN_NE;
		step.flags = stable | PLAN_FRESH;
		plan_step(plan, step);
		if (!last)
			plan_end(plan);
	}
}

void algo_scatter_broadcast(const struct algo_call *call, struct plan *plan)
{
	int n = plan->parts = call->topo->map.ranks;
	struct scatter s = {
		plan_queue(plan, PLAN_CREDIT, call->slots), plan_queue(plan, PLAN_CREDIT, call->slots),
		plan_shift(plan, PLAN_WORLD, 0, 0, 0),      plan_shift(plan, PLAN_WORLD, 0, 0, 1),
		plan_shift(plan, PLAN_WORLD, 0, 0, -1),     plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0)
	};
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	scatter_parts(plan, &s, chunk);
	gather_parts(plan, &s, chunk, n);
	plan_end(plan);
}

/*
 * The root has no part: its copies of what is dealt would only add to what the others receive. The others' parts are in rank order.
 */
struct deal {
	uint8_t deal, pass; /* queues */
	uint8_t me, root;
};

/* The part of the rank so far from me, or none: it is the root. */
static uint8_t part_of(struct plan *plan, int var, int stride, int offset)
{
	return plan_expr(
	    plan, (struct plan_expr){
		      .base = PLAN_OTHERS, .var = (uint8_t)var, .stride = (int8_t)stride, .offset = offset });
}

static void deal_parts(struct plan *plan, const struct deal *d, uint8_t chunk)
{
	int k = plan_loop_if(plan, plan_const(plan, plan->parts), PLAN_EQ, d->me, d->root);
	uint8_t part = part_of(plan, k, 1, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_SEND, .part = part, .chunk = chunk },
					    .dst = { PLAN_RECV, .part = part, .chunk = chunk },
					    .to = plan_shift(plan, PLAN_WORLD, k, 1, 1),
					    .to_queue = d->deal });
	plan_end(plan);
}

/* Of the root no step is left: it has no part. */
static void pass_parts(struct plan *plan, const struct deal *d, uint8_t chunk, int n)
{
	uint8_t mine = part_of(plan, 0, 0, 0);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH | PLAN_STABLE,
					    .from = d->root,
					    .from_queue = d->deal,
					    .dst = { PLAN_RECV, .part = mine, .chunk = chunk } });
	int k = plan_loop(plan, plan_const(plan, n - 1));
	uint8_t to = plan_shift(plan, PLAN_WORLD, k, 1, 1);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .pred = PLAN_NE,
					    .pred_a = to,
					    .pred_b = d->root,
					    .src = { PLAN_RECV, .part = mine, .chunk = chunk },
					    .to = to,
					    .to_queue = d->pass });
	plan_end(plan);
	k = plan_loop_if(plan, plan_const(plan, n - 1), PLAN_NE, d->me, d->root);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE,
			    .flags = PLAN_FRESH,
			    .from = plan_shift(plan, PLAN_WORLD, k, -1, -1),
			    .from_queue = d->pass,
			    .dst = { PLAN_RECV, .part = part_of(plan, k, -1, -1), .chunk = chunk } });
	plan_end(plan);
}

void algo_scatter_allgather_broadcast(const struct algo_call *call, struct plan *plan)
{
	int n = call->topo->map.ranks;
	plan->parts = n - 1;
	struct deal d = { plan_queue(plan, PLAN_CREDIT, call->slots),
			  plan_queue(plan, PLAN_CREDIT, call->slots), plan_shift(plan, PLAN_WORLD, 0, 0, 0),
			  plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0) };
	plan_program(plan, PLAN_SM);
	uint8_t chunk = algo_chunk_loop(plan);
	deal_parts(plan, &d, chunk);
	pass_parts(plan, &d, chunk, n);
	plan_end(plan);
}
