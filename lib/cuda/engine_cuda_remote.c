/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for messages to and from ranks of other nodes: pinned, for the kernels and the proxy (kernels/remote.h), and counts on the GPU. */
#include "engine_cuda.h"

#include "base/log.h"
#include "net/connections.h"

static int make_zeros(struct engine *e, size_t bytes, void **out)
{
	const int ret = engine_malloc(e, bytes, out);
	return ret ? ret : engine_fill(e, *out, 0, bytes);
}

/* The same on all ranks: of the rank that has the most peers. */
static int check_cap(const struct engine *e, int peers, size_t cap)
{
	const size_t least = connections_least_cap(peers);
	if (cap >= least)
		return 0;
	return log_error(CORALE_EINVAL, e->world_rank,
			 "CORALE_PINNED_MEMORY is %zu bytes: messages to %d ranks of other nodes need %zu: "
			 "set it to as much on all ranks",
			 cap, peers, least);
}

static size_t counts_bytes(int peers)
{
	return sizeof(struct remote_call_counts) +
	       (size_t)peers * sizeof(((struct remote_call_counts *)0)->peers[0]);
}

static size_t offsets_bytes(int peers)
{
	return remote_end_index(peers, REMOTE_OUT, 0) * sizeof(remote_offset);
}

int engine_open_remote(struct engine *e, const struct engine_params *p)
{
	const int peers = p->world_ranks - p->ranks;
	if (!peers)
		return 0;
	/* the same slots on all ranks, whatever the number of their node's */
	e->remote.remote =
	    connections_shape(p->world_ranks, p->nodes, p->most_ranks, p->least_ranks, p->pinned_bytes);
	const size_t bytes = e->connections.bytes = connections_bytes(&e->remote.remote, p->pinned_bytes);
	int ret = check_cap(e, e->remote.remote.peers, p->pinned_bytes);
	e->remote.remote.peers = peers;
	if (!ret)
		ret = engine_check(e,
				   engine_pool_take(e, POOL_PINNED, bytes, (void **)&e->remote.remote.memory),
				   "allocating pinned memory for messages between nodes");
	remote_set_data(&e->remote.remote, e->remote.remote.memory);
	ret = ret ? ret : engine_connections_open(e);
	ret = ret ? ret : make_zeros(e, counts_bytes(peers), (void **)&e->remote.counts);
	return ret ? ret : make_zeros(e, offsets_bytes(peers), (void **)(uintptr_t)&e->remote.offsets);
}

void engine_close_remote(struct engine *e)
{
	const int peers = e->world_ranks - e->ranks;
	engine_slab_free(e);
	engine_mfree(e, e->remote.counts, counts_bytes(peers));
	engine_mfree(e, (void *)(uintptr_t)e->remote.offsets, offsets_bytes(peers));
	engine_connections_close(e);
	engine_pool_give(e->remote.remote.memory);
}
