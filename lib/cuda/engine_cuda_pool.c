/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of memory that the driver frees only when no kernel runs on the GPU, of the program neither. What engines give back serves later ones, so the
 * end of an engine does not wait for the work of others. Pinning memory takes the driver tens of milliseconds, too.
 */
#define _GNU_SOURCE
#include "engine_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes of POOL_PINNED that nobody uses, at most: beyond, what is given back is freed. */
static const size_t most_spare = (size_t)256 << 20;

struct block {
	struct block *next;
	void *memory;
	size_t bytes;
	enum engine_pool kind;
	int device; /* of POOL_GPU */
	unsigned long long id; /* of POOL_GPU: of the driver, for no other memory of the process */
	int taken;
};

static struct {
	pthread_mutex_t lock;
	struct block *first;
	size_t spare; /* bytes of POOL_PINNED that are not taken */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of memory of a GPU; 0: it is none. */
static unsigned long long id_of(const struct engine *e, const void *memory)
{
	unsigned long long id = 0;
	return e->driver.pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					   (CUdeviceptr)(uintptr_t)memory) == CUDA_SUCCESS
		   ? id
		   : 0;
}

/* 0: the program has reset the device, and the memory is gone. */
static int is_there(const struct engine *e, const struct block *b)
{
	struct cudaPointerAttributes attributes;
	if (b->kind == POOL_GPU) /* the program may have other memory there now */
		return b->id && id_of(e, b->memory) == b->id;
	if (cudaPointerGetAttributes(&attributes, b->memory) == cudaSuccess)
		return attributes.type == cudaMemoryTypeHost;
	cudaGetLastError(); /* ours, not the user's */
	return 0;
}

static struct block *smallest_for(enum engine_pool kind, int device, size_t bytes)
{
	struct block *found = NULL;
	for (struct block *b = pool.first; b; b = b->next)
		if (!b->taken && b->kind == kind && (kind != POOL_GPU || b->device == device) &&
		    b->bytes >= bytes && b->bytes <= 2 * bytes && (!found || b->bytes < found->bytes))
			found = b;
	return found;
}

static void count_spare(const struct block *b, int more)
{
	if (b->kind == POOL_PINNED)
		pool.spare = more ? pool.spare + b->bytes : pool.spare - b->bytes;
}

static void forget(struct block *b)
{
	struct block **at = &pool.first;
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	free(b);
}

/* NULL: there is none. */
static struct block *take_spare(const struct engine *e, enum engine_pool kind, size_t bytes)
{
	struct block *b;
	pthread_mutex_lock(&pool.lock);
	while ((b = smallest_for(kind, e->ordinal, bytes))) {
		count_spare(b, 0);
		b->taken = 1;
		if (is_there(e, b))
			break;
		forget(b);
	}
	pthread_mutex_unlock(&pool.lock);
	return b;
}

/*
 * Host memory of our own rather than the runtime's: that of cudaHostAlloc goes when the process exits, or the program resets the GPU, while other
 * threads still read it. Shared, so that a fork never moves the owner's pages, and no child has them.
 */
static cudaError_t map_words(size_t bytes, void **out)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	madvise(at, bytes, MADV_DONTFORK);
	const cudaError_t error =
	    cudaHostRegister(at, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
	if (error != cudaSuccess)
		munmap(at, bytes);
	else
		*out = at;
	return error;
}

static cudaError_t ask_driver(enum engine_pool kind, size_t bytes, void **out)
{
	if (kind == POOL_PINNED)
		return cudaHostAlloc(out, bytes, cudaHostAllocPortable);
	return kind == POOL_GPU ? cudaMalloc(out, bytes) : map_words(bytes, out);
}

static cudaError_t allocate(const struct engine *e, enum engine_pool kind, size_t bytes, struct block **out)
{
	struct block *b = calloc(1, sizeof *b);
	if (!b)
		return cudaErrorMemoryAllocation;
	const cudaError_t error = ask_driver(kind, bytes, &b->memory);
	if (error != cudaSuccess) {
		free(b);
		return error;
	}
	b->bytes = bytes;
	b->kind = kind;
	b->device = e->ordinal;
	b->id = kind == POOL_GPU ? id_of(e, b->memory) : 0;
	b->taken = 1;
	pthread_mutex_lock(&pool.lock);
	b->next = pool.first;
	pool.first = b;
	pthread_mutex_unlock(&pool.lock);
	*out = b;
	return cudaSuccess;
}

cudaError_t engine_pool_take(const struct engine *e, enum engine_pool kind, size_t bytes, void **out)
{
	struct block *b = take_spare(e, kind, bytes);
	const cudaError_t error = b ? cudaSuccess : allocate(e, kind, bytes, &b);
	if (error != cudaSuccess)
		return error;
	if (kind != POOL_GPU)
		memset(b->memory, 0, bytes); /* every page is there before a kernel waits */
	*out = b->memory;
	return cudaSuccess;
}

void engine_pool_give(void *memory)
{
	void *freed = NULL;
	pthread_mutex_lock(&pool.lock);
	struct block *b = memory ? pool.first : NULL;
	while (b && b->memory != memory)
		b = b->next;
	if (b && b->kind == POOL_PINNED && pool.spare + b->bytes > most_spare) {
		freed = memory;
		forget(b);
	} else if (b) {
		b->taken = 0;
		count_spare(b, 1);
	}
	pthread_mutex_unlock(&pool.lock);
	if (freed) /* waits for kernels: not under the lock */
		cudaFreeHost(freed);
}
