/* The pool of pinned memory: the driver takes tens of milliseconds to pin so much, and waits for every kernel of the GPU before it frees it. */
#include "engine_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that nobody uses, at most: beyond, what is given back is freed. */
static const size_t most_spare = (size_t)256 << 20;

struct block {
	struct block *next;
	void *memory;
	size_t bytes;
	int taken;
};

static struct {
	pthread_mutex_t lock;
	struct block *first;
	size_t spare; /* bytes of blocks that are not taken */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* 0: the program has reset the device, and the memory is gone. */
static int is_pinned(const struct block *b)
{
	struct cudaPointerAttributes attributes;
	if (cudaPointerGetAttributes(&attributes, b->memory) == cudaSuccess)
		return attributes.type == cudaMemoryTypeHost;
	cudaGetLastError(); /* ours, not the user's */
	return 0;
}

static struct block *smallest_for(size_t bytes)
{
	struct block *found = NULL;
	for (struct block *b = pool.first; b; b = b->next)
		if (!b->taken && b->bytes >= bytes && b->bytes <= 2 * bytes &&
		    (!found || b->bytes < found->bytes))
			found = b;
	return found;
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
static struct block *take_spare(size_t bytes)
{
	struct block *b;
	pthread_mutex_lock(&pool.lock);
	while ((b = smallest_for(bytes))) {
		pool.spare -= b->bytes;
		b->taken = 1;
		if (is_pinned(b))
			break;
		forget(b);
	}
	pthread_mutex_unlock(&pool.lock);
	return b;
}

static cudaError_t allocate(size_t bytes, struct block **out)
{
	struct block *b = calloc(1, sizeof *b);
	if (!b)
		return cudaErrorMemoryAllocation;
	const cudaError_t error = cudaHostAlloc(&b->memory, bytes, cudaHostAllocPortable);
	if (error != cudaSuccess) {
		free(b);
		return error;
	}
	b->bytes = bytes;
	b->taken = 1;
	pthread_mutex_lock(&pool.lock);
	b->next = pool.first;
	pool.first = b;
	pthread_mutex_unlock(&pool.lock);
	*out = b;
	return cudaSuccess;
}

cudaError_t engine_pinned_take(size_t bytes, void **out)
{
	struct block *b = take_spare(bytes);
	const cudaError_t error = b ? cudaSuccess : allocate(bytes, &b);
	if (error != cudaSuccess)
		return error;
	memset(b->memory, 0, bytes); /* every page is there before a kernel waits */
	*out = b->memory;
	return cudaSuccess;
}

void engine_pinned_give(void *memory)
{
	void *freed = NULL;
	pthread_mutex_lock(&pool.lock);
	struct block *b = memory ? pool.first : NULL;
	while (b && b->memory != memory)
		b = b->next;
	if (b && pool.spare + b->bytes > most_spare) {
		freed = memory;
		forget(b);
	} else if (b) {
		b->taken = 0;
		pool.spare += b->bytes;
	}
	pthread_mutex_unlock(&pool.lock);
	if (freed) /* waits for kernels: not under the lock */
		cudaFreeHost(freed);
}
