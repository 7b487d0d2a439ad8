/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors on their way from memory to a thread: slots of its own in shared memory, filled while it goes on. They cost no
 * registers, so a few lean warps keep as much under way as many large blocks would (docs/lab/gpus.md).
 *
 * A thread requests vectors in batches, and takes those of the oldest batch when it has arrived.
 */
#ifndef RING_CUH
#define RING_CUH

#include "vector.cuh"

enum { RING_SLOTS = 8, RING_BYTES = RING_SLOTS * sizeof(vector) /* of shared memory a thread */ };

struct ring {
	uint32_t slots; /* this thread's first one, in shared memory: rows of a vector a lane, one behind the other */
};

/* Of a block of one warp. */
__device__ static inline ring ring_open(void)
{
	extern __shared__ vector ring_memory[];
	return { (uint32_t)__cvta_generic_to_shared(ring_memory + threadIdx.x) };
}

__device__ static inline uint32_t ring_slot(const ring *r, uint32_t slot)
{
	return r->slots + slot * 32 * (uint32_t)sizeof(vector);
}

/* From an aligned address. Not cached by the SM: peers may have written it. GPUs before Ampere wait for it. */
__device__ static inline void ring_request(ring *r, uint32_t slot, const unsigned char *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(ring_slot(r, slot)), "l"(from) : "memory");
#else
	const vector v = __ldcg((const vector *)from);
	asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" : : "r"(ring_slot(r, slot)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}

/* Ends a batch, which may be empty. */
__device__ static inline void ring_end_batch(ring *)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Waits for all batches but the last LATER. */
template <int LATER> __device__ static inline void ring_await(ring *)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" : : "n"(LATER) : "memory");
#endif
}

__device__ static inline vector ring_take(const ring *r, uint32_t slot)
{
	vector v;
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(ring_slot(r, slot)) : "memory");
	return v;
}

/* Brings 128 bytes nearer, which will be requested later. */
__device__ static inline void ring_prefetch(const unsigned char *from)
{
	asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
}

#endif
