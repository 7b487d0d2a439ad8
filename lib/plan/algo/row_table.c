/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of rows, a family a file, and the conditions under which they apply. */
#include "algo_rounds.h"

/* ---- What an algorithm's plan can serve ------------------------------------------------------------------ */

static int several_ranks(const struct algo_call *call)
{
	return call->topo->map.ranks > 1;
}

static int any_ranks(const struct algo_call *call)
{
	return call->topo->map.ranks > 0;
}

static int one_rank(const struct algo_call *call)
{
	return call->topo->map.ranks == 1;
}

static int two_ranks(const struct algo_call *call)
{
	return call->topo->map.ranks == 2;
}

static int few_ranks(const struct algo_call *call)
{
	return several_ranks(call) && call->topo->map.ranks <= call->most_at_once;
}

static int few_more_ranks(const struct algo_call *call)
{
	return few_ranks(call) && !two_ranks(call);
}

/* Contributions of more ranks wait in cells, on hosts: where no sum on the way may take their place. */
static int few_ranks_or_in_order(const struct algo_call *call)
{
	return few_ranks(call) || (several_ranks(call) && call->reproducible && call->topo->shared_memory);
}

static int one_node(const struct algo_call *call)
{
	return few_ranks(call) && call->topo->map.nodes == 1;
}

/* Where each node has one rank the flat algorithms are the same thing with fewer steps. */
static int shared_nodes(const struct algo_call *call)
{
	return call->topo->map.max_node_size > 1 && call->topo->map.max_node_size <= call->most_at_once;
}

static int several_nodes(const struct algo_call *call)
{
	return shared_nodes(call) && call->topo->map.nodes > 1;
}

static int over_nodes(const struct algo_call *call)
{
	return call->topo->map.nodes > 1;
}

/* Half of all blocks fit a message: as many as one message of such a plan has at most (plan.h, struct plan_step; lower_room.c cuts slots so). */
static int half_fits(const struct algo_call *call)
{
	const size_t most = (size_t)(call->topo->map.ranks + 1) / 2;
	const size_t slot = call->slot_bytes / PLAN_CHUNK_GRAIN * PLAN_CHUNK_GRAIN;
	return several_ranks(call) && call->bytes <= slot / most;
}

/* Two ranks have messages of one block. */
static int half_fits_over_nodes(const struct algo_call *call)
{
	return call->topo->map.nodes > 1 && call->topo->map.ranks > 2 && half_fits(call);
}

/* Blocks of a node follow each other, and there are as many of each. A node's size is a stride of a plan's expression. */
static int half_fits_in_order(const struct algo_call *call)
{
	return several_nodes(call) && call->topo->in_order && algo_even_nodes(call) &&
	       call->topo->map.max_node_size <= INT8_MAX && half_fits(call);
}

/* A rank waits for its whole node, then for its whole rail. */
static int few_nodes(const struct algo_call *call)
{
	return several_nodes(call) && call->topo->map.nodes <= call->most_at_once;
}

/* Where nodes differ a smaller one's rank would be on several rails, and get the result of each. */
static int even_nodes(const struct algo_call *call)
{
	return several_nodes(call) && algo_even_nodes(call);
}

/* ---- The table ------------------------------------------------------------------------------------------- */

static const char signals_root[] = "the root waits for each part's first line, or for all of it";

static const struct row table[] = {
#include "rows_plain.def"
#include "rows_gpus.def"
};

const struct row *row_table(int *count)
{
	*count = (int)(sizeof(table) / sizeof(table[0]));
	return table;
}
