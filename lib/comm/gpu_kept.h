/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of messages between nodes that outlives its communicator: a peer that has not closed its side yet may still write there. It is freed when
 * that is through, at the next end of a communicator over several nodes of GPUs: not at a creation, as freeing pinned memory waits for kernels that wait for peers.
 */
#ifndef GPU_KEPT_H
#define GPU_KEPT_H

#include "cuda/engine.h"

struct gpu_direct;
struct proxy;

struct gpu_kept {
	struct proxy *proxy; /* stopped; NULL: none */
	struct gpu_direct *direct; /* its rails are closed; NULL: none */
};

/* Frees what is kept, with the engine's memory for it, now or later. slab_alone: the engine still uses its pinned memory. Any thread. */
void gpu_keep(struct gpu_kept kept, struct engine *engine, int slab_alone);

#endif
