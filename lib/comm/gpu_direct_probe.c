/* Messages of all sizes between slots in GPUs' memory, which a kernel of the receiving GPU has to see whole. */
#include "gpu_direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "comm_create.h"

enum {
	FIRST_LANE = 1, /* of the rails' transports, which the proxy leaves free: one an attempt */
	CONNECT_S = 10,
	MESSAGE_S = 3,
	NAP_NS = 20000
};

static const int64_t second_ns = 1000000000;

/* A rank that this one sends to, or receives from, or both. */
struct probe_peer {
	struct link *link;
	struct link_memory memory;
	int rank, sends;
	int sender; /* its number among those that send here; -1: it does not */
	uint64_t sent;
};

struct gpu_direct_probe {
	struct gpu_direct_probe *next;
	struct comm *comm;
	struct probe_words *words; /* of each sender */
	int npeers, senders;
	uint64_t until; /* messages that are looked at */
	struct probe_peer peers[];
};

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

int gpu_direct_senders(const struct plan_map *map, int rank, int *senders)
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
	return (size_t)(1 + gpu_direct_senders(map, rank, NULL)) * PROBE_AREA;
}

size_t gpu_direct_probe_bytes(const struct plan_map *map, int rank, int rails)
{
	return (size_t)(rails * GPU_DIRECT_ATTEMPTS) * attempt_bytes(map, rank);
}

/* Of the messages of a rank. */
static uint64_t seed_of(const struct comm *comm, int rank, int rail, int attempt)
{
	return comm->id ^
	       ((uint64_t)rank << 8 | (uint64_t)rail << 4 | (uint64_t)attempt) * 0x9e3779b97f4a7c15u;
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
static struct gpu_direct_probe *make(struct comm *comm, int rail, int attempt, struct engine_probe *e)
{
	struct gpu_direct *d = comm->direct;
	const struct plan_map *map = &comm->topo->map;
	const int n = gpu_direct_senders(map, comm->rank, NULL);
	struct gpu_direct_probe *p = calloc(1, sizeof *p + (size_t)(n + 1) * sizeof *p->peers);
	int *senders = calloc((size_t)n + 1, sizeof *senders);
	uint64_t *seeds = calloc((size_t)n + 1, sizeof *seeds);
	if (!p || !senders || !seeds)
		goto none;
	p->comm = comm;
	p->senders = gpu_direct_senders(map, comm->rank, senders);
	e->out = d->slab.at + d->slab.behind +
		 (size_t)(rail * GPU_DIRECT_ATTEMPTS + attempt) * attempt_bytes(map, comm->rank);
	e->in = e->out + PROBE_AREA;
	e->seed = seed_of(comm, comm->rank, rail, attempt);
	e->senders = n;
	e->seeds = seeds;
	struct probe_peer *to = peer_of(p, receiver_of(map, comm->rank));
	to->sends = 1;
	to->memory.out = e->out;
	for (int i = 0; i < n; i++) {
		struct probe_peer *from = peer_of(p, senders[i]);
		from->sender = i;
		from->memory.in = e->in + (size_t)i * PROBE_AREA;
		seeds[i] = seed_of(comm, senders[i], rail, attempt);
	}
	free(senders);
	return p;
none:
	free(p);
	free(senders);
	free(seeds);
	return NULL;
}

static int open_link(struct comm *comm, int rail, int attempt, struct probe_peer *peer)
{
	struct gpu_direct *d = comm->direct;
	peer->memory.slab = d->mapped[rail][attempt];
	peer->memory.depth = PROBE_DEPTH;
	peer->memory.bytes = PROBE_SLOT_BYTES;
	peer->memory.release = let_go;
	peer->memory.ctx = d;
	const struct link_params params = { .rank = comm->rank,
					    .peer = peer->rank,
					    .lane = FIRST_LANE + attempt,
					    .slots = &d->slots,
					    .memory = &peer->memory };
	return link_open(comm->rails[rail], &params, &peer->link);
}

/* 1: both ends have slots in the directions that are used. */
static int poll_open(void *arg)
{
	struct gpu_direct_probe *p = arg;
	struct gpu_direct *d = p->comm->direct;
	int all = 1, ret = 0;
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
	if (atomic_load(&d->failed))
		return CORALE_ETRANSPORT;
	return ret ? ret : all;
}

static const char *failure_of(const struct gpu_direct *d, const char *otherwise)
{
	return atomic_load(&d->failed) == 2 ? d->failure : otherwise;
}

static void connect_peers(struct comm *comm, int rail, int attempt, struct gpu_direct_probe *p,
			  struct gpu_direct_outcome *o)
{
	const struct wait_policy policy = { .timeout_ns = CONNECT_S * second_ns, .sleep_ns = NAP_NS };
	int ret = 0;
	for (int i = 0; !ret && i < p->npeers; i++)
		ret = open_link(comm, rail, attempt, &p->peers[i]);
	ret = ret ? ret : wait_until(&policy, poll_open, p);
	if (ret < 0) {
		o->is_broken = 1;
		gpu_direct_refuse(o, ret, "no connection between slots in GPUs' memory: %s",
				  failure_of(comm->direct, corale_strerror(ret)));
	}
}

/* ---- Messages --------------------------------------------------------------------------------------------------- */

static int send_until(struct gpu_direct_probe *p, uint64_t until)
{
	const unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	int ret = 0;
	for (int i = 0; !ret && i < p->npeers; i++)
		for (struct probe_peer *peer = &p->peers[i]; !ret && peer->sends && peer->sent < until;
		     peer->sent++)
			ret = link_post(peer->link, header, NULL, probe_bytes((int)peer->sent));
	return ret;
}

/* The kernel hears of what has arrived. 1: it has looked at so much. */
static int poll_checked(void *arg)
{
	struct gpu_direct_probe *p = arg;
	int all = 1;
	if (atomic_load(&p->comm->direct->failed))
		return CORALE_ETRANSPORT;
	for (int i = 0; i < p->npeers; i++) {
		const struct probe_peer *peer = &p->peers[i];
		if (peer->sender < 0)
			continue;
		struct probe_words *w = &p->words[peer->sender];
		const int ret = link_ready(peer->link);
		if (ret < 0)
			return ret;
		__atomic_store_n(&w->arrived,
				 atomic_load_explicit(&peer->link->arrived, memory_order_acquire),
				 __ATOMIC_RELEASE);
		all &= __atomic_load_n(&w->checked, __ATOMIC_ACQUIRE) >= p->until;
	}
	return all;
}

static const char *verdict(uint64_t checked, uint64_t wrong, int message)
{
	if ((uint64_t)message >= checked)
		return "not sent";
	return wrong >> message & 1 ? "wrong" : "right";
}

/* What one sender's messages have shown. */
static void judge(const struct gpu_direct_probe *p, const struct probe_peer *peer,
		  struct gpu_direct_outcome *o)
{
	const struct probe_words *w = &p->words[peer->sender];
	const uint64_t arrived = w->arrived, checked = __atomic_load_n(&w->checked, __ATOMIC_ACQUIRE),
		       wrong = __atomic_load_n(&w->wrong, __ATOMIC_RELAXED);
	if (arrived < p->until) {
		o->is_broken = 1;
		gpu_direct_refuse(o, CORALE_ETIMEDOUT,
				  "message %llu from rank %d did not come within %d s: %s",
				  (unsigned long long)arrived + 1, peer->rank, MESSAGE_S,
				  failure_of(p->comm->direct,
					     "do the adapters reach each other, and are IOMMU and ACS off?"));
	} else if (!w->begun) {
		gpu_direct_refuse(
		    o, CORALE_ETIMEDOUT,
		    "a kernel that looks at messages did not start within %d s: other work fills "
		    "the GPU",
		    MESSAGE_S);
	} else if (checked < p->until) {
		gpu_direct_refuse(o, CORALE_ETIMEDOUT,
				  "a kernel saw %llu messages from rank %d where %llu had come",
				  (unsigned long long)checked, peer->rank, (unsigned long long)arrived);
	} else if (wrong) {
		o->is_late = 1;
		gpu_direct_refuse(
		    o, CORALE_ETRANSPORT,
		    "a kernel did not see all bytes of messages from rank %d that had arrived (64 "
		    "KiB: %s, 4 KiB: %s, 8 bytes: %s)",
		    peer->rank, verdict(checked, wrong, 0), verdict(checked, wrong, 1),
		    verdict(checked, wrong, 2));
	}
}

/* So many messages of each, the earlier ones counted. */
static void exchange(struct gpu_direct_probe *p, uint64_t until, struct gpu_direct_outcome *o)
{
	const struct wait_policy policy = { .timeout_ns = MESSAGE_S * second_ns, .sleep_ns = NAP_NS };
	p->until = until;
	int ret = send_until(p, until);
	ret = ret ? ret : wait_until(&policy, poll_checked, p);
	if (ret < 0 && ret != CORALE_ETIMEDOUT) {
		o->is_broken = 1;
		gpu_direct_refuse(o, ret, "a message from a slot in the GPU's memory could not be sent: %s",
				  failure_of(p->comm->direct, corale_strerror(ret)));
		return;
	}
	for (int i = 0; !o->code && i < p->npeers; i++)
		if (p->peers[i].sender >= 0)
			judge(p, &p->peers[i], o);
}

int gpu_direct_probe(struct comm *comm, int rail, int attempt, struct gpu_direct_outcome *o)
{
	struct engine_probe e = { 0 };
	struct gpu_direct_probe *p = make(comm, rail, attempt, &e);
	int ret = comm_agree(comm, p ? 0 : log_error(CORALE_ENOMEM, comm->rank, "no memory for a probe"),
			     "make a probe of GPUDirect RDMA");
	if (p) {
		p->next = comm->direct->probes;
		comm->direct->probes = p;
	}
	if (ret)
		goto free_seeds;
	connect_peers(comm, rail, attempt, p, o);
	ret = comm_agree(comm, o->code ? 0 : engine_cuda.probe_begin(comm->gpu, &e, &p->words),
			 "start a kernel that looks at messages");
	if (!ret && !o->code)
		exchange(p, PROBE_LONG, o);
	int64_t any = o->code != 0;
	ret = ret ? ret : agree(&comm->bootstrap, 0, "look at messages", &any); /* all ranks have */
	if (!ret && !any)
		exchange(p, PROBE_MESSAGES, o);
	engine_cuda.probe_end(comm->gpu);
	p->words = NULL;
free_seeds:
	free((void *)(uintptr_t)e.seeds);
	return ret;
}

void gpu_direct_free_probes(struct gpu_direct *d)
{
	while (d->probes) {
		struct gpu_direct_probe *p = d->probes;
		d->probes = p->next;
		for (int i = 0; i < p->npeers; i++)
			if (p->peers[i].link && d->links->free)
				d->links->free(p->peers[i].link);
		free(p);
	}
}
