/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical gathers: every rank of another node sends its block to the rank of the root's node on its rail, which passes
 * it on to the root; so all links of the root's node bring blocks. Where that node is smaller than others its ranks have
 * several rails each. In a chain blocks go from node to node on their rails instead, the nearest node's first: each rank talks to two other nodes, however many
 * there are.
 * Source: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication" (2020).
 */
#include "algo_build.h"

/* to: the node that it goes to from other nodes. */
static uint8_t send_own(const struct algo_rooted *g, uint8_t to)
{
	uint8_t chunk = algo_chunk_loop_if(g->plan, PLAN_NE, algo_me(g->plan), algo_root(g->plan));
	const struct plan_span own = algo_vector(PLAN_SEND, chunk);
	plan_step(g->plan, algo_if(algo_send(own, PLAN_WORLD, algo_root(g->plan), g->near), PLAN_EQ,
				   algo_node(g->plan), algo_root_node(g->plan)));
	plan_step(g->plan, algo_if(algo_send(own, PLAN_RAIL, to, g->rail), PLAN_NE, algo_node(g->plan),
				   algo_root_node(g->plan)));
	return chunk;
}

/* What comes along my rails: the root keeps it, others pass it on. */
static void pass_on(const struct algo_rooted *g)
{
	struct plan *plan = g->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, algo_node(plan), algo_root_node(plan));
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, -1);
	uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan)),
		owner = algo_rank_at(plan, node, rail);
	plan_step(plan, algo_if(algo_receive(PLAN_WORLD, owner, g->rail, algo_block(PLAN_RECV, owner, chunk)),
				PLAN_EQ, algo_me(plan), algo_root(plan)));
	const struct plan_step pass =
	    algo_and_send(algo_receive(PLAN_WORLD, owner, g->rail, algo_cell(plan, chunk)), PLAN_WORLD,
			  algo_root(plan), g->pass);
	plan_step(plan, algo_if(algo_with(pass, 0), PLAN_NE, algo_me(plan), algo_root(plan)));
	algo_end(plan, 3);
}

static void collect(const struct algo_rooted *g)
{
	struct plan *plan = g->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, algo_me(plan), algo_root(plan));
	plan_step(plan,
		  algo_copy(algo_vector(PLAN_SEND, chunk), algo_block(PLAN_RECV, algo_me(plan), chunk)));
	uint8_t peer = algo_peer_loop(plan, PLAN_NODE, -1), owner = algo_rank_at(plan, algo_node(plan), peer);
	plan_step(plan, algo_receive(PLAN_NODE, peer, g->near, algo_block(PLAN_RECV, owner, chunk)));
	plan_end(plan);
	uint8_t node = algo_peer_loop(plan, PLAN_RAIL, -1);
	int owned = algo_owned_loop(plan);
	peer = algo_peer_loop(plan, PLAN_NODE, -1);
	owner = algo_rank_at(plan, node, algo_part_of(plan, peer, owned));
	plan_step(plan, algo_receive(PLAN_NODE, peer, g->pass, algo_block(PLAN_RECV, owner, chunk)));
	algo_end(plan, 4);
}

/* Behind its own: the blocks of the nodes behind, which may have no rank on a rail. */
static void pass_along(const struct algo_rooted *g, uint8_t chunk, uint8_t previous, uint8_t next)
{
	struct plan *plan = g->plan;
	int k = plan_loop(plan, plan_base(plan, PLAN_POSITION, PLAN_RAIL, -1));
	uint8_t node = plan_shift(plan, PLAN_RAIL, k, -1, -1);
	algo_pass_along(g, node, chunk, previous, next);
	plan_end(plan);
}

/* What comes from the node before: the root keeps it, others pass it on. */
static void take_chain(const struct algo_rooted *g, uint8_t previous)
{
	struct plan *plan = g->plan;
	uint8_t chunk = algo_chunk_loop_if(plan, PLAN_EQ, algo_node(plan), algo_root_node(plan));
	for (int keeps = 0; keeps < 2; keeps++) {
		int k = plan_loop_if(plan, plan_base(plan, PLAN_SIZE, PLAN_RAIL, -1),
				     keeps ? PLAN_EQ : PLAN_NE, algo_me(plan), algo_root(plan));
		uint8_t rail = algo_part_of(plan, algo_self(plan), algo_owned_loop(plan));
		uint8_t owner = algo_rank_at(plan, plan_shift(plan, PLAN_RAIL, k, -1, -1), rail);
		struct plan_step step =
		    algo_receive(PLAN_RAIL, previous, g->rail,
				 keeps ? algo_block(PLAN_RECV, owner, chunk) : algo_cell(plan, chunk));
		if (!keeps)
			step = algo_and_send(algo_with(step, 0), PLAN_WORLD, algo_root(plan), g->pass);
		step.rail = rail;
		algo_if_owned(g, owner, &step);
		plan_step(plan, step);
		algo_end(plan, 2);
	}
	plan_end(plan);
}

void algo_hier_chain_gather(const struct algo_call *call, struct plan *plan)
{
	struct algo_rooted g = algo_rooted_begin(call, plan);
	uint8_t previous = plan_shift(plan, PLAN_RAIL, 0, 0, -1), next = plan_shift(plan, PLAN_RAIL, 0, 0, 1);
	plan_program(plan, PLAN_SM);
	pass_along(&g, send_own(&g, next), previous, next);
	plan_end(plan);
	plan_program(plan, PLAN_NET);
	take_chain(&g, previous);
	plan_program(plan, PLAN_SM);
	collect(&g);
}

void algo_hier_gather(const struct algo_call *call, struct plan *plan)
{
	struct algo_rooted g = algo_rooted_begin(call, plan);
	plan_program(plan, PLAN_SM);
	send_own(&g, algo_root_node(plan));
	plan_end(plan);
	plan_program(plan, PLAN_NET);
	pass_on(&g);
	plan_program(plan, PLAN_SM);
	collect(&g);
}
