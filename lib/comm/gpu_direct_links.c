/* SPDX-License-Identifier: BSD-3-Clause */
/* Who sends a probe of GPUDirect RDMA to whom, and the links that it goes over. */
#include "gpu_direct.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"

enum { CONNECT_S = 10, NAP_NS = 20000 };

static const int64_t second_ns = 1000000000;

int gpu_direct_refuse(struct gpu_direct_outcome *o, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(o->why, sizeof o->why, format, args);
	va_end(args);
	o->code = code;
	return code;
}

/* ---- Who sends to whom ------------------------------------------------------------------------------------------ */

static int node_size(const struct plan_map *map, int node)
{
	return map->node_first[node + 1] - map->node_first[node];
}

/* A rank of the next node. */
static int receiver_of(const struct plan_map *map, int rank)
{
	const int node = (map->node_of[rank] + 1) % map->nodes;
	return map->member[map->node_first[node] + map->local_of[rank] % node_size(map, node)];
}

/* Ranks that send to this one: to each from the node before its own. */
static int find_senders(const struct plan_map *map, int rank, int *senders)
{
	const int node = (map->node_of[rank] + map->nodes - 1) % map->nodes;
	int n = 0;
	for (int i = map->node_first[node]; i < map->node_first[node + 1]; i++)
		if (receiver_of(map, map->member[i]) == rank) {
			if (senders)
				senders[n] = map->member[i];
			n++;
		}
	return n;
}

static size_t attempt_bytes(const struct plan_map *map, int rank)
{
	return (size_t)(1 + find_senders(map, rank, NULL)) * PROBE_AREA;
}

size_t gpu_direct_probe_bytes(const struct plan_map *map, int rank, int rails)
{
	return (size_t)(rails * GPU_DIRECT_ATTEMPTS) * attempt_bytes(map, rank);
}

/* ---- Links ------------------------------------------------------------------------------------------------------ */

static void let_go(void *arg)
{
	atomic_fetch_sub(&((struct gpu_direct *)arg)->held, 1);
}

static struct probe_peer *peer_of(struct gpu_direct_probe *p, int rank)
{
	struct probe_peer *at = p->peers;
	while (at < p->peers + p->npeers && at->rank != rank)
		at++;
	if (at == p->peers + p->npeers) {
		*at = (struct probe_peer){ .rank = rank, .sender = -1 };
		p->npeers++;
	}
	return at;
}

/* Its links' memory: what is sent first, then a place for each sender. */
static void place_slots(struct gpu_direct_probe *p, unsigned char *memory, const int *senders)
{
	struct probe_peer *to = peer_of(p, receiver_of(&p->comm->topo->map, p->comm->rank));
	to->sends = 1;
	to->memory.out = memory;
	for (int i = 0; i < p->senders; i++) {
		struct probe_peer *from = peer_of(p, senders[i]);
		from->sender = i;
		from->memory.in = memory + (size_t)(1 + i) * PROBE_AREA;
	}
}

struct gpu_direct_probe *gpu_direct_make_probe(struct comm *comm, int rail, unsigned char *memory)
{
	const struct plan_map *map = &comm->topo->map;
	const int n = find_senders(map, comm->rank, NULL);
	struct gpu_direct_probe *p = calloc(1, sizeof *p + (size_t)(n + 1) * sizeof *p->peers);
	int *senders = calloc((size_t)n + 1, sizeof *senders);
	unsigned char *pinned = memory ? NULL : aligned_alloc(4096, attempt_bytes(map, comm->rank));
	if (!p || !senders || (!memory && !pinned)) {
		free(p);
		free(senders);
		free(pinned);
		return NULL;
	}
	if (pinned) /* its pages are there before time counts */
		memset(pinned, 0, attempt_bytes(map, comm->rank));
	p->comm = comm;
	p->transport = comm->rails[rail];
	p->pinned = pinned;
	p->senders = find_senders(map, comm->rank, senders);
	place_slots(p, memory ? memory : pinned, senders);
	free(senders);
	p->next = comm->direct->probes;
	comm->direct->probes = p;
	return p;
}

unsigned char *gpu_direct_area(const struct comm *comm, int rail, int attempt)
{
	const struct engine_slab *s = &comm->direct->slab;
	return s->at + s->behind +
	       (size_t)(rail * GPU_DIRECT_ATTEMPTS + attempt) * attempt_bytes(&comm->topo->map, comm->rank);
}

static int open_link(struct comm *comm, int rail, int index, struct link_slab *slab, struct probe_peer *peer)
{
	struct gpu_direct *d = comm->direct;
	peer->memory.slab = slab;
	peer->memory.depth = PROBE_DEPTH;
	peer->memory.bytes = PROBE_SLOT_BYTES;
	peer->memory.release = let_go;
	peer->memory.ctx = d;
	const struct link_params params = { .rank = comm->rank,
					    .peer = peer->rank,
					    .index = index,
					    .slots = &d->slots,
					    .memory = &peer->memory };
	return link_open(comm->rails[rail], &params, &peer->link);
}

int gpu_direct_progress(const struct gpu_direct_probe *p)
{
	const int ret = p->transport->ops->progress(p->transport);
	return atomic_load(&p->comm->direct->failed) ? CORALE_ETRANSPORT : ret < 0 ? ret : 0;
}

/* 1: both ends have slots in the directions that are used. */
static int poll_open(void *arg)
{
	struct gpu_direct_probe *p = arg;
	struct gpu_direct *d = p->comm->direct;
	int all = 1, ret = gpu_direct_progress(p);
	for (int i = 0; !ret && i < p->npeers; i++) {
		struct probe_peer *peer = &p->peers[i];
		struct link *l = peer->link;
		const int before = l->in_open + l->out_open;
		if (peer->sender >= 0 && !l->in_open)
			ret = link_ready(l) < 0 ? CORALE_ETRANSPORT : 0;
		if (!ret && peer->sends) {
			const int room = link_room(l);
			ret = room < 0 ? room : 0;
			all &= room > 0;
		}
		atomic_fetch_add(&d->held, l->in_open + l->out_open - before);
	}
	return ret ? ret : all;
}

const char *gpu_direct_failure(const struct gpu_direct *d, const char *otherwise)
{
	return atomic_load(&d->failed) == 2 ? d->failure : otherwise;
}

void gpu_direct_connect(struct comm *comm, int rail, int index, struct link_slab *slab,
			struct gpu_direct_probe *p, struct gpu_direct_outcome *o)
{
	const struct wait_policy policy = { .timeout_ns = CONNECT_S * second_ns, .sleep_ns = NAP_NS };
	int ret = 0;
	for (int i = 0; !ret && i < p->npeers; i++)
		ret = open_link(comm, rail, index, slab, &p->peers[i]);
	ret = ret ? ret : wait_until(&policy, poll_open, p);
	if (ret < 0) {
		o->is_broken = 1;
		gpu_direct_refuse(o, ret, "no connection between ranks' slots: %s",
				  gpu_direct_failure(comm->direct, corale_strerror(ret)));
	}
}

void gpu_direct_free_probes(struct gpu_direct *d)
{
	while (d->probes) {
		struct gpu_direct_probe *p = d->probes;
		d->probes = p->next;
		for (int i = 0; i < p->npeers; i++)
			if (p->peers[i].link && d->links->free)
				d->links->free(p->peers[i].link);
		free(p->pinned);
		free(p);
	}
}
