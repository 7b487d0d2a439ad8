/* SPDX-License-Identifier: BSD-3-Clause */
/* The maps between ranks, nodes and local ranks. Rates between nodes as text: topo_rails.c. */
#include <stdlib.h>

#include "corale.h"
#include "rates.h"
#include "topo.h"

struct place {
	uint64_t node_id;
	int rank;
};

static int by_node_then_rank(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->node_id != y->node_id)
		return x->node_id < y->node_id ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* first_of[r]: the lowest rank on r's node. */
static int find_first_of(int ranks, const uint64_t *node_id, int *first_of)
{
	struct place *places = malloc((size_t)ranks * sizeof(*places));
	if (!places)
		return CORALE_ENOMEM;
	for (int r = 0; r < ranks; r++)
		places[r] = (struct place){ node_id[r], r };
	qsort(places, (size_t)ranks, sizeof(*places), by_node_then_rank);
	for (int i = 0, first = 0; i < ranks; i++) {
		if (places[i].node_id != places[first].node_id)
			first = i;
		first_of[places[i].rank] = places[first].rank;
	}
	free(places);
	return 0;
}

/* Numbers the nodes by their lowest rank; node_first collects the sizes, one entry late, and then adds up. */
static void fill_maps(struct topo *topo, int ranks, const int *first_of)
{
	int nodes = 0;
	for (int r = 0; r < ranks; r++) {
		topo->node_of[r] = first_of[r] == r ? nodes++ : topo->node_of[first_of[r]];
		topo->local_of[r] = topo->node_first[topo->node_of[r] + 1]++;
	}
	int largest = 0;
	for (int b = 0; b < nodes; b++) {
		largest = topo->node_first[b + 1] > largest ? topo->node_first[b + 1] : largest;
		topo->node_first[b + 1] += topo->node_first[b];
	}
	for (int r = 0; r < ranks; r++)
		topo->member[topo->node_first[topo->node_of[r]] + topo->local_of[r]] = r;
	topo->map =
	    (struct plan_map){ ranks,       nodes, largest, topo->node_of, topo->local_of, topo->node_first,
			       topo->member };
}

static int find_smallest(const struct plan_map *map)
{
	int smallest = 0;
	for (int b = 1; b < map->nodes; b++)
		if (map->node_first[b + 1] - map->node_first[b] <
		    map->node_first[smallest + 1] - map->node_first[smallest])
			smallest = b;
	return map->member[map->node_first[smallest]];
}

static void describe_map(struct topo *topo)
{
	const struct plan_map *map = &topo->map;
	topo->in_smallest = find_smallest(map);
	topo->in_order = 1;
	topo->crossing = 0;
	for (int r = 0; r < map->ranks; r++) {
		topo->in_order &= map->member[r] == r;
		topo->crossing +=
		    map->node_of[r] != map->node_of[(r + 1) % map->ranks] ? 1.0 / map->ranks : 0;
	}
}

static void set_links(struct topo *topo, const struct rates_links *links)
{
	topo->node = (struct topo_link){ .latency_ns = links->node_ns,
					 .bytes_per_ns = links->node_gbs,
					 .recv_ns = links->step_ns / 4 };
	topo->rail = (struct topo_link){ .latency_ns = links->rail_ns,
					 .bytes_per_ns = links->rail_gbs,
					 .send_ns = links->send_ns,
					 .recv_ns = links->recv_ns };
	topo->reduce_bytes_per_ns = links->reduce_gbs;
	topo->step_ns = links->step_ns;
	topo->fused_step_ns = links->fused_step_ns;
	topo->turn_ns = links->turn_ns;
	topo->net_bytes_per_ns = links->net_gbs;
}

void topo_set_hosts(struct topo *topo, const struct rates_links *links)
{
	set_links(topo, links);
}

int topo_create(int ranks, const uint64_t *node_id, struct topo **out)
{
	if (ranks < 1)
		return CORALE_EINVAL;
	size_t n = (size_t)ranks;
	int ret = CORALE_ENOMEM;
	struct topo *topo = calloc(1, sizeof(*topo));
	if (!topo)
		return ret;
	topo->node_of = calloc(4 * n + 1, sizeof(int));
	int *first_of = malloc(n * sizeof(int));
	if (!topo->node_of || !first_of)
		goto free_all;
	topo->local_of = topo->node_of + n;
	topo->member = topo->local_of + n;
	topo->node_first = topo->member + n;
	ret = find_first_of(ranks, node_id, first_of);
	if (ret)
		goto free_all;
	fill_maps(topo, ranks, first_of);
	describe_map(topo);
	topo_set_hosts(topo, rates_of_hosts());
	topo->shared_memory = 1;
	topo->cores_per_rank_x16 = 16;
	free(first_of);
	*out = topo;
	return 0;
free_all:
	free(first_of);
	topo_destroy(topo);
	return ret;
}

void topo_set_gpus(struct topo *topo, const struct rates *rates)
{
	set_links(topo, &rates->links);
	topo->reference_bytes = 0;
	topo->shared_memory = 0;
	topo->proxied = 1;
	/* Blocks of a kernel, not threads of a process: each has its own steps and waits, all have one memory and link (cost.h). */
	topo->cores_per_rank_x16 = 16 * PLAN_MAX_PROGRAMS * UINT8_MAX;
}

void topo_destroy(struct topo *topo)
{
	if (!topo)
		return;
	free(topo->node_of);
	free(topo);
}
