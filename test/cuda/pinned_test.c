/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of memory whose freeing waits for the GPU: what the driver is asked for, and what communicators share one after the other. The test is the driver. */
#include "test/helpers/unit.h"
#include "cuda/engine_cuda.h"
#include "net/connections.h"

enum { MEBI = 1 << 20, COMMS = 16 };

static size_t allocated;
static int allocations, frees, fails, forgets; /* forgets: the device was reset */

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	static void *all[64]; /* what the pool forgets after a reset is no leak */
	assert_int_equal(flags, cudaHostAllocPortable);
	if (fails || !(*memory = malloc(bytes)))
		return cudaErrorMemoryAllocation;
	memset(*memory, 0xff, bytes);
	all[allocations % 64] = *memory;
	assert_non_null(all[allocations % 64]);
	allocations++;
	allocated += bytes;
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
	frees++;
	free(memory);
	return cudaSuccess;
}

static int registered, mallocs;
static unsigned char on_gpus[4][MEBI]; /* by number of the cudaMalloc */

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	assert_int_equal(flags, cudaHostRegisterMapped | cudaHostRegisterPortable);
	registered++;
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	assert_true(mallocs < 4 && bytes <= MEBI);
	*memory = on_gpus[mallocs++];
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
	attributes->type = forgets ? 0 : cudaMemoryTypeHost;
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

static unsigned long long resets; /* of the GPUs: other memory lies there */

static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr at)
{
	assert_int_equal(attribute, CU_POINTER_ATTRIBUTE_BUFFER_ID);
	*(unsigned long long *)value = at + resets;
	return CUDA_SUCCESS;
}

static const struct engine engines[2] = { { .driver.pointer_attribute = pointer_attribute },
					  { .driver.pointer_attribute = pointer_attribute, .ordinal = 1 } };

static unsigned char *take(size_t bytes)
{
	void *memory = NULL;
	assert_int_equal(engine_pool_take(&engines[0], POOL_PINNED, bytes, &memory), cudaSuccess);
	for (size_t i = 0; i < bytes; i += 4096)
		assert_int_equal(((unsigned char *)memory)[i], 0);
	memset(memory, 1, bytes);
	return memory;
}

/* Communicators of 2 nodes of 8 ranks, made and freed twice: at most 16 MiB each, and the driver is asked once for each. */
UNIT_TEST(many)
{
	const size_t cap = (size_t)16 * MEBI;
	const struct remote shape = connections_shape(16, 2, 8, 8, cap);
	const size_t bytes = connections_bytes(&shape, cap);
	void *blocks[COMMS];
	assert_true(bytes <= cap && shape.slots[REMOTE_OF_PLANS].bytes > 60000);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COMMS; i++)
			blocks[i] = take(bytes);
		assert_int_equal(allocations, COMMS);
		assert_int_equal(allocated, COMMS * bytes);
		for (int i = 0; i < COMMS; i++)
			engine_pool_give(blocks[i]);
	}
	assert_int_equal(frees, 0);
}

/* Behind many: what it has left is nearly 256 MiB, of which no more stays. A block of more than twice the size is not taken. */
UNIT_TEST(sizes)
{
	unsigned char *small = take(4 * MEBI), *large = take(20 * MEBI), *fits = take(9 * MEBI);
	assert_int_equal(allocations, COMMS + 2);
	engine_pool_give(fits);
	engine_pool_give(NULL);
	assert_int_equal(frees, 0);
	engine_pool_give(large);
	engine_pool_give(small);
	assert_int_equal(frees, 2);
}

/* Words, and memory of GPUs, are never freed; that of one GPU serves no other. */
UNIT_TEST(others)
{
	void *words = NULL, *again = NULL, *gpus[2] = { NULL, NULL }, *third = NULL;
	assert_int_equal(engine_pool_take(&engines[0], POOL_WORDS, 4096, &words), cudaSuccess);
	memset(words, 1, 4096);
	engine_pool_give(words);
	assert_int_equal(engine_pool_take(&engines[0], POOL_WORDS, 4096, &again), cudaSuccess);
	assert_true(again == words && registered == 1 && !*(char *)again);
	for (int i = 0; i < 2; i++)
		assert_int_equal(engine_pool_take(&engines[i], POOL_GPU, MEBI, &gpus[i]), cudaSuccess);
	engine_pool_give(gpus[0]);
	assert_int_equal(engine_pool_take(&engines[0], POOL_GPU, MEBI / 2, &third), cudaSuccess);
	assert_ptr_equal(third, gpus[0]);
	engine_pool_give(gpus[1]);
	assert_int_equal(engine_pool_take(&engines[0], POOL_GPU, MEBI, &third), cudaSuccess);
	assert_true(third != gpus[1] && mallocs == 3);
	engine_pool_give(third);
	resets++;
	assert_int_equal(engine_pool_take(&engines[0], POOL_GPU, MEBI, &gpus[0]), cudaSuccess);
	assert_true(gpus[0] != third && mallocs == 4);
	engine_pool_give(again);
	assert_int_equal(frees, 2);
}

/* After a reset of the device nothing of it is used. */
UNIT_TEST(lost)
{
	const int before = allocations;
	void *memory = NULL;
	forgets = 1;
	take(15 * MEBI);
	assert_int_equal(allocations, before + 1);
	forgets = 0;
	take(15 * MEBI);
	assert_int_equal(allocations, before + 2);
	fails = 1;
	assert_int_equal(engine_pool_take(&engines[0], POOL_PINNED, MEBI, &memory),
			 cudaErrorMemoryAllocation);
	assert_null(memory);
}
