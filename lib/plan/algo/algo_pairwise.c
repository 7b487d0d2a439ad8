/*
 * Pairwise exchange: all_to_all and its v-form, in round k to rank me + k and from rank me - k. Edges of send and recv.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include "algo_build.h"

enum { EDGE_QUEUE = 3 }; /* its own, so that point-to-point messages never share a lane with a collective */

/* Chunks of the edge to or from peer: of each edge its own number in the v-form. */
static uint8_t edge_chunk_loop(struct plan *plan, int v, enum plan_base base, uint8_t peer)
{
	if (!v)
		return algo_chunk_loop(plan);
	uint8_t trips = plan_expr(plan, (struct plan_expr){ .base = (uint8_t)base, .a = peer });
	return plan_var(plan, plan_loop(plan, trips), 0);
}

static void build(const struct algo_call *call, struct plan *plan, int v)
{
	uint8_t queue = plan_queue(plan, PLAN_CREDIT, call->slots);
	uint8_t me = plan_shift(plan, PLAN_WORLD, 0, 0, 0);
	plan_program(plan, PLAN_SM);
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	uint8_t chunk = edge_chunk_loop(plan, v, PLAN_SEND_CHUNKS, peer);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_STABLE,
					    .src = { PLAN_SEND, .block = peer, .chunk = chunk },
					    .to = peer,
					    .to_queue = queue });
	plan_end(plan);
	plan_end(plan);

	plan_program(plan, PLAN_SM);
	chunk = edge_chunk_loop(plan, v, PLAN_SEND_CHUNKS, me);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .src = { PLAN_SEND, .block = me, .chunk = chunk },
					    .dst = { PLAN_RECV, .block = me, .chunk = chunk } });
	plan_end(plan);
	peer = algo_peer_loop(plan, PLAN_WORLD, -1);
	chunk = edge_chunk_loop(plan, v, PLAN_RECV_CHUNKS, peer);
	plan_step(plan, (struct plan_step){ .op = PLAN_MOVE,
					    .flags = PLAN_FRESH,
					    .from = peer,
					    .from_queue = queue,
					    .dst = { PLAN_RECV, .block = peer, .chunk = chunk } });
	plan_end(plan);
	plan_end(plan);
}

void algo_pairwise_all_to_all(const struct algo_call *call, struct plan *plan)
{
	build(call, plan, 0);
}

void algo_pairwise_all_to_all_v(const struct algo_call *call, struct plan *plan)
{
	build(call, plan, 1);
}

static struct plan_step edge_step(const struct algo_call *call, struct plan *plan)
{
	for (int i = 0; i < EDGE_QUEUE; i++)
		plan_queue(plan, PLAN_CREDIT, 1);
	plan_queue(plan, PLAN_CREDIT, call->slots);
	plan_program(plan, PLAN_SM);
	return (struct plan_step){ .op = PLAN_MOVE, .to_queue = EDGE_QUEUE, .from_queue = EDGE_QUEUE };
}

/* For send and recv the root of the call is the peer. */
void algo_p2p_send(const struct algo_call *call, struct plan *plan)
{
	struct plan_step step = edge_step(call, plan);
	step.flags = PLAN_STABLE;
	step.src = (struct plan_span){ PLAN_SEND, .chunk = algo_chunk_loop(plan) };
	step.to = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	plan_step(plan, step);
	plan_end(plan);
}

void algo_p2p_recv(const struct algo_call *call, struct plan *plan)
{
	struct plan_step step = edge_step(call, plan);
	step.flags = PLAN_FRESH;
	step.dst = (struct plan_span){ PLAN_RECV, .chunk = algo_chunk_loop(plan) };
	step.from = plan_base(plan, PLAN_ROOT, PLAN_WORLD, 0);
	plan_step(plan, step);
	plan_end(plan);
}
