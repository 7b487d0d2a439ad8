#include "lanes.h"

#include <stdlib.h>
#include <string.h>

#include "corale.h"

enum {
	EIGHTHS_OF_PAIRS = 3,
	EIGHTHS_OF_NARROW = 1,
	EIGHTHS_OF_PLANS = 4,
	RINGS_OF_PLANS = 2, /* that a plan uses between nodes; few use more */
	DEPTH = 4,
	SHALLOW = 2,
	ENOUGH_SHALLOW = 128 << 10, /* bytes of slots of which two are enough */
	WANTED = 16 << 10,
	MOST = 512 << 10,
	LEAST = REMOTE_LINE,
	GRAIN = 512 /* of plans' chunks */
};

static size_t share(enum remote_use use, size_t cap)
{
	const size_t eighths[] = { [REMOTE_OF_PLANS] = EIGHTHS_OF_PLANS,
				   [REMOTE_OF_NARROW_PLANS] = EIGHTHS_OF_NARROW,
				   [REMOTE_OF_PAIRS] = EIGHTHS_OF_PAIRS };
	return (cap - REMOTE_LINE) / 8 * eighths[use];
}

/* The largest slots of which so many ends have room. */
static struct remote_slots cut(size_t bytes, size_t ends, uint32_t depth, size_t grain)
{
	const size_t end = bytes / ends, heads = REMOTE_LINE * ((size_t)depth + 1);
	size_t slot = end > heads ? (end - heads) / depth / grain * grain : 0;
	slot = slot > MOST ? MOST : slot;
	return (struct remote_slots){ (uint32_t)(slot > LEAST ? slot : LEAST), depth };
}

static int log2_up(int n)
{
	int bits = 0;
	while (1 << bits < n)
		bits++;
	return bits;
}

/* Ranks elsewhere that a rank of a ring, a tree or an exchange by doubling talks to, in both directions. */
static size_t few_peers(int peers, int nodes)
{
	const int few = nodes > 2 ? 2 * log2_up(nodes) : 2;
	return (size_t)(peers < few ? peers : few);
}

static struct remote_slots slots_of_plans(size_t bytes, size_t peers)
{
	const size_t ends = 2 * peers * REMOTE_CHANNELS * RINGS_OF_PLANS;
	const struct remote_slots shallow = cut(bytes, ends, SHALLOW, GRAIN);
	return shallow.bytes >= ENOUGH_SHALLOW ? shallow : cut(bytes, ends, DEPTH, GRAIN);
}

static struct remote_slots slots_of_pairs(size_t bytes, size_t peers, uint32_t *channels)
{
	struct remote_slots slots;
	for (*channels = REMOTE_CHANNELS;; *channels /= 2) {
		slots = cut(bytes, 2 * peers * *channels, DEPTH, REMOTE_LINE);
		if (slots.bytes >= WANTED)
			return slots;
		if (*channels == 1)
			return cut(bytes, 2 * peers, SHALLOW, REMOTE_LINE);
	}
}

struct remote lanes_shape(int peers, int nodes, size_t cap)
{
	struct remote r = { .peers = peers };
	const size_t all = (size_t)peers, far = all < LANES_FAR ? all : LANES_FAR;
	r.slots[REMOTE_OF_PLANS] = slots_of_plans(share(REMOTE_OF_PLANS, cap), few_peers(peers, nodes));
	r.slots[REMOTE_OF_NARROW_PLANS] =
	    cut(share(REMOTE_OF_NARROW_PLANS, cap), 2 * far * PLAN_MAX_RINGS, SHALLOW, GRAIN);
	r.slots[REMOTE_OF_PAIRS] = slots_of_pairs(share(REMOTE_OF_PAIRS, cap), all, &r.pair_channels);
	return r;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t lanes_bytes(const struct remote *r, size_t cap)
{
	const size_t peers = 2 * (size_t)r->peers; /* in both directions */
	size_t bytes = REMOTE_LINE;
	bytes += least(share(REMOTE_OF_PLANS, cap), peers * REMOTE_CHANNELS * PLAN_MAX_RINGS *
							remote_end_bytes(&r->slots[REMOTE_OF_PLANS]));
	bytes += least(share(REMOTE_OF_NARROW_PLANS, cap),
		       peers * PLAN_MAX_RINGS * remote_end_bytes(&r->slots[REMOTE_OF_NARROW_PLANS]));
	return bytes + peers * r->pair_channels * remote_end_bytes(&r->slots[REMOTE_OF_PAIRS]);
}

/* ---- What plans use ------------------------------------------------------------------------------------- */

int lanes_account_open(struct lanes_account *a, const struct remote *shape, enum remote_use use, size_t cap,
		       const struct plan_map *map)
{
	*a = (struct lanes_account){ .shape = *shape, .use = use, .bytes = share(use, cap), .map = map };
	for (int node = 0; node < map->nodes; node++) {
		const int peers = map->ranks - (map->node_first[node + 1] - map->node_first[node]);
		a->peers = peers > a->peers ? peers : a->peers;
	}
	a->distances = calloc((size_t)map->ranks, sizeof *a->distances);
	return a->distances ? 0 : CORALE_ENOMEM;
}

void lanes_account_close(struct lanes_account *a)
{
	free(a->distances);
	a->distances = NULL;
}

static uint32_t lanes_of(int ring, int channels)
{
	uint32_t lanes = 0;
	for (int channel = 0; channel < channels; channel++)
		lanes |= 1u << (channel * PLAN_MAX_RINGS + ring);
	return lanes;
}

_Static_assert((int)REMOTE_CHANNELS *(int)PLAN_MAX_RINGS <= 32, "a bit each channel and ring");

/* What a rank sends to ranks of other nodes. */
static void add_list(uint32_t *distances, const struct lowered *list, int channels,
		     const struct plan_map *map, int rank)
{
	for (int i = 0; i < list->nops; i++)
		for (int k = 0; k < list->ops[i].to_count; k++) {
			const int to = list->peers[list->ops[i].to_first + k].rank;
			if (map->node_of[to] != map->node_of[rank])
				distances[(to - rank + map->ranks) % map->ranks] |=
				    lanes_of(list->ops[i].to_ring, channels);
		}
}

static int add_plan(uint32_t *distances, const struct plan *plan, const struct plan_map *map, int root)
{
	struct lowered list;
	const char *why;
	int ret = 0;
	for (int rank = 0; !ret && rank < map->ranks; rank++) {
		ret = lower_plan(plan, map, rank, root, &list, &why);
		if (!ret)
			add_list(distances, &list, plan->channels, map, rank);
		lowered_free(&list);
	}
	return ret;
}

/* A rank has one receiver, and one sender, at a distance; of some distances they are on its own node. */
static size_t bytes_of(const struct lanes_account *a, const uint32_t *distances)
{
	size_t ends = 0;
	for (int lane = 0; lane < 32; lane++) {
		int peers = 0;
		for (int d = 0; d < a->map->ranks; d++)
			peers += distances[d] >> lane & 1;
		ends += 2 * (size_t)(peers < a->peers ? peers : a->peers);
	}
	return ends * remote_end_bytes(&a->shape.slots[a->use]);
}

int lanes_admit(struct lanes_account *a, const struct plan *plan, int root)
{
	uint32_t *with = malloc((size_t)a->map->ranks * sizeof *with);
	if (!with)
		return CORALE_ENOMEM;
	memcpy(with, a->distances, (size_t)a->map->ranks * sizeof *with);
	int ret = add_plan(with, plan, a->map, root);
	const int fits = !ret && bytes_of(a, with) <= a->bytes;
	if (fits) {
		free(a->distances);
		a->distances = with;
	} else {
		free(with);
	}
	return ret ? ret : fits;
}
