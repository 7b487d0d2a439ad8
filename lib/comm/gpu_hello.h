/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake of the ranks of a CUDA communicator, and what follows from it: the same on all ranks. Pure. */
#ifndef GPU_HELLO_H
#define GPU_HELLO_H

#include "cuda/engine.h"
#include "host/fdpass.h"

struct gpu_hello {
	struct engine_identity id;
	char name[FDPASS_NAME_BYTES];
	char gpu[ENGINE_NAME_BYTES];
	int32_t max_blocks; /* of a kernel, by the GPU's size and the settings; */
	int32_t processors; /* of its GPU */
	int32_t offered; /* beside other communicators of the process (gpu_blocks.h), once its GPU is known */
	uint64_t process;
	int32_t bus_gbs; /* engine_own_gpu.bus_gbs */
	int32_t untried; /* its process has not tried peers' memory (gpu_peers.c) */
	int32_t no_scratch; /* it was created to make none */
	int32_t
	    exports; /* it has a board, on which allocations stand that others may map (cuda/exporter.h) */
};

int gpu_hello_on_one_gpu(const struct gpu_hello *a, const struct gpu_hello *b);

/* Ranks of a rank's process that are on its GPU, itself included. */
int gpu_hello_beside(const struct gpu_hello *all, int ranks, int rank);

/* Blocks of a rank's kernels. Ranks of one process on one GPU divide them, and all ranks of a GPU fit on it together, as their kernels wait for each other side by
 * side (those of several processes under MPS). 0: more ranks of one process are there than the kernels may have blocks. */
int gpu_hello_share(const struct gpu_hello *all, int ranks, int rank);

/* A rank whose process has another rank on the same GPU; -1: there is none. */
int gpu_hello_find_beside(const struct gpu_hello *all, int ranks);

/* A rank whose process has another rank, on whatever GPU; -1: there is none. */
int gpu_hello_find_process(const struct gpu_hello *all, int ranks);

/* Whether ranks can read each other's buffers: all have boards. */
int gpu_hello_all_export(const struct gpu_hello *all, int ranks);

/* A rank that was created to make no scratch; -1: there is none. */
int gpu_hello_find_no_scratch(const struct gpu_hello *all, int ranks);

#endif
