/* The algorithm table: a row is a choice that the planner can make and CORALE_ALGO can name. */
#include <string.h>

#include "algo_build.h"

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

/* A program never waits for more messages at a time than this. */
enum { MOST_PEERS_AT_ONCE = 1024 };

static int few_ranks(const struct algo_call *call)
{
	return several_ranks(call) && call->topo->map.ranks <= MOST_PEERS_AT_ONCE;
}

static int one_node(const struct algo_call *call)
{
	return few_ranks(call) && call->topo->map.nodes == 1;
}

/* Where each node has one rank the flat algorithms are the same thing with fewer steps. */
static int shared_nodes(const struct algo_call *call)
{
	return call->topo->map.max_node_size > 1 && call->topo->map.max_node_size <= MOST_PEERS_AT_ONCE;
}

static int several_nodes(const struct algo_call *call)
{
	return shared_nodes(call) && call->topo->map.nodes > 1;
}

/* A rank waits for its whole node, then for its whole rail. */
static int few_nodes(const struct algo_call *call)
{
	return several_nodes(call) && call->topo->map.nodes <= MOST_PEERS_AT_ONCE;
}

/* Where nodes differ a smaller one's rank would be on several rails, and get the result of each. */
static int even_nodes(const struct algo_call *call)
{
	return several_nodes(call) && algo_even_nodes(call);
}

static const struct algo table[] = {
	{ "local", CORALE_ALL_REDUCE, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_ALL_GATHER, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_REDUCE_SCATTER, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_BROADCAST, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_ALL_TO_ALL, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_ALL_TO_ALL_V, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_BARRIER, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_REDUCE, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_GATHER, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },
	{ "local", CORALE_SCATTER, ALGO_ALL_AT_ONCE, "", one_rank, algo_local },

	{ "oneshot", CORALE_ALL_REDUCE, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Johnsson and Ho 1989", few_ranks,
	  algo_oneshot_all_reduce },
	{ "twoshot", CORALE_ALL_REDUCE, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Rabenseifner 2004", few_ranks,
	  algo_twoshot_all_reduce },
	{ "ce", CORALE_ALL_REDUCE, ALGO_ALL_AT_ONCE | ALGO_FLAT | ALGO_BY_COPIES, "Rabenseifner 2004",
	  one_node, algo_ce_all_reduce },
	{ "ring", CORALE_ALL_REDUCE, ALGO_FLAT, "Patarasuk and Yuan 2009", several_ranks,
	  algo_ring_all_reduce },
	{ "doubling", CORALE_ALL_REDUCE, ALGO_FLAT, "Thakur et al. 2005", several_ranks,
	  algo_doubling_all_reduce },
	{ "halving", CORALE_ALL_REDUCE, ALGO_FLAT, "Thakur et al. 2005", several_ranks,
	  algo_halving_all_reduce },
	{ "hier_ring", CORALE_ALL_REDUCE, 0, "Traff and Hunold 2020", shared_nodes,
	  algo_hier_ring_all_reduce },
	{ "hier_doubling", CORALE_ALL_REDUCE, 0, "Traff and Hunold 2020", several_nodes,
	  algo_hier_doubling_all_reduce },
	{ "hier_halving", CORALE_ALL_REDUCE, 0, "Thakur et al. 2005", several_nodes,
	  algo_hier_halving_all_reduce },
	{ "hier_oneshot", CORALE_ALL_REDUCE, 0, "Traff and Hunold 2020", few_nodes,
	  algo_hier_oneshot_all_reduce },
	{ "hier_oneshot_doubling", CORALE_ALL_REDUCE, 0, "Traff and Hunold 2020", even_nodes,
	  algo_hier_oneshot_doubling_all_reduce },

	{ "oneshot", CORALE_ALL_GATHER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Johnsson and Ho 1989", several_ranks,
	  algo_oneshot_all_gather },
	{ "ring", CORALE_ALL_GATHER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Thakur et al. 2005", several_ranks,
	  algo_ring_all_gather },
	{ "hier", CORALE_ALL_GATHER, ALGO_ALL_AT_ONCE, "Kandalla et al. 2009", several_nodes,
	  algo_hier_all_gather },

	{ "oneshot", CORALE_REDUCE_SCATTER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Johnsson and Ho 1989", few_ranks,
	  algo_oneshot_reduce_scatter },
	{ "ce", CORALE_REDUCE_SCATTER, ALGO_ALL_AT_ONCE | ALGO_FLAT | ALGO_BY_COPIES | ALGO_ON_GPUS,
	  "Johnsson and Ho 1989", one_node, algo_ce_reduce_scatter },
	{ "ring", CORALE_REDUCE_SCATTER, ALGO_FLAT, "Patarasuk and Yuan 2009", several_ranks,
	  algo_ring_reduce_scatter },
	{ "hier", CORALE_REDUCE_SCATTER, 0, "Traff and Hunold 2020", several_nodes,
	  algo_hier_reduce_scatter },

	{ "flat", CORALE_BROADCAST, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", several_ranks, algo_flat_broadcast },
	{ "scatter", CORALE_BROADCAST, ALGO_ALL_AT_ONCE | ALGO_FLAT, "van de Geijn 1994", several_ranks,
	  algo_scatter_broadcast },
	{ "dealt", CORALE_BROADCAST, ALGO_ALL_AT_ONCE | ALGO_FLAT | ALGO_ON_GPUS, "van de Geijn 1994",
	  several_ranks, algo_dealt_broadcast },
	{ "chain", CORALE_BROADCAST, ALGO_ALL_AT_ONCE | ALGO_FLAT | ALGO_BY_COPIES | ALGO_ON_GPUS,
	  "Pjesivac-Grbovic et al. 2007", one_node, algo_chain_broadcast },
	{ "binomial", CORALE_BROADCAST, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Thakur et al. 2005", several_ranks,
	  algo_binomial_broadcast },
	{ "hier_chain", CORALE_BROADCAST, ALGO_ALL_AT_ONCE, "Traff and Hunold 2020", shared_nodes,
	  algo_hier_chain_broadcast },
	{ "hier_flat", CORALE_BROADCAST, ALGO_ALL_AT_ONCE, "Traff and Hunold 2020", several_nodes,
	  algo_hier_flat_broadcast },
	{ "hier_binomial", CORALE_BROADCAST, ALGO_ALL_AT_ONCE, "Traff and Hunold 2020", several_nodes,
	  algo_hier_binomial_broadcast },

	{ "oneshot", CORALE_REDUCE, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", few_ranks, algo_oneshot_reduce },
	{ "scatter", CORALE_REDUCE, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Rabenseifner 2004", few_ranks,
	  algo_scatter_reduce },
	{ "chain", CORALE_REDUCE, ALGO_FLAT, "Pjesivac-Grbovic et al. 2007", several_ranks,
	  algo_chain_reduce },
	{ "binomial", CORALE_REDUCE, ALGO_FLAT, "Thakur et al. 2005", several_ranks, algo_binomial_reduce },
	{ "hier_chain", CORALE_REDUCE, 0, "Traff and Hunold 2020", several_nodes, algo_hier_chain_reduce },
	{ "hier_binomial", CORALE_REDUCE, 0, "Traff and Hunold 2020", several_nodes,
	  algo_hier_binomial_reduce },

	{ "flat", CORALE_GATHER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", several_ranks, algo_flat_gather },
	{ "hier", CORALE_GATHER, ALGO_ALL_AT_ONCE, "Traff and Hunold 2020", several_nodes, algo_hier_gather },

	{ "flat", CORALE_SCATTER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", several_ranks, algo_flat_scatter },
	{ "hier", CORALE_SCATTER, ALGO_ALL_AT_ONCE, "Traff and Hunold 2020", several_nodes,
	  algo_hier_scatter },

	{ "pairwise", CORALE_ALL_TO_ALL, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Thakur et al. 2005", several_ranks,
	  algo_pairwise_all_to_all },
	{ "pairwise", CORALE_ALL_TO_ALL_V, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Thakur et al. 2005", several_ranks,
	  algo_pairwise_all_to_all_v },

	{ "edge", CORALE_SEND, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", any_ranks, algo_edge_send },
	{ "edge", CORALE_RECV, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", any_ranks, algo_edge_recv },

	{ "flat", CORALE_BARRIER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "", few_ranks, algo_flat_barrier },
	{ "doubling", CORALE_BARRIER, ALGO_ALL_AT_ONCE | ALGO_FLAT, "Hensgen et al. 1988", several_ranks,
	  algo_doubling_barrier },
};

const struct algo *algo_table(int *count)
{
	*count = (int)(sizeof(table) / sizeof(table[0]));
	return table;
}

int algo_row(corale_coll coll, const char *name)
{
	int rows;
	const struct algo *algo = algo_table(&rows);
	for (int row = 0; row < rows; row++)
		if (algo[row].coll == coll && !strcmp(algo[row].name, name))
			return row;
	return -1;
}
