/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives an emulated world of several nodes the memory, wire and proxies that carry its messages. */
#include "nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/link.h"
#include "net/proxy_state.h"
#include "wire.h"

enum { RAILS = 2 };

/* Of a rank. */
struct station {
	int *place_of, *rank_at;
	struct proxy *proxy; /* NULL: no rank is on another node */
	unsigned char *gpu; /* memory of the slab; NULL: all slots lie in pinned memory */
	struct link_slab *slab, *slabs[RAILS]; /* by rail, NULL: pinned */
};

struct nodes {
	struct wire *wire;
	_Atomic int faults; /* of kernels, printed */
	struct station *stations;
};

uint64_t *nodes_ids(const int *sizes, int ranks)
{
	uint64_t *ids = calloc((size_t)ranks, sizeof *ids);
	for (int node = 0, r = 0; ids && sizes[node]; node++)
		for (int i = 0; i < sizes[node]; i++)
			ids[r++] = (uint64_t)node;
	return ids;
}

static int is_local(const struct world *w, int a, int b)
{
	return w->topo->node_of[a] == w->topo->node_of[b];
}

/* Those of the own node first, as lib/comm/gpu_remote.c has them. */
static int place_ranks(struct world *w, int rank)
{
	struct station *s = &w->nodes->stations[rank];
	int next = w->engines[rank].ranks;
	s->place_of = calloc((size_t)w->ranks, sizeof *s->place_of);
	s->rank_at = calloc((size_t)w->ranks, sizeof *s->rank_at);
	if (!s->place_of || !s->rank_at)
		return CORALE_ENOMEM;
	for (int r = 0; r < w->ranks; r++) {
		s->place_of[r] = is_local(w, rank, r) ? w->topo->local_of[r] : next++;
		s->rank_at[s->place_of[r]] = r;
	}
	return 0;
}

/* Slots of each use have a size and depth of their own. */
static struct remote make_shape(uint32_t slot_bytes, int peers)
{
	return (struct remote){ .slots = { [REMOTE_OF_PLANS] = { slot_bytes, 4 },
					   [REMOTE_OF_SINGLE_CHANNEL] = { slot_bytes / 2, 2 },
					   [REMOTE_OF_PAIRS] = { slot_bytes - REMOTE_LINE, 2 } },
				.pair_channels = REMOTE_CHANNELS / 2,
				.peers = peers };
}

/* In memory of its own, as that of a GPU would be: nothing in it is what anybody has sent. */
static int make_slab(struct world *w, int rank, size_t bytes, unsigned slab_rails)
{
	struct remote *r = &w->engines[rank].remote.remote;
	struct station *s = &w->nodes->stations[rank];
	char why[LINK_WHY_BYTES];
	s->gpu = aligned_alloc(4096, plan_round(bytes, 4096));
	if (!s->gpu || link_map(wire_end(w->nodes->wire, rank), s->gpu, bytes, 1, &s->slab, why, sizeof why))
		return CORALE_ENOMEM;
	memset(s->gpu, WIRE_NOTHING, bytes);
	for (int rail = 0; rail < RAILS; rail++)
		s->slabs[rail] = slab_rails >> rail & 1 ? s->slab : NULL;
	for (int channel = 0; channel < REMOTE_ALL_CHANNELS; channel++)
		r->data[channel] = s->slabs[channel % RAILS] ? s->gpu : r->memory;
	return 0;
}

static int open_station(struct world *w, int rank, uint32_t slot_bytes, unsigned slab_rails)
{
	struct engine *e = &w->engines[rank];
	struct station *s = &w->nodes->stations[rank];
	const int peers = w->ranks - e->ranks;
	const uint64_t ends = remote_end_index(peers, REMOTE_OUT, 0);
	if (!peers)
		return 0;
	struct remote *r = &e->remote.remote;
	*r = make_shape(slot_bytes, peers);
	const size_t bytes = REMOTE_LINE + ends * remote_end_bytes(&r->slots[REMOTE_OF_PLANS]);
	r->memory = aligned_alloc(4096, plan_round(bytes, 4096));
	remote_set_data(r, r->memory);
	e->remote.counts =
	    calloc(1, sizeof *e->remote.counts + (size_t)peers * sizeof e->remote.counts->peers[0]);
	e->remote.offsets = calloc(ends, sizeof *e->remote.offsets);
	if (!r->memory || !e->remote.counts || !e->remote.offsets || engine_connections_open(e))
		return CORALE_ENOMEM;
	memset(r->memory, 0, bytes);
	gpu_whole(r->memory, bytes, 8); /* over PCIe */
	if (slab_rails && make_slab(w, rank, bytes, slab_rails))
		return CORALE_ENOMEM;
	const struct proxy_params params = { .rails = { wire_end(w->nodes->wire, rank),
							wire_end(w->nodes->wire, rank) },
					     .nrails = RAILS,
					     .slabs = { s->slabs[0], s->slabs[1] },
					     .remote = *r,
					     .bytes = bytes,
					     .ranks = s->rank_at + e->ranks,
					     .rank = rank };
	int ret = proxy_create(&params, &s->proxy);
	e->connections.proxy = s->proxy;
	return ret;
}

static uint64_t depth_of(const struct world *w, int rank, int index)
{
	return remote_slots_of(&w->engines[rank].remote.remote, (uint32_t)(index - PROXY_FIRST_LINK))->depth;
}

/* What a receiver's kernel has taken of a connection of the proxies. */
static uint64_t taken_of(const struct world *w, int from, int to, int index)
{
	const struct engine *e = &w->engines[to];
	const int peer = w->nodes->stations[to].place_of[from] - e->ranks;
	const uint32_t number = (uint32_t)(index - PROXY_FIRST_LINK);
	const remote_offset offset = e->connections.offsets[remote_end_index(peer, REMOTE_IN, number)];
	return __atomic_load_n(&remote_words_at(&e->remote.remote, offset)->taken, __ATOMIC_RELAXED);
}

/* Its kernel has read the message that lay there before. */
static int has_room(void *world, int from, int to, int index, uint64_t n)
{
	return index < PROXY_FIRST_LINK || n < taken_of(world, from, to, index) + depth_of(world, to, index);
}

int nodes_open(struct world *w, uint32_t slot_bytes, unsigned slab_rails)
{
	int ret = 0;
	w->nodes = calloc(1, sizeof *w->nodes);
	if (!w->nodes)
		return CORALE_ENOMEM;
	w->nodes->stations = calloc((size_t)w->ranks, sizeof *w->nodes->stations);
	w->nodes->wire = wire_new(w->ranks, has_room, w);
	if (!w->nodes->stations || !w->nodes->wire)
		return CORALE_ENOMEM;
	for (int r = 0; !ret && r < w->ranks; r++)
		ret = place_ranks(w, r);
	for (int r = 0; !ret && r < w->ranks; r++)
		ret = open_station(w, r, slot_bytes, slab_rails);
	return ret;
}

static void free_memory(struct world *w, int rank, const struct link_ops *links)
{
	const struct station *s = &w->nodes->stations[rank];
	if (s->slab)
		links->unmap(s->slab);
	free(s->gpu);
	free(w->engines[rank].remote.remote.memory);
}

void nodes_close(struct world *w)
{
	if (!w->nodes)
		return;
	const struct link_ops *links = w->nodes->wire ? wire_end(w->nodes->wire, 0)->ops->links : NULL;
	wire_free(w->nodes->wire); /* its messages are in the proxies' slots */
	for (int r = 0; w->nodes->stations && r < w->ranks; r++) {
		proxy_free(w->nodes->stations[r].proxy);
		free(w->nodes->stations[r].place_of);
		free(w->nodes->stations[r].rank_at);
		free_memory(w, r, links);
		free(w->engines[r].remote.counts);
		free((void *)(uintptr_t)w->engines[r].remote.offsets);
		engine_connections_close(&w->engines[r]);
	}
	free(w->nodes->stations);
	free(w->nodes);
	w->nodes = NULL;
}

const int *nodes_places(const struct world *w, int rank)
{
	return w->nodes ? w->nodes->stations[rank].place_of : NULL;
}

/* What kernels have taken only grows: the proxy has told the sender of it. */
static void check_taken(struct nodes *n, int rank, const struct proxy *p, int rail)
{
	for (const struct proxy_connection *at = proxy_connections(p, rail); at; at = at->next) {
		const remote_offset in = at->link && at->link->in_open ? proxy_offset(at, REMOTE_IN) : 0;
		if (!in || proxy_load(&remote_words_at(&p->params.remote, in)->taken) >= link_taken(at->link))
			continue;
		if (!n->faults++)
			printf(
			    "# rank %d: a kernel takes fewer messages of connection %u than it had taken\n",
			    rank, at->number);
	}
}

void nodes_carry(struct world *w, int rank)
{
	struct proxy *p = w->nodes->stations[rank].proxy;
	for (int rail = 0; p && rail < RAILS; rail++) {
		proxy_progress(p, rail);
		check_taken(w->nodes, rank, p, rail);
	}
}

unsigned char *nodes_pinned_slots(const struct remote *r, remote_offset offset, const struct remote_slots *s)
{
	return (unsigned char *)remote_header_at(r, offset, s, 0) + (uint64_t)s->depth * REMOTE_FRONT;
}

/* Of an end whose messages lie in a slab the pinned slots are nobody's. */
static int is_clean(const struct remote *r, remote_offset offset, uint32_t index)
{
	const struct remote_slots *s = remote_slots_of(r, index);
	const unsigned char *at = nodes_pinned_slots(r, offset, s);
	const int matters = offset && remote_slots_are_apart(r, index);
	for (uint64_t i = 0; matters && i < (uint64_t)s->depth * s->bytes; i++)
		if (at[i] != NODES_POISON)
			return 0;
	return 1;
}

static int pinned_faults(const struct world *w, int rank)
{
	const struct engine *e = &w->engines[rank];
	const struct remote *r = &e->remote.remote;
	const uint64_t ends = w->nodes->stations[rank].slab ? remote_end_index(r->peers, REMOTE_OUT, 0) : 0;
	for (uint64_t i = 0; i < ends; i++) {
		const uint32_t index = (uint32_t)(i % REMOTE_CONNECTIONS);
		if (is_clean(r, e->connections.offsets[i], index))
			continue;
		printf("# rank %d: a message is in a pinned slot, connection %u\n", rank, index);
		return 1;
	}
	return 0;
}

int nodes_faults(const struct world *w)
{
	int faults = w->nodes ? wire_faults(w->nodes->wire) + w->nodes->faults : 0;
	for (int r = 0; w->nodes && r < w->ranks; r++)
		faults += pinned_faults(w, r);
	return faults;
}
