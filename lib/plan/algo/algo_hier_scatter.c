/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical scatters: the root gives the blocks of other nodes to the ranks of its node, each of which sends along its
 * rail what the ranks on it are to have; so all links of the root's node carry blocks. Where that node is smaller than
 * others its ranks have several rails each. In a chain blocks go from node to node on their rails instead, the farthest node's first: each rank talks to two other
 * nodes, however many there are.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

static struct plan_step send(enum plan_group group, uint8_t peer, uint8_t queue, uint8_t block, uint8_t chunk)
{
	return algo_send(algo_block(PLAN_SEND, block, chunk), group, peer, queue);
}

/* Blocks of other nodes first: along my own rails, and to the ranks that pass them on along theirs. next: the node of a chain that it goes to; none: its own. */
static void spread(const struct algo_rooted *s, uint8_t next)
{
	struct plan *plan = s->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, algo_me(plan), algo_root(plan)),
		node = algo_peer_loop(plan, PLAN_RAIL, 1);
	int owned = algo_owned_loop(plan);
	uint8_t rail = algo_part_of(plan, algo_self(plan), owned), owner = algo_rank_at(plan, node, rail);
	struct plan_step far = send(PLAN_WORLD, owner, s->rail, owner, chunk);
	if (next) {
		far = algo_and_send(far, PLAN_RAIL, next, s->rail);
		far.rail = rail;
	}
	plan_step(plan, far);
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, 1);
	owner = algo_rank_at(plan, node, algo_part_of(plan, peer, owned));
	plan_step(plan, send(PLAN_NODE, peer, s->pass, owner, chunk));
	algo_end(plan, 3);
	peer = algo_peer_loop(plan, PLAN_NODE, 1);
	plan_step(plan, send(PLAN_NODE, peer, s->near, algo_rank_at(plan, algo_node(plan), peer), chunk));
	plan_end(plan);
	plan_step(plan,
		  algo_copy(algo_block(PLAN_SEND, algo_me(plan), chunk), algo_vector(PLAN_RECV, chunk)));
	plan_end(plan);
}

static void pass_on(const struct algo_rooted *s, uint8_t next)
{
	struct plan *plan = s->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, algo_node(plan), algo_root_node(plan));
	int k = plan_loop_if(plan, plan_base(plan, PLAN_SIZE, PLAN_RAIL, -1), PLAN_NE, algo_me(plan),
			     algo_root(plan));
	uint8_t node = plan_shift(plan, PLAN_RAIL, k, 1, 1);
	uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan)),
		owner = algo_rank_at(plan, node, rail);
	struct plan_step step =
	    algo_and_send(algo_with(algo_receive(PLAN_NODE, plan_base(plan, PLAN_ROOT, PLAN_NODE, 0), s->pass,
						 algo_cell(plan, chunk)),
				    0),
			  PLAN_WORLD, owner, s->rail);
	if (next) {
		step = algo_and_send(step, PLAN_RAIL, next, s->rail);
		step.rail = rail;
		algo_if_owned(s, owner, &step);
	}
	plan_step(plan, step);
	algo_end(plan, 3);
}

/* In a chain before its own: the blocks of the nodes behind, which may have no rank on a rail. */
static void pass_along(const struct algo_rooted *s, uint8_t chunk, uint8_t previous, uint8_t next)
{
	struct plan *plan = s->plan;
	int k = plan_loop(plan, plan_base(plan, PLAN_POSITION, PLAN_RAIL, -1));
	uint8_t node = plan_expr(plan, (struct plan_expr){ .base = PLAN_ROOT,
							   .group = PLAN_RAIL,
							   .var = (uint8_t)k,
							   .stride = 1,
							   .offset = 1,
							   .wrap = 1 });
	algo_pass_along(s, node, chunk, previous, next);
	plan_end(plan);
}

/* previous, next: in a chain, the nodes that blocks come from and go to. */
static void receive_own(const struct algo_rooted *s, uint8_t previous, uint8_t next)
{
	uint8_t chunk = algo_chunk_loop_if(s->plan, PLAN_NE, algo_me(s->plan), algo_root(s->plan));
	if (next)
		pass_along(s, chunk, previous, next);
	const struct plan_span own = algo_vector(PLAN_RECV, chunk);
	plan_step(s->plan, algo_if(algo_receive(PLAN_WORLD, algo_root(s->plan), s->near, own), PLAN_EQ,
				   algo_node(s->plan), algo_root_node(s->plan)));
	plan_step(s->plan,
		  algo_if(algo_receive(PLAN_RAIL, next ? previous : algo_root_node(s->plan), s->rail, own),
			  PLAN_NE, algo_node(s->plan), algo_root_node(s->plan)));
	plan_end(s->plan);
}

void algo_hier_scatter(const struct algo_call *call, struct plan *plan)
{
	const int is_chain = call->row->between == ALGO_CHAIN;
	const struct algo_rooted s = algo_rooted_begin(call, plan);
	const uint8_t previous = is_chain ? plan_shift(plan, PLAN_RAIL, 0, 0, 1) : PLAN_EXPR_NONE,
		      next = is_chain ? plan_shift(plan, PLAN_RAIL, 0, 0, -1) : PLAN_EXPR_NONE;
	plan_program(plan, PLAN_SM);
	spread(&s, next);
	plan_program(plan, PLAN_NET);
	pass_on(&s, next);
	plan_program(plan, PLAN_SM);
	receive_own(&s, previous, next);
}
