/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small hierarchical all-reduce: every rank gets the vectors of its whole node and folds them, then the node's sum goes along
 * each rail, so that every rank folds the sums of all nodes for itself: no last phase inside the node. One exchange in the node and
 * one between nodes, or log2(nodes) of those; most bytes. All ranks of a node fold the same vectors in the same order, so a node's sum has
 * the same bits on all rails.
 * Source: as an idea, the "one-shot" all-reduce of algo_oneshot.c and the multi-lane schemes of Traff and Hunold,
 * "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_rounds.h"

struct small {
	struct plan *plan;
	uint8_t near, rail; /* queues */
	struct plan_span mine, result; /* result: the node's sum, too */
};

static struct small begin(const struct algo_call *call, struct plan *plan)
{
	struct small s = { .plan = plan, .near = plan_queue(plan, PLAN_PARITY, 2) };
	uint8_t chunk = algo_chunk_program(plan, PLAN_SM);
	s.mine = algo_vector(PLAN_SEND, chunk);
	s.result = algo_vector(PLAN_RECV, chunk);
	return s;
}

/* The fold of the node's vectors; nobody waits for room, as in algo_oneshot.c. */
static struct plan_step node_sum(const struct small *s)
{
	plan_step(s->plan, algo_with(algo_send(s->mine, PLAN_NODE, PLAN_EXPR_ALL, s->near), 0));
	return algo_fold(PLAN_NODE, PLAN_EXPR_ALL, s->near, s->mine, s->result);
}

/* Every rank has one peer on its rail at each other node, and that peer waits for its message too: double buffering suffices here as well. */
static void send_to_rail(struct small *s, struct plan_step fold)
{
	s->rail = plan_queue(s->plan, PLAN_PARITY, 2);
	plan_step(s->plan, algo_and_send(fold, PLAN_RAIL, PLAN_EXPR_ALL, s->rail));
}

/*
 * With nodes of several sizes a rank sends to all ranks whose rail it is on: a smaller node's rank to several of a larger
 * node, of which one sends to it.
 */
static void send_to_rails(struct small *s, const struct algo_call *call, struct plan_step fold)
{
	struct plan *plan = s->plan;
	s->rail = algo_queue(call, plan);
	plan_step(plan, fold);
	uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan));
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, 1);
	plan_step(plan,
		  algo_with(algo_send(s->result, PLAN_WORLD, algo_rank_at(plan, node, rail), s->rail), 0));
	algo_end(plan, 2);
}

void algo_hier_oneshot_all_reduce(const struct algo_call *call, struct plan *plan)
{
	struct small s = begin(call, plan);
	struct plan_step fold = node_sum(&s);
	if (algo_even_nodes(call))
		send_to_rail(&s, fold);
	else
		send_to_rails(&s, call, fold);
	plan_step(plan, algo_with(algo_fold(PLAN_RAIL, PLAN_EXPR_ALL, s.rail, s.result, s.result),
				  PLAN_REDUCE | PLAN_FINAL));
	plan_end(plan);
}

void algo_hier_oneshot_doubling_all_reduce(const struct algo_call *call, struct plan *plan)
{
	struct small s = begin(call, plan);
	s.rail = algo_queue(call, plan);
	plan_step(plan, node_sum(&s));
	algo_doubling_rounds(plan, &(struct algo_rounds){ .group = PLAN_RAIL,
							  .n = call->topo->map.nodes,
							  .queue = s.rail,
							  .local = s.result,
							  .acc = s.result,
							  .result = s.result });
	plan_end(plan);
}
