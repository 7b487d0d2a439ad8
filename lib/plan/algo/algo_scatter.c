/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat scatter: the root sends each rank its block straight; one step, as few bytes as there can be.
 * Source: the linear scatter of Chan et al., "Collective communication: theory, practice, and experience" (2007).
 */
#include "algo_build.h"

void algo_flat_scatter(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), me = algo_me(plan), root = algo_root(plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, 1, me, root);
	plan_step(plan, algo_send(algo_block(PLAN_SEND, peer, chunk), PLAN_WORLD, peer, queue));
	plan_end(plan);
	const struct plan_span own = algo_vector(PLAN_RECV, chunk);
	plan_step(plan, algo_if(algo_copy(algo_block(PLAN_SEND, me, chunk), own), PLAN_EQ, me, root));
	plan_step(plan, algo_if(algo_receive(PLAN_WORLD, root, queue, own), PLAN_NE, me, root));
	plan_end(plan);
}
