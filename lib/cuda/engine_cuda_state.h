/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA engine as data, and what each launch changes of it. */
#ifndef ENGINE_CUDA_STATE_H
#define ENGINE_CUDA_STATE_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "kernels/codelets.h"
#include "cuda_driver.h"
#include "engine.h"
#include "exporter.h"

/* A peer's allocation as it is mapped here. */
struct engine_opened {
	void *base; /* NULL: none */
	size_t bytes; /* of what came by a descriptor; 0: it came by the runtime's inter-process calls */
};

/*
 * Memory of the user that peers map: what kernels and copies need for stores into it. A target (engine.h) names a
 * region and an offset: rank r's byte is at peers[r] + offset on the host's side, gpu_peers[r] + offset in a kernel.
 */
struct engine_region {
	unsigned char *begin; /* here; NULL: this region is free */
	size_t bytes; /* the least of all ranks' */
	unsigned char **peers; /* by rank, on the host; mine is begin */
	unsigned char **gpu_peers; /* the same in GPU memory */
	struct engine_opened *opened; /* by rank: what to close */
	int exported; /* all of it came by descriptors */
	/* the allocation that held it when it was attached */
	CUdeviceptr allocation;
	size_t allocation_bytes;
	unsigned long long buffer_id;
};

/* The stream of the last call, of the eager ones or of those captured. */
struct engine_last {
	cudaStream_t stream; /* of an eager call: perhaps destroyed since */
	unsigned long long id; /* which no other stream has, nor another thread's cudaStreamPerThread */
	uint64_t capture; /* of a captured call; 0: there was none */
};

/* A lowered plan on the GPU. */
struct engine_list {
	struct lowered host;
	const unsigned char *memory; /* its operations, then its peers, then those of other nodes */
	int nfar; /* ranks of other nodes in it */
	int16_t few_far[CODELET_FEW_FAR]; /* the first of them */
	int receives_from_all; /* inside a node: this rank receives something from each other one */
	uint32_t open; /* channels whose connections to them are, a bit each */
};

struct engine_lists {
	struct engine_list *list;
	int n, room;
	unsigned char *memory;
	size_t bytes, used;
};

struct engine_connections {
	remote_offset *offsets; /* as on the GPU */
	uint64_t first_new, end_new; /* of offsets: between these the GPU lacks some */
	struct proxy *proxy;
	size_t bytes; /* of the pinned memory */
};

/* GPU memory for slots that adapters reach. */
struct engine_slab_memory {
	void *at; /* NULL: none */
	size_t bytes;
	/* kernels that look at what comes: each has words of its own, in pinned memory; */
	struct probe_words *words; /* until the engine ends */
	cudaStream_t probing; /* of the one that runs */
	int probes, senders; /* so many kernels, with words for each sender */
	int unbegun; /* kernels that must end and have not begun: they will read their words */
};

/* In pinned memory of the host. */
struct engine_words {
	struct codelet_failure failure; /* written by kernels */
	uint64_t waits[CODELET_MAX_RANKS]; /* written by kernels */
	uint32_t abort, hold; /* read by kernels */
	uint64_t stop; /* what peers' windows get as struct codelet_control */
	uint64_t done; /* codelet_state.done, as engine_wait_own has copied it last */
};

enum { ENGINE_COPY_JOBS = 2 * CODELET_MAX_RANKS }; /* of a round by copy engines */

/* Where a launch's packets or messages lie. */
enum engine_area { AREA_WORDS, AREA_LINES, AREA_SLOTS, AREA_SCRATCH, ENGINE_AREAS };

struct engine {
	struct cuda_driver driver;
	CUcontext context; /* for threads in which another GPU is current */
	cudaStream_t control; /* its copies wait for no call */
	struct engine_words *words;
	int rank, ranks, ordinal; /* among the ranks of this node */
	int world_rank, world_ranks; /* among all; in messages */
	struct gpu_machine machine; /* as all ranks of the node have it from share_machine on */
	struct codelet_args args[ENGINE_AREAS]; /* of all launches: a call sets the rest */
	const int *index_of; /* of each rank of the communicator; NULL: all are of this node */
	struct engine_own_gpu gpu;
	struct codelet_layout layout;
	CUdeviceptr base; /* of the addresses for all windows */
	size_t stride; /* bytes of one window in them; 0: nothing is reserved */
	CUmemGenericAllocationHandle *handles; /* by rank */
	unsigned char *mapped; /* by rank: 1 while mapped */
	int hangs; /* a copy to or from a peer does not end: nothing is freed */
	int host_fd; /* of this rank's window in host memory, until it is passed on; -1: none */
	struct codelet_state *state; /* on the GPU */
	struct codelet_failure *failure; /* in words */
	uint32_t *abort, *hold; /* in words */
	uint64_t *waits; /* in words, by rank of this node */
	int holds; /* engine_params.holds */
	_Atomic int released; /* for good */
	uint32_t launches; /* each has its number, */
	int staging; /* but those of a call whose thread waits for the stream: they do not hold it */
	struct codelet_p2p *p2p; /* the arguments of a launch, too large for a stack, as are */
	struct stage_room *staged; /* copies of buffers, and */
	struct codelet_job *jobs; /* a round by copy engines (codelet/copies.h) */
	size_t bytes; /* of GPU memory held */
	void *_Atomic
	    spare; /* a little of it, which waiting for the whole GPU frees; of one thread at a time */
	pthread_mutex_t opened_lock; /* of what regions have mapped of peers, which two threads may give up */
	struct engine_region regions[ENGINE_MAX_REGIONS];
	int nregions; /* those from here on are free */
	unsigned char **
	    gpu_peers; /* of all regions, in GPU memory: from the start, as a send may wait while the first is made */
	/* buffers that peers read; NULL: none */
	struct exporter *exporter;
	struct exporter_user exporter_user;
	const struct exports **exports, **gpu_exports; /* tables by rank; the same in GPU memory */
	/* calls by copy engines */
	cudaStream_t second, work; /* for what runs beside the user's stream; made with the first region */
	cudaEvent_t ready; /* of one of these streams, for another */
	size_t memory_cap;
	void *scratch; /* two buffers of a chunk from each other rank; NULL: none yet */
	int scratch_region;
	struct engine_lists lists;
	struct remote_calls remote; /* ranks of other nodes; counts: on the GPU */
	struct engine_connections connections; /* to them */
	struct engine_slab_memory slab;
	int edges_at_once; /* of a launch, in each direction */
	/* the order of calls */
	struct engine_last last_eager, last_captured;
	uint32_t follows; /* the last kernel launched is a follower (engine_cuda_order.c) */
	uint64_t counted; /* what the eager launches so far add to the state's `done` */
	int last_captures; /* the last call was captured */
	int captured; /* a call was, so that a graph may name our memory */
	int lost_count; /* a launch has failed, which `counted` may contain */
	/* of what captured all_to_alls in place send: one for all, whose order is the caller's; never freed */
	void *graph_copy;
	uint64_t graph_copy_bytes;
	_Atomic int calling, closed; /* a call is being enqueued; collectives are refused */
	cudaEvent_t order;
	cudaEvent_t copied; /* of a communicator of one rank: after its last eager copy */
};

/* Of messages: it sends to another rank; it receives from one; the rest are copies within the rank, with both buffers. */
static inline int engine_sends(const struct call *c)
{
	return !c->recv && c->record.coll == CORALE_SEND;
}

static inline int engine_receives(const struct call *c)
{
	return c->record.coll == CORALE_RECV;
}

/* The code of the first failure of a kernel; 0: none. */
static inline int engine_failed(const struct engine *engine)
{
	return *(const volatile int32_t *)&engine->failure->code;
}

/* What codelet_args.launch of the next launch says. */
static inline uint32_t engine_next_launch(struct engine *e)
{
	if (e->staging)
		return 0;
	e->launches += e->launches + 1 ? 1 : 2;
	return e->launches;
}

/* A launch whose blocks, or warps, count themselves (codelet_args.counted) is so many of them. */
static inline void engine_count(struct engine *e, int n)
{
	if (!e->last_captures)
		__atomic_store_n(&e->counted, e->counted + (uint64_t)n, __ATOMIC_RELAXED);
}

/* Whether the next launch is the first one behind a follower. */
static inline uint32_t engine_take_follows(struct engine *e)
{
	const uint32_t follows = e->follows;
	e->follows = 0;
	return follows;
}

/* What differs from launch to launch. */
static inline void engine_number_args(struct engine *e, struct codelet_args *a)
{
	a->launch = engine_next_launch(e);
	a->counted = !e->last_captures;
	a->follows = engine_take_follows(e);
}

#endif
