/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts that ignore nodes: the root sends to all (one write where memory is shared); or it scatters parts,
 * which then travel around a ring; or it scatters parts to the others, each of which sends its part to all others at once.
 * Source: van de Geijn, "On global combine operations" (1994), for scatter and all-gather.
 */
#include "algo_build.h"

void algo_flat_broadcast(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), me = algo_me(plan), root = algo_root(plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	const struct plan_span all = algo_vector(PLAN_RECV, chunk);
	struct plan_step send = algo_send(algo_vector(PLAN_SEND, chunk), PLAN_WORLD, PLAN_EXPR_ALL, queue);
	send.dst = all;
	plan_step(plan, algo_if(send, PLAN_EQ, me, root));
	plan_step(plan, algo_if(algo_receive(PLAN_WORLD, root, queue, all), PLAN_NE, me, root));
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
	plan_step(plan, algo_send(algo_part(PLAN_SEND, peer, chunk), PLAN_WORLD, peer, s->scatter));
	plan_end(plan);
	const struct plan_span mine = algo_part(PLAN_RECV, s->me, chunk);
	struct plan_step own = algo_send(algo_part(PLAN_SEND, s->me, chunk), PLAN_WORLD, s->next, s->gather);
	own.dst = mine;
	plan_step(plan, algo_if(own, PLAN_EQ, s->me, s->root));
	own = algo_and_send(algo_receive(PLAN_WORLD, s->root, s->scatter, mine), PLAN_WORLD, s->next,
			    s->gather);
	plan_step(plan, algo_if(algo_with(own, PLAN_STABLE | PLAN_FRESH), PLAN_NE, s->me, s->root));
}

/* Part me - 1, me - 2, ... come by; all but the last travel on. The root's buffer holds them already when it is used
 * in place, so only the others' parts may land early. */
static void gather_parts(struct plan *plan, const struct scatter *s, uint8_t chunk, int n)
{
	int k = plan_loop(plan, plan_const(plan, n - 2));
	for (int last = 0; last < 2; last++) {
		uint8_t part = last ? s->next : plan_shift(plan, PLAN_WORLD, k, -1, -1);
		uint8_t stable = last ? 0 : PLAN_STABLE;
		struct plan_step step =
		    algo_receive(PLAN_WORLD, s->previous, s->gather, algo_part(PLAN_RECV, part, chunk));
		if (!last)
			step = algo_and_send(step, PLAN_WORLD, s->next, s->gather);
		plan_step(plan, algo_if(algo_with(step, stable), PLAN_EQ, s->me, s->root));
		plan_step(plan, algo_if(algo_with(step, stable | PLAN_FRESH), PLAN_NE, s->me, s->root));
		if (!last)
			plan_end(plan);
	}
}

void algo_scatter_broadcast(const struct algo_call *call, struct plan *plan)
{
	int n = plan->parts = call->topo->map.ranks;
	const struct scatter s = { .scatter = algo_queue(call, plan),
				   .gather = algo_queue(call, plan),
				   .me = algo_me(plan),
				   .next = plan_shift(plan, PLAN_WORLD, 0, 0, 1),
				   .previous = plan_shift(plan, PLAN_WORLD, 0, 0, -1),
				   .root = algo_root(plan) };
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	scatter_parts(plan, &s, chunk);
	gather_parts(plan, &s, chunk, n);
	plan_end(plan);
}

/* Parts are of the others, in rank order. The root has none: its copies of what it scatters would only add to what the others receive. So no step of the second loop on is left for it. */
void algo_scatter_allgather_broadcast(const struct algo_call *call, struct plan *plan)
{
	int n = call->topo->map.ranks;
	plan->parts = n - 1;
	const uint8_t scatter = algo_queue(call, plan), gather = algo_queue(call, plan), me = algo_me(plan),
		      root = algo_root(plan), mine = plan_term(plan, PLAN_OTHERS, PLAN_WORLD, 0, 0, 0);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	int k = plan_loop_if(plan, plan_const(plan, n - 1), PLAN_EQ, me, root);
	uint8_t to = plan_shift(plan, PLAN_WORLD, k, 1, 1),
		part = plan_term(plan, PLAN_OTHERS, PLAN_WORLD, k, 1, 1);
	struct plan_step send = algo_send(algo_part(PLAN_SEND, part, chunk), PLAN_WORLD, to, scatter);
	send.dst = algo_part(PLAN_RECV, part, chunk);
	plan_step(plan, send);
	plan_end(plan);

	const struct plan_span own = algo_part(PLAN_RECV, mine, chunk);
	plan_step(plan, algo_with(algo_receive(PLAN_WORLD, root, scatter, own), PLAN_FRESH | PLAN_STABLE));
	plan_loop(plan, plan_const(plan, n - 1));
	plan_step(plan, algo_if(algo_send(own, PLAN_WORLD, to, gather), PLAN_NE, to, root));
	plan_end(plan);
	plan_loop_if(plan, plan_const(plan, n - 1), PLAN_NE, me, root);
	plan_step(plan, algo_receive(PLAN_WORLD, plan_shift(plan, PLAN_WORLD, k, -1, -1), gather,
				     algo_part(PLAN_RECV, plan_term(plan, PLAN_OTHERS, PLAN_WORLD, k, -1, -1),
					       chunk)));
	algo_end(plan, 2);
}
