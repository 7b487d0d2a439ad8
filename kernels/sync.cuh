/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All memory order of the kernels: accesses at system scope, and the one wait of the device side.
 *
 * A message is published so: all threads of a block store its payload; the block's barrier; one thread stores
 * the header's words and then, with release, its sequence. Barrier and release are cumulative, so whoever
 * acquires the sequence sees the stores of all threads. It is taken so: one thread acquires the sequence; the
 * block's barrier; all threads load. Payload loads must be ordinary ones: never through the non-coherent path.
 */
#ifndef SYNC_CUH
#define SYNC_CUH

#include <stdint.h>

__device__ static inline uint64_t sync_load_relaxed(const uint64_t *word)
{
	uint64_t value;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

/*
 * A pointer whose origin the compiler does not see, as from shared memory, is to global memory. Else it stores by generic addresses, behind which it loads again what it has
 * spilled.
 */
__device__ static inline void sync_assume_global(const void *p)
{
	__builtin_assume(__isGlobal(p));
}

/* Does not wait for this thread's own stores, as a fence behind a relaxed load does: under load those take microseconds. */
__device__ static inline uint64_t sync_load_acquire(const uint64_t *word)
{
	uint64_t value;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

/* Two words of one packet of 16 bytes that the host writes, the first one last: read in one access, so who finds the first finds the second. */
__device__ static inline void sync_acquire_pair(const uint64_t *from, uint64_t *first, uint64_t *second)
{
	asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(*first), "=l"(*second) : "l"(from) : "memory");
}

__device__ static inline uint32_t sync_load_host(const uint32_t *word)
{
	uint32_t value;
	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
	return value;
}

__device__ static inline void sync_store_relaxed(uint64_t *word, uint64_t value)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

/* A packet of 16 bytes: it may arrive in two halves or four words, each of them whole. */
__device__ static inline uint4 sync_load_packet(const void *from)
{
	uint4 v;
	asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(from)
		     : "memory");
	return v;
}

__device__ static inline void sync_store_packet(void *to, uint4 v)
{
	asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
}

__device__ static inline void sync_fence(void)
{
	asm volatile("fence.acq_rel.sys;" : : : "memory");
}

__device__ static inline void sync_store_release(uint64_t *word, uint64_t value)
{
	sync_fence();
	sync_store_relaxed(word, value);
}

/* After loads whose values have come, as stores of them elsewhere show; no store is ordered before it. */
__device__ static inline void sync_store_after_loads(uint64_t *word, uint64_t value)
{
	sync_store_relaxed(word, value);
}

__device__ static inline uint64_t sync_now_ns(void)
{
	uint64_t ns;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* Counts one up, without a fence: stores of this thread before it may still be under way, for less than a microsecond. */
__device__ static inline void sync_count(uint64_t *word)
{
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" : : "l"(word) : "memory");
}

/* After sync_count has been seen: until those stores have arrived for sure. */
__device__ static inline void sync_settle(void)
{
	for (uint64_t begin = sync_now_ns(); sync_now_ns() - begin < 4000;)
		;
	sync_fence();
}

/* Between two looks of a wait that is in no hurry. */
__device__ static inline void sync_nap(void)
{
	asm volatile("nanosleep.u32 100000;" ::: "memory");
}

/* The end of the kernel before this one on the stream, where that one was launched to overlap. */
__device__ static inline void sync_previous_kernel(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* From now on the next kernel on the stream may be brought up; it waits for this one's end by sync_previous_kernel. When all blocks of this one
 * have come so far, so it takes no place from them. */
__device__ static inline void sync_next_kernel(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* A barrier of some warps of a block, by its number; 0 is the whole block's. The second form says whether all brought true. */
__device__ static inline void sync_warps(uint32_t barrier, uint32_t threads)
{
	asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

__device__ static inline bool sync_warps_and(uint32_t barrier, uint32_t threads, bool mine)
{
	uint32_t all;
	asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %3, 0; bar.red.and.pred q, %1, %2, p; selp.u32 %0, 1, 0, q; }"
		     : "=r"(all)
		     : "r"(barrier), "r"(threads), "r"((uint32_t)mine)
		     : "memory");
	return all != 0;
}

#endif
