/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat gather: every rank sends its block to the root's buffer; one step, as few bytes as there can be.
 * Source: the linear gather of Chan et al., "Collective communication: theory, practice, and experience" (2007).
 */
#include "algo_build.h"

void algo_flat_gather(const struct algo_call *call, struct plan *plan)
{
	uint8_t queue = algo_queue(call, plan), me = algo_me(plan), root = algo_root(plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	const struct plan_span own = algo_vector(PLAN_SEND, chunk);
	plan_step(plan, algo_if(algo_send(own, PLAN_WORLD, root, queue), PLAN_NE, me, root));
	plan_step(plan, algo_if(algo_copy(own, algo_block(PLAN_RECV, me, chunk)), PLAN_EQ, me, root));
	uint8_t peer = algo_root_loop(plan, PLAN_WORLD, -1, me, root);
	plan_step(plan, algo_receive(PLAN_WORLD, peer, queue, algo_block(PLAN_RECV, peer, chunk)));
	algo_end(plan, 2);
}
