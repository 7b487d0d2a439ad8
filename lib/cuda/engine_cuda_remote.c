/* Memory for messages to and from ranks of other nodes: pinned, for the kernels and the proxy (kernels/remote.h), and counts on the GPU. */
#include "engine_cuda.h"

#include <string.h>

#include "base/log.h"

enum { MOST_BYTES = 64 << 20 /* pinned */, MOST_SLOT = 256 << 10, LEAST_SLOT = 1 << 10 };

/* As large as fits, the same on all ranks, whatever the number of their node's ranks. */
static uint32_t slot_bytes(int peers)
{
	const uint64_t slots = 2 * (uint64_t)REMOTE_LANES * REMOTE_DEPTH * (uint64_t)peers;
	uint64_t bytes = MOST_BYTES / slots / LEAST_SLOT * LEAST_SLOT;
	bytes = bytes < MOST_SLOT ? bytes : MOST_SLOT;
	return (uint32_t)(bytes > LEAST_SLOT ? bytes : LEAST_SLOT);
}

int engine_open_remote(struct engine *e, int peers, int most_peers)
{
	const size_t counts = sizeof *e->remote.counts + (size_t)peers * sizeof e->remote.counts->peers[0];
	if (!peers)
		return 0;
	if (e->ranks + peers > CODELET_MAX_RANKS)
		return log_error(
		    CORALE_ENOTSUP, e->world_rank,
		    "%d ranks in a CUDA communicator over several nodes: at most %d in this version",
		    e->ranks + peers, CODELET_MAX_RANKS);
	e->remote.remote = (struct remote){ .slot_bytes = slot_bytes(most_peers), .peers = peers };
	const size_t bytes = remote_bytes(&e->remote.remote);
	int ret =
	    engine_check(e, cudaHostAlloc((void **)&e->remote.remote.memory, bytes, cudaHostAllocPortable),
			 "allocating pinned memory for messages between nodes");
	if (!ret) /* every page is there before a kernel waits */
		memset(e->remote.remote.memory, 0, bytes);
	if (!ret)
		ret = engine_check(e, cudaMalloc((void **)&e->remote.counts, counts), "allocating memory");
	return ret ? ret : engine_fill(e, e->remote.counts, 0, counts);
}

void engine_close_remote(struct engine *e)
{
	cudaFree(e->remote.counts);
	if (e->remote.remote.memory)
		cudaFreeHost(e->remote.remote.memory);
}
