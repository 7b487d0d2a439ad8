/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm_create.h"
#include "health/diagnose.h"
#include "net/proxy.h"

enum { MOST_RAILS = TRANSPORT_RAILS - 1 }; /* the first one of the process is the host engine's */

/* ---- What all ranks have met ---------------------------------------------------------------------------------- */

/* The first rank that has met something; other things before late data, which may be mended. -1: none has. */
static int find_first(const struct comm *comm, const struct gpu_direct_outcome *all)
{
	int late = -1;
	for (int r = 0; r < comm->size; r++) {
		if (all[r].code && !all[r].is_late)
			return r;
		if (all[r].code && late < 0)
			late = r;
	}
	return late;
}

/* By one rank for all: where there are adapters the first line of a process is a warning. */
static void log_why_not(const struct comm *comm, int rail, int rank, const struct gpu_direct_outcome *o,
			int has_adapters)
{
	static _Atomic int said;
	const char *host = comm->peers[rank].host;
	if (comm->rank)
		return;
	if (o->is_late)
		log_line(LOG_INFO, comm->rank, "GPUDirect RDMA, rail %d: rank %d (host %s): %s", rail, rank,
			 host, o->why);
	else
		log_line(has_adapters && !atomic_exchange(&said, 1) ? LOG_WARN : LOG_INFO, comm->rank,
			 "rail %d: no GPUDirect RDMA, messages go through pinned host memory: rank %d (host "
			 "%s): %s; corale-info --net says more; CORALE_GPUDIRECT=no tries none",
			 rail, rank, host, o->why);
}

/* The outcome of a step on all ranks. */
struct findings {
	int good; /* nothing; */
	int late; /* late data alone, which reading back may mend; */
	int broken; /* a rail that carries nothing */
};

static struct findings sum_up(const struct comm *comm, const struct gpu_direct_outcome *all)
{
	struct findings f = { .good = 1, .late = 1 };
	for (int r = 0; r < comm->size; r++) {
		f.good &= !all[r].code;
		f.late &= !all[r].code || all[r].is_late;
		f.broken |= all[r].is_broken;
	}
	f.late &= !f.good;
	return f;
}

/* Collective. Says why a step has failed; an error on all ranks where GPUDirect was asked for. */
static int settle(struct comm *comm, int rail, const struct gpu_direct_outcome *mine, int has_adapters,
		  struct findings *f)
{
	const corale_bootstrap *b = &comm->bootstrap;
	struct gpu_direct_outcome *all = comm->direct->outcomes;
	int ret = bootstrap_gather(b, mine, sizeof *mine, all);
	if (ret)
		return ret;
	const int first = find_first(comm, all);
	*f = sum_up(comm, all);
	if (first >= 0 && comm->settings.gpudirect == SETTINGS_YES && !f->late)
		ret = log_error(CORALE_ENOTSUP, comm->rank,
				"CORALE_GPUDIRECT=yes: rail %d: rank %d (host %s): %s; with auto such "
				"messages go through pinned host memory",
				rail, first, comm->peers[first].host, all[first].why);
	else if (first >= 0)
		log_why_not(comm, rail, first, &all[first], has_adapters);
	return ret;
}

/* ---- One rail --------------------------------------------------------------------------------------------------- */

static void map(struct comm *comm, int rail, int attempt, int reads_back, struct gpu_direct_outcome *o)
{
	struct gpu_direct *d = comm->direct;
	const struct engine_slab *s = &d->slab;
	o->code = link_map(comm->rails[rail], s->at, s->bytes, reads_back, &d->mapped[rail][attempt], o->why,
			   sizeof o->why);
}

/* Collective. */
static int try_rail(struct comm *comm, int rail, int attempt, int reads_back, struct findings *f)
{
	struct gpu_direct_outcome o = { 0 };
	map(comm, rail, attempt, reads_back, &o);
	int ret = settle(comm, rail, &o, 1, f);
	if (ret || !f->good)
		return ret;
	ret = gpu_direct_probe(comm, rail, attempt, &o);
	o.is_late &= attempt == 0 && comm->settings.gpudirect_flush == SETTINGS_AUTO;
	ret = ret ? ret : settle(comm, rail, &o, 1, f);
	if (!ret && f->good && comm->direct->compares) {
		ret = gpu_direct_compare(comm, rail, comm->direct->mapped[rail][attempt], &o);
		ret = ret ? ret : settle(comm, rail, &o, 1, f);
	}
	if (!ret && f->good) {
		comm->direct->used[rail] = comm->direct->mapped[rail][attempt];
		comm->direct->reads_back |= reads_back;
	}
	return ret;
}

/* A GPU of which nobody knows that it needs it may show it. */
static int find_rail(struct comm *comm, int rail, struct findings *f)
{
	const int flush = comm->settings.gpudirect_flush,
		  reads_back = flush == SETTINGS_AUTO ? comm->direct->slab.reads_back : flush == SETTINGS_YES;
	int ret = try_rail(comm, rail, 0, reads_back, f);
	if (!ret && f->late)
		ret = try_rail(comm, rail, 1, 1, f);
	return ret;
}

/* ---- All of them ------------------------------------------------------------------------------------------------ */

/* Called by a rail's transport. */
static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	struct comm *comm = ctx;
	struct gpu_direct *d = comm->direct;
	if (atomic_load(&d->settled)) {
		diagnose_failure(ctx, peer, code, reason);
		return;
	}
	if (atomic_exchange(&d->failed, 1))
		return;
	snprintf(d->failure, sizeof d->failure, "rank %d: %s", peer, reason);
	atomic_store(&d->failed, 2);
}

/* By which the ranks of a node choose their adapters alike. */
struct place {
	uint64_t adapters; /* adapters_key */
	char gpu[ENGINE_PCI_BYTES];
};

/* Its own GPU's, as all ranks of its node choose. Where they see other adapters UCX chooses. */
static void choose_adapters(struct comm *comm, const struct adapters *adapters, const struct place *all)
{
	const struct plan_map *map = &comm->topo->map;
	const int n = comm->engine.locals, first = map->node_first[map->node_of[comm->rank]];
	const char **gpus = calloc((size_t)n, sizeof *gpus);
	int same = gpus != NULL;
	for (int i = 0; same && i < n; i++) {
		const struct place *p = &all[map->member[first + i]];
		gpus[i] = p->gpu;
		same = p->adapters == all[comm->rank].adapters;
	}
	if (same)
		adapters_choose(adapters, gpus, n, comm->engine.local, &comm->direct->choice);
	free((void *)gpus);
}

/* Collective. */
static int find_adapters(struct comm *comm, struct gpu_direct_outcome *o)
{
	const struct adapters *adapters = NULL;
	struct place mine = { 0 };
	int ret = adapters_machine(&adapters);
	if (!ret) {
		mine.adapters = adapters_key(adapters);
		memcpy(mine.gpu, engine_cuda.own_gpu(comm->gpu)->id.pci, sizeof mine.gpu);
	}
	struct place *all = comm_gather(comm, &ret, "read its RDMA adapters", &mine, sizeof mine);
	if (!ret)
		choose_adapters(comm, adapters, all);
	free(all);
	const struct adapters_choice *c = &comm->direct->choice;
	if (!ret && c->rails && c->gpudirect == ADAPTERS_GPUDIRECT_OFF)
		gpu_direct_refuse(o, CORALE_ENOTSUP, "%s", c->reason);
	return ret;
}

/* Collective. */
static int choose_rails(struct comm *comm, int *wanted)
{
	const struct adapters_choice *c = &comm->direct->choice;
	const int own = comm->settings.rails ? comm->settings.rails : c->rails ? c->rails : 1;
	int64_t most = -own, compares = c->rails && c->gpudirect == ADAPTERS_GPUDIRECT_IF_MEASURED;
	int ret = bootstrap_agree(&comm->bootstrap, 0, "choose how many rails to use", &most);
	ret = ret ? ret : bootstrap_agree(&comm->bootstrap, 0, "choose its adapters", &compares);
	*wanted = -most < MOST_RAILS ? (int)-most : MOST_RAILS;
	comm->direct->compares = compares && comm->settings.gpudirect != SETTINGS_YES;
	return ret;
}

/* Collective: whether all are open. A rail opens on all ranks or on none. */
static int open_rails(struct comm *comm, int *good)
{
	const struct adapters_choice *c = &comm->direct->choice;
	struct gpu_direct_outcome o = { 0 };
	struct findings f;
	int wanted = 0, ret = choose_rails(comm, &wanted);
	for (int rail = 0; !ret && !o.code && rail < wanted; rail++) {
		const struct comm_rail r = { .number = rail + 1,
					     .gpu_slots = &comm->direct->slots,
					     .devices = c->rails ? c->device[rail % c->rails] : NULL,
					     .on_failure = on_failure };
		if (comm_open_rail(comm, comm->engine.transport->row, &r, &comm->rails[rail]))
			gpu_direct_refuse(&o, CORALE_ETRANSPORT, "%s", log_last_error());
		else
			comm->nrails++;
	}
	*good = !o.code;
	if (!ret && o.code)
		ret = settle(comm, comm->nrails, &o, 1, &f);
	if (!ret && *good && c->rails)
		log_line(LOG_INFO, comm->rank, "RDMA adapters of this rank's GPU: %s", c->reason);
	return ret;
}

/* Channels whose links are on such rails. */
static uint32_t channels_of(const struct comm *comm)
{
	uint32_t channels = 0;
	for (int c = 0; c < REMOTE_ALL_CHANNELS; c++)
		if (comm->direct->used[proxy_rail_of((uint32_t)c, comm->nrails)])
			channels |= 1u << c;
	return channels;
}

/* Collective: whether slots in GPU memory are used on any rail. */
static int find_rails(struct comm *comm, int *any)
{
	struct gpu_direct_outcome o = { 0 };
	struct findings f;
	const size_t behind = gpu_direct_probe_bytes(&comm->topo->map, comm->rank, comm->nrails);
	o.code = engine_memory.slab_open(comm->gpu, behind, &comm->direct->slab, o.why, sizeof o.why);
	int ret = settle(comm, 0, &o, 1, &f), good = f.good, broken = 0;
	for (int rail = 0; !ret && good && rail < comm->nrails; rail++) {
		ret = find_rail(comm, rail, &f);
		*any |= !ret && f.good;
		broken |= f.broken;
	}
	*any &= !broken;
	return ret;
}

/* Collective: whether all ranks have adapters, near enough to their GPUs. */
static int has_adapters(struct comm *comm, int *good)
{
	const struct transport *t = comm->engine.transport;
	struct gpu_direct_outcome o = { 0 };
	struct findings f;
	if (!t->rdma)
		gpu_direct_refuse(&o, CORALE_ENOTSUP, "transport %s uses no RDMA adapter", t->row->name);
	int ret = settle(comm, 0, &o, t->rdma, &f);
	if (!ret && f.good) {
		ret = find_adapters(comm, &o);
		ret = ret ? ret : settle(comm, 0, &o, 1, &f);
	}
	*good = f.good;
	return ret;
}

static int make(struct comm *comm)
{
	struct gpu_direct *d = comm->direct = calloc(1, sizeof *d);
	if (d)
		d->outcomes = calloc((size_t)comm->size, sizeof *d->outcomes);
	if (!d || !d->outcomes)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for GPUDirect RDMA");
	d->links = comm->engine.transport->ops->links;
	d->slots = comm->engine.slots;
	d->slots.links = 0;
	return 0;
}

int gpu_direct_open(struct comm *comm)
{
	int good = 0, any = 0;
	if (comm->settings.gpudirect == SETTINGS_NO)
		return 0;
	int ret = comm_agree(comm, make(comm), "try GPUDirect RDMA");
	ret = ret ? ret : has_adapters(comm, &good);
	ret = ret || !good ? ret : open_rails(comm, &good);
	ret = ret || !good ? ret : find_rails(comm, &any);
	if (comm->direct) { /* all is settled */
		free(comm->direct->outcomes);
		comm->direct->outcomes = NULL;
	}
	if (!ret && any) {
		atomic_store(&comm->direct->settled, 1);
		engine_memory.slab_use(comm->gpu, channels_of(comm));
		if (!comm->rank)
			log_line(LOG_INFO, comm->rank,
				 "GPUDirect RDMA: messages between nodes go from and to the GPUs' memory, "
				 "%zu bytes of each, over %d rail%s%s",
				 comm->direct->slab.bytes, comm->nrails, comm->nrails > 1 ? "s" : "",
				 comm->direct->reads_back ? "; the adapter reads their ends back" : "");
		return 0;
	}
	for (int rail = 0; rail < comm->nrails; rail++) {
		transport_close(comm->rails[rail]);
		comm->rails[rail] = NULL;
	}
	comm->nrails = 0;
	return ret;
}

int gpu_direct_free(struct gpu_direct *d)
{
	if (atomic_load(&d->held)) /* a link may still say that it lets go */
		return 0;
	for (int rail = 0; rail < TRANSPORT_RAILS; rail++)
		for (int attempt = 0; attempt < GPU_DIRECT_ATTEMPTS; attempt++)
			if (d->mapped[rail][attempt])
				d->links->unmap(d->mapped[rail][attempt]);
	gpu_direct_free_probes(d);
	free(d);
	return 1;
}
