/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairwise exchange: all_to_all and its v-form, in round k to rank me + k and from rank me - k. Edges of send and recv.
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
 */
#include "algo_build.h"
#include "base/collectives.h"

enum {
	EDGE_QUEUE = 3
}; /* its own, so that point-to-point messages never share a connection with a collective */

/* Chunks of the edge to or from peer: of each edge its own number in the v-form. */
static uint8_t edge_chunk_loop(struct plan *plan, int v, enum plan_base base, uint8_t peer)
{
	if (!v)
		return algo_chunk_loop(plan);
	uint8_t trips = plan_expr(plan, (struct plan_expr){ .base = (uint8_t)base, .a = peer });
	return plan_var(plan, plan_loop(plan, trips), 0);
}

void algo_pairwise_all_to_all(const struct algo_call *call, struct plan *plan)
{
	const int v = coll_is_uneven(call->key.coll);
	uint8_t queue = algo_queue(call, plan), me = algo_me(plan);
	plan_program(plan, PLAN_SM);
	uint8_t peer = algo_peer_loop(plan, PLAN_WORLD, 1);
	uint8_t chunk = edge_chunk_loop(plan, v, PLAN_SEND_CHUNKS, peer);
	plan_step(plan, algo_send(algo_block(PLAN_SEND, peer, chunk), PLAN_WORLD, peer, queue));
	algo_end(plan, 2);

	plan_program(plan, PLAN_SM);
	chunk = edge_chunk_loop(plan, v, PLAN_SEND_CHUNKS, me);
	plan_step(plan, algo_copy(algo_block(PLAN_SEND, me, chunk), algo_block(PLAN_RECV, me, chunk)));
	plan_end(plan);
	peer = algo_peer_loop(plan, PLAN_WORLD, -1);
	chunk = edge_chunk_loop(plan, v, PLAN_RECV_CHUNKS, peer);
	plan_step(plan, algo_receive(PLAN_WORLD, peer, queue, algo_block(PLAN_RECV, peer, chunk)));
	algo_end(plan, 2);
}

/* One program with the edge's queue. For send and recv the root of the call is the peer. */
void algo_p2p(const struct algo_call *call, struct plan *plan)
{
	for (int i = 0; i < EDGE_QUEUE; i++)
		plan_queue(plan, PLAN_CREDIT, 1);
	algo_queue(call, plan);
	const uint8_t chunk = algo_chunk_program(plan, PLAN_SM), peer = algo_root(plan);
	plan_step(plan, call->key.coll == CORALE_SEND
			    ? algo_send(algo_vector(PLAN_SEND, chunk), PLAN_WORLD, peer, EDGE_QUEUE)
			    : algo_receive(PLAN_WORLD, peer, EDGE_QUEUE, algo_vector(PLAN_RECV, chunk)));
	plan_end(plan);
}
