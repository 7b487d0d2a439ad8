/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA communicator's ranks on other nodes: their indices, the proxy, and whether they make the same calls. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm_create.h"
#include "gpu.h"
#include "gpu_direct.h"
#include "net/proxy.h"

static const int64_t stop_ns = 2000000000, at_once_ns = 1; /* 0 is for ever */

int gpu_indices_open(struct comm *comm)
{
	const int locals = comm->engine.locals;
	int next = locals;
	if (comm->topo->map.nodes == 1)
		return 0;
	comm->gpu_index = calloc((size_t)comm->size, sizeof *comm->gpu_index);
	comm->gpu_rank = calloc((size_t)comm->size, sizeof *comm->gpu_rank);
	if (!comm->gpu_index || !comm->gpu_rank)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	for (int r = 0; r < comm->size; r++) {
		const int index = host_is_local(&comm->engine, r) ? comm->topo->map.local_of[r] : next++;
		comm->gpu_index[r] = index;
		comm->gpu_rank[index] = r;
	}
	return 0;
}

/* Half of a rank's cores at most: its own threads, and whoever computes beside them, take the rest. */
static int wanted_rails(const struct comm *comm)
{
	static _Atomic int said;
	const struct transport *transport = comm->engine.transport;
	const int useful = transport->rails, cores = comm->topo->cores_per_rank_x16 / 32;
	if (transport->ops->one_rail) {
		if (comm->settings.rails > 1 && comm->rank == 0)
			log_once(&said, LOG_WARN, comm->rank, "CORALE_RAILS=%d: transport %s has one rail",
				 comm->settings.rails, transport->row->name);
		return 1;
	}
	if (comm->settings.rails)
		return comm->settings.rails;
	return useful < cores ? useful : cores > 1 ? cores : 1;
}

/* Collective. */
static int open_rails(struct comm *comm)
{
	int64_t most = -wanted_rails(comm);
	int ret = bootstrap_agree(&comm->bootstrap, 0, "choose how many rails to use", &most);
	comm->nrails = (int)-most; /* the least that any rank wants */
	comm->rails[0] = comm->engine.transport;
	for (int rail = 1; !ret && rail < comm->nrails; rail++)
		ret = comm_open_rail(comm, comm->rails[0]->row, &(struct comm_rail){ .number = rail },
				     &comm->rails[rail]);
	return ret;
}

static int start_proxy(struct comm *comm)
{
	struct proxy_params params = { .nrails = comm->nrails,
				       .ranks = comm->gpu_rank + comm->engine.locals,
				       .rank = comm->rank };
	memcpy(params.rails, comm->rails, sizeof params.rails);
	if (comm->direct)
		memcpy(params.slabs, comm->direct->used, sizeof params.slabs);
	params.remote = engine_memory.remote(comm->gpu, &params.bytes);
	int ret = proxy_open(&params, &comm->proxy);
	engine_cuda.set_proxy(comm->gpu, comm->proxy, comm->gpu_index);
	return ret;
}

/* ---- What is kept */

/*
 * Memory of messages between nodes that outlives its communicator: a peer that has not closed its side yet may still write there. It is freed when
 * that is through, at the next end of a communicator over several nodes of GPUs: not at a creation, as freeing pinned memory waits for kernels that wait for peers.
 */
struct kept {
	struct proxy *proxy; /* stopped; NULL: none */
	struct gpu_direct *direct; /* its rails are closed; NULL: none */
};

struct entry {
	struct entry *next;
	struct kept kept;
	struct engine_kept *memory; /* that the engine has given up */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *first;

/* 1: no peer writes there any more; then the memory is all that is left. */
static int is_through(struct kept *k)
{
	if (k->proxy && !proxy_free(k->proxy))
		return 0;
	k->proxy = NULL;
	if (k->direct && !gpu_direct_free(k->direct))
		return 0;
	k->direct = NULL;
	return 1;
}

static void sweep(void)
{
	pthread_mutex_lock(&lock);
	for (struct entry **at = &first, *e; (e = *at);) {
		if (!is_through(&e->kept)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		engine_memory.free_kept(e->memory);
		free(e);
	}
	pthread_mutex_unlock(&lock);
}

/* Frees what is kept, with the engine's memory for it, now or later. slab_alone: the engine still uses its pinned memory. */
static void keep(struct kept kept, struct engine *engine, int slab_alone)
{
	if (!slab_alone)
		sweep();
	if (is_through(&kept)) {
		if (slab_alone)
			engine_memory.free_kept(engine_memory.keep(engine, 1));
		return; /* the rest is freed with the engine */
	}
	struct engine_kept *memory = engine_memory.keep(engine, slab_alone);
	struct entry *e = malloc(sizeof *e);
	if (!e) /* it is kept for ever */
		return;
	*e = (struct entry){ NULL, kept, memory };
	pthread_mutex_lock(&lock);
	e->next = first;
	first = e;
	pthread_mutex_unlock(&lock);
}

/* ---- Opening and closing */

int gpu_remote_open(struct comm *comm)
{
	int ret = gpu_direct_open(comm);
	if (!ret && !comm->nrails) {
		if (comm->direct)
			keep((struct kept){ .direct = comm->direct }, comm->gpu, 1);
		comm->direct = NULL;
		ret = open_rails(comm);
	}
	if (!ret)
		ret = comm_agree(comm, start_proxy(comm), "start the proxy to the other nodes");
	if (ret)
		return ret;
	comm->manual = 0; /* the proxy calls the transport's progress from here on */
	log_line(LOG_INFO, comm->rank, "messages of GPUs go between nodes over %s, carried by %d thread%s",
		 comm->engine.transport->row->name, comm->nrails, comm->nrails > 1 ? "s, a rail each" : "");
	return 0;
}

/* The transports' requests point into the engine's memory until they are closed. */
void gpu_remote_close(struct comm *comm)
{
	if (comm->proxy)
		proxy_stop(comm->proxy, atomic_load(&comm->error) ? at_once_ns : stop_ns);
	for (int rail = 0; rail < comm->nrails; rail++)
		if (comm->rails[rail] != comm->engine.transport)
			transport_close(comm->rails[rail]);
	comm->nrails = 0;
	if (comm->proxy) {
		uint64_t in_gpu, pinned;
		proxy_bytes(comm->proxy, &in_gpu, &pinned);
		log_line(LOG_INFO, comm->rank,
			 "messages of GPUs to and from other nodes: %llu bytes from and into GPU memory, "
			 "%llu through pinned host memory",
			 (unsigned long long)in_gpu, (unsigned long long)pinned);
		transport_close(comm->engine.transport);
		comm->engine.transport = NULL;
	}
	if (comm->proxy || comm->direct)
		keep((struct kept){ comm->proxy, comm->direct }, comm->gpu, 0);
	comm->direct = NULL;
	comm->proxy = NULL;
}
