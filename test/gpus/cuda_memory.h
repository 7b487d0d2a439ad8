/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of every kind that a caller of a CUDA communicator may have, handed out piece by piece. */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

#include "cuda_world.h"

enum cuda_memory_kind {
	CUDA_MEMORY_DEVICE, /* cudaMalloc */
	CUDA_MEMORY_ASYNC, /* cudaMallocAsync */
	CUDA_MEMORY_VMM, /* cuMemCreate and cuMemMap, in two pieces */
	CUDA_MEMORY_PINNED, /* cudaMallocHost */
	CUDA_MEMORY_HOST, /* malloc */
	CUDA_MEMORY_LIBRARY, /* corale_mem_alloc */
	CUDA_MEMORY_REGISTERED, /* cudaMalloc and corale_mem_register */
	CUDA_MEMORY_KINDS
};

enum { CUDA_MEMORY_ALIGNMENT = 256, CUDA_MEMORY_VMM_PIECES = 2 };

struct cuda_arena {
	enum cuda_memory_kind kind;
	corale_comm *comm;
	unsigned char *base;
	size_t bytes, used, kept; /* kept: what stays taken when the rest is given back */
	void *handle; /* of a registration */
	size_t piece_bytes;
	unsigned long long pieces[CUDA_MEMORY_VMM_PIECES];
};

const char *cuda_memory_name(enum cuda_memory_kind kind);
/* True if the CPU reads and writes it by plain loads and stores. */
int cuda_memory_on_host(enum cuda_memory_kind kind);

/* Collective over comm for the library's kinds. Returns 0, or -1 with a fault. */
int cuda_arena_open(struct cuda_world *world, struct cuda_arena *arena, enum cuda_memory_kind kind,
		    corale_comm *comm, size_t bytes);
/* Collective likewise; does nothing for an arena of zeros. */
void cuda_arena_close(struct cuda_world *world, struct cuda_arena *arena);
/* NULL if there is no room. What was taken is given back all at once, by setting used to kept. */
unsigned char *cuda_arena_take(struct cuda_arena *arena, size_t bytes);

#endif
