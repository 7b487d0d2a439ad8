/*
 * Bytes on their way from memory to memory through a block's shared memory, by the SM's copy unit, which GPUs have from Hopper on:
 * one thread moves 4 KB with some twenty instructions. Beside a kernel that fills the GPU every instruction of another one waits
 * long for its turn, so there a warp copies twice as fast as by its own loads and stores (docs/performance.md).
 *
 * A thread has N tiles in turn, beside those of other threads of its block: it loads some ahead of those that it stores. Addresses and bytes are multiples of 16.
 */
#ifndef TILE_CUH
#define TILE_CUH

#include <stdint.h>

enum { TILE_BYTES = 4096, TILE_BARRIER = 16 };
#if __CUDA_ARCH__ >= 900
enum { TILE_IS_HERE = 1 };
#else
enum { TILE_IS_HERE = 0 }; /* the rest does nothing */
#endif

/* Of shared memory, each thread that has tiles. */
template <int N> static constexpr int TILES_SHARED = N * (TILE_BYTES + TILE_BARRIER);

template <int N> struct tiles {
	uint32_t memory; /* in shared memory: the tiles, then a barrier for each, which counts the bytes that have come */
	uint32_t loads, stores; /* so far */
};

template <int N> __device__ static inline uint32_t tile_of(const tiles<N> *t, uint32_t turn)
{
	return t->memory + turn % N * TILE_BYTES;
}

template <int N> __device__ static inline uint32_t tile_barrier(const tiles<N> *t, uint32_t turn)
{
	return t->memory + N * TILE_BYTES + turn % N * TILE_BARRIER;
}

/* The shared memory that the launch has given each block for tiles. */
__device__ static inline uint32_t tiles_room(void)
{
	uint32_t bytes;
	asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
	return bytes;
}

/* What this thread has heard of before is seen by the copy unit, too. */
__device__ static inline void tiles_see(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("fence.proxy.async;" : : : "memory");
#endif
}

/* The tiles of the block's thread `number` of those that have some. */
template <int N> __device__ static inline tiles<N> tiles_open(uint32_t number)
{
#if __CUDA_ARCH__ >= 900
	extern __shared__ __align__(128) unsigned char tile_memory[];
	const tiles<N> t = { (uint32_t)__cvta_generic_to_shared(tile_memory) + number * TILES_SHARED<N>, 0, 0 };
#pragma unroll
	for (uint32_t i = 0; i < N; i++)
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(tile_barrier(&t, i)) : "memory");
	tiles_see();
	return t;
#else
	return {};
#endif
}

/* Into the next tile, which is stored and read (tiles_read). */
template <int N> __device__ static inline void tiles_load(tiles<N> *t, const unsigned char *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
	const uint32_t barrier = tile_barrier(t, t->loads);
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
		     :
		     : "r"(tile_of(t, t->loads)), "l"(from), "r"(bytes), "r"(barrier)
		     : "memory");
	t->loads++;
#endif
}

/* Out of the oldest tile that is loaded and not stored, once it is here. */
template <int N> __device__ static inline void tiles_store(tiles<N> *t, unsigned char *to, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
	uint32_t here;
	do
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
			     : "=r"(here)
			     : "r"(tile_barrier(t, t->stores)), "r"(t->stores / N & 1)
			     : "memory");
	while (!here);
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
		     :
		     : "l"(to), "r"(tile_of(t, t->stores)), "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.commit_group;" : : : "memory");
	t->stores++;
#endif
}

/* Waits until all stores but the LATER last ones have read their tiles; what these held may still be on its way. */
template <int LATER, int N> __device__ static inline void tiles_read(tiles<N> *)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(LATER) : "memory");
#endif
}

/* Waits until all that was stored has arrived: it is as if this thread had stored it. */
template <int N> __device__ static inline void tiles_arrive(tiles<N> *)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
#endif
}

template <int N> __device__ static inline void tiles_close(tiles<N> *t)
{
	tiles_arrive(t);
#if __CUDA_ARCH__ >= 900
#pragma unroll
	for (uint32_t i = 0; i < N; i++)
		asm volatile("mbarrier.inval.shared::cta.b64 [%0];" : : "r"(tile_barrier(t, i)) : "memory");
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
