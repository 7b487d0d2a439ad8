/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of messages that fold among the ranks of a group: builders that flat and hierarchical algorithms share. */
#ifndef ALGO_ROUNDS_H
#define ALGO_ROUNDS_H

#include "algo_build.h"

/*
 * One all-reduce among the ranks of a group, for a span that is cut into pieces, or one reduce to the member with the root's index: local holds this rank's
 * contribution, acc its partial sums (may be local), result the outcome. rail: as in struct plan_step.
 */
struct algo_rounds {
	enum plan_group group;
	int n; /* size of group, >= 2 */
	uint8_t rail, queue;
	struct plan_span local, acc, result;
	int inner; /* the pieces of a ring are inner pieces, not parts */
	uint8_t
	    give; /* of a reduce on a rail: the queue by which another rank of the root's node gives it the result */
};

algo_rounds_build algo_ring_rounds, algo_doubling_rounds, algo_halving_rounds, algo_chain_sums,
    algo_binomial_sums;

/* A move from and to the group, on its ring, of and to nobody yet. */
static inline struct plan_step algo_rounds_step(const struct algo_rounds *rounds)
{
	return (struct plan_step){ .op = PLAN_MOVE,
				   .from_group = (uint8_t)rounds->group,
				   .to_group = (uint8_t)rounds->group,
				   .from_queue = rounds->queue,
				   .to_queue = rounds->queue,
				   .rail = rounds->rail };
}

/* The end where n is no power of two: a rank that handed its data over gets the result. */
void algo_give_back(struct plan *plan, const struct algo_rounds *rounds);

/*
 * Such rounds among all ranks, for the whole vector. Partial sums stay in scratch until the last message has come: only a rank that has messages
 * of matching calls alone sends it, so of calls that differ nothing is written into the receive buffer.
 */
static inline void algo_flat_rounds(const struct algo_call *call, struct plan *plan,
				    algo_rounds_build *rounds)
{
	uint8_t queue = algo_queue(call, plan);
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	rounds(plan, &(struct algo_rounds){ .group = PLAN_WORLD,
					    .n = call->topo->map.ranks,
					    .queue = queue,
					    .local = algo_vector(PLAN_SEND, chunk),
					    .acc = algo_cell(plan, chunk),
					    .result = algo_vector(PLAN_RECV, chunk) });
	plan_end(plan);
}

/* The last fold, of whom step says and its src: the root writes the result. */
static inline void algo_sums_end(struct plan *plan, const struct algo_rounds *sums, struct plan_step step)
{
	step.flags = PLAN_REDUCE | PLAN_FINAL;
	step.dst = sums->result;
	if (sums->group == PLAN_RAIL) {
		step = algo_if(step, PLAN_EQ, algo_me(plan), algo_root(plan));
		plan_step(plan, step);
		step.pred = PLAN_NE;
		step.dst = (struct plan_span){ 0 };
		step = algo_and_send(step, PLAN_NODE, plan_base(plan, PLAN_ROOT, PLAN_NODE, 0), sums->give);
	}
	plan_step(plan, step);
}

#endif
