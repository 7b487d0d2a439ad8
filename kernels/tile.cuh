/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes on their way from memory to memory through a block's shared memory, by the SM's copy unit, which GPUs have from Hopper on:
 * one thread moves 4 KB with some twenty instructions. Beside a kernel that fills the GPU every instruction of another one waits
 * long for its turn, so there a warp copies twice as fast as by its own loads and stores (docs/lab/gpus.md).
 *
 * One thread of a block has one tile: it loads, awaits what it has loaded, stores, and so on. Addresses and bytes are multiples of 16.
 */
#ifndef TILE_CUH
#define TILE_CUH

#include <stdint.h>

enum { TILE_BYTES = 4096 };
#if __CUDA_ARCH__ >= 900
enum { TILE_IS_HERE = 1 };
#else
enum { TILE_IS_HERE = 0 }; /* the rest does nothing */
#endif

struct tile {
	uint32_t bytes, arrived; /* in shared memory: the bytes; a barrier that counts those that have come */
	uint32_t turn; /* of the barrier, its parity */
};

enum { TILE_SHARED = TILE_BYTES + sizeof(uint64_t) }; /* of shared memory a block */

/* What this thread has heard of before is seen by the copy unit, too. */
__device__ static inline tile tile_open(void)
{
#if __CUDA_ARCH__ >= 900
	extern __shared__ unsigned char tile_memory[];
	const uint32_t bytes = (uint32_t)__cvta_generic_to_shared(tile_memory);
	const tile t = { bytes, bytes + TILE_BYTES, 0 };
	asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(t.arrived) : "memory");
	asm volatile("fence.proxy.async;" : : : "memory");
	return t;
#else
	return {};
#endif
}

__device__ static inline void tile_load(const tile *t, const unsigned char *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(t->arrived), "r"(bytes) : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
		     :
		     : "r"(t->bytes), "l"(from), "r"(bytes), "r"(t->arrived)
		     : "memory");
#endif
}

__device__ static inline void tile_await(tile *t)
{
#if __CUDA_ARCH__ >= 900
	uint32_t here;
	do
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
			     : "=r"(here)
			     : "r"(t->arrived), "r"(t->turn)
			     : "memory");
	while (!here);
	t->turn ^= 1;
#endif
}

/* Waits until the tile may be loaded again; what it held may still be on its way. */
__device__ static inline void tile_store(const tile *t, unsigned char *to, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" : : "l"(to), "r"(t->bytes), "r"(bytes) : "memory");
	asm volatile("cp.async.bulk.commit_group;" : : : "memory");
	asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
#endif
}

/* Waits until all that was stored has arrived: it is as if this thread had stored it, and the tile is closed. */
__device__ static inline void tile_close(const tile *t)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
	asm volatile("mbarrier.inval.shared::cta.b64 [%0];" : : "r"(t->arrived) : "memory");
#endif
}

/* Brings bytes that will be loaded later into the second-level cache. */
__device__ static inline void tile_prefetch(const unsigned char *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(from), "r"(bytes) : "memory");
#endif
}

#endif
