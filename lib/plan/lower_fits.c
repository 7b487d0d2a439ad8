/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks' lists have in common: whether engines have room for them, and how many messages their queues carry. */
#include "corale.h"
#include "lower.h"

/* Of other nodes; as soon as they are more than most, most + 1. */
static int count_far(const struct lowered *list, const struct plan_map *map, int rank, int most)
{
	int n = 0;
	for (int i = 0; i < list->npeers && n <= most; i++) {
		const int peer = list->peers[i].rank;
		int before = map->node_of[peer] == map->node_of[rank];
		for (int k = 0; k < i && !before; k++)
			before = list->peers[k].rank == peer;
		n += !before;
	}
	return n;
}

static int fits_rank(const struct plan *plan, const struct plan_map *map, int rank)
{
	const int most = LOWERED_MOST_RANKS - plan_group_size(map, PLAN_NODE, rank);
	struct lowered list;
	const char *why;
	int fits = !lower_within(plan, map, rank, 0, 1, LOWERED_MOST_OPS, &list, &why);
	fits = fits && count_far(&list, map, rank, most) <= most;
	lowered_free(&list);
	return fits;
}

/* Nodes of one size, whose ranks follow each other: the circles of all ranks are the same, seen from elsewhere. */
static int is_even(const struct plan_map *map)
{
	for (int i = 0; i < map->ranks; i++)
		if (map->member[i] != i)
			return 0;
	return map->ranks == map->nodes * map->max_node_size;
}

/* Of such nodes and their ranks first, second and last are looked at. The first has the root. */
static int is_sample(int i, int n)
{
	return i < 2 || i == n - 1;
}

static int fits_node(const struct plan *plan, const struct plan_map *map, int node, int even)
{
	const int first = map->node_first[node], n = map->node_first[node + 1] - first;
	int fits = 1;
	for (int r = 0; fits && r < n; r++)
		if (!even || is_sample(r, n))
			fits = fits_rank(plan, map, map->member[first + r]);
	return fits;
}

int lower_fits(const struct plan *plan, const struct plan_map *map)
{
	enum { NODES = 16 };
	const int even = is_even(map), step = even || map->nodes <= NODES ? 1 : map->nodes / NODES;
	int fits = 1;
	for (int node = 0; fits && node < map->nodes; node += step)
		if (!even || is_sample(node, map->nodes))
			fits = fits_node(plan, map, node, even);
	return fits;
}

/* Adds what one rank sends; 0 if it sends tokens to itself. */
static int add_messages(const struct lowered *list, int rank, uint16_t most[PLAN_MAX_QUEUES])
{
	for (int i = 0; i < list->nops; i++) {
		const struct lowered_op *op = &list->ops[i];
		for (int k = 0; k < op->to_count; k++) {
			const struct lowered_peer *to = &list->peers[op->to_first + k];
			if (to->rank == rank)
				return 0;
			if (to->number >= most[op->to_queue])
				most[op->to_queue] = (uint16_t)(to->number + 1);
		}
	}
	return 1;
}

static int receives_from(const struct lowered *list, int rank)
{
	for (int i = 0; i < list->nops; i++)
		for (int k = 0; k < list->ops[i].from_count; k++)
			if (list->peers[list->ops[i].from_first + k].rank == rank)
				return 1;
	return 0;
}

int lowered_receives_from_all(const struct lowered *lowered, int rank, int ranks)
{
	int all = 1;
	for (int from = 0; all && from < ranks; from++)
		all = from == rank || receives_from(lowered, from);
	return all;
}

int lower_messages(const struct plan *plan, const struct plan_map *map, int root,
		   struct lowered_messages *out)
{
	struct lowered list;
	const char *why;
	int ret = 0;
	*out = (struct lowered_messages){ .all_receive_from_all = 1 };
	for (int r = 0; !ret && r < map->ranks; r++) {
		ret = lower_plan(plan, map, r, root, &list, &why);
		if (!ret && !add_messages(&list, r, out->most))
			ret = CORALE_ENOTSUP;
		out->all_receive_from_all =
		    !ret && out->all_receive_from_all && lowered_receives_from_all(&list, r, map->ranks);
		lowered_free(&list); /* also after an error: then it is empty */
	}
	return ret;
}
