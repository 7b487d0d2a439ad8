/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of CUDA that the fused kernels use, for a C++ compiler and gpu.h. */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

#include <stdint.h>
#include <string.h>

#include "gpu.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__

struct gpu_x {
	unsigned x;
};
#define threadIdx (gpu_x{ gpu_thread() })
#define blockDim (gpu_x{ gpu_threads() })
#define blockIdx (gpu_x{ gpu_block() })
#define gridDim (gpu_x{ gpu_blocks() })

/* Kernels store the user's data by assignments of it. */
struct alignas(16) uint4 {
	uint32_t x, y, z, w;
	uint4() = default;
	uint4(const uint4 &) = default;
	uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) : x(x), y(y), z(z), w(w)
	{
	}
	uint4 &operator=(const uint4 &v)
	{
		x = v.x;
		y = v.y;
		z = v.z;
		w = v.w;
		if (gpu_recording)
			gpu_stored(this, &v);
		return *this;
	}
};

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	return { x, y, z, w };
}

struct alignas(8) uint2 {
	uint32_t x, y;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
	return { x, y };
}

/* ---- Meetings */

static inline void __syncthreads()
{
	gpu_barrier(0, 0, 1);
}

static inline int __syncthreads_and(int good)
{
	return gpu_barrier(0, 0, good);
}

static inline int __syncthreads_or(int yes)
{
	return !gpu_barrier(0, 0, !yes);
}

static inline unsigned __ballot_sync(unsigned mask, int yes)
{
	return gpu_ballot(mask, yes);
}

static inline int __all_sync(unsigned mask, int yes)
{
	return gpu_ballot(mask, !yes) == 0;
}

static inline int __any_sync(unsigned mask, int yes)
{
	return gpu_ballot(mask, yes) != 0;
}

static inline void __syncwarp(unsigned mask = ~0u)
{
	gpu_warp_barrier(mask);
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int source)
{
	static_assert(sizeof(T) <= sizeof(uint64_t), "a lane posts 8 bytes");
	uint64_t posted = 0;
	memcpy(&posted, &value, sizeof(value));
	posted = gpu_shuffle(mask, posted, (unsigned)source);
	memcpy(&value, &posted, sizeof(value));
	return value;
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits)
{
	return __shfl_sync(mask, value, (int)(gpu_thread() % GPU_WARP) ^ bits);
}

static inline int __ffs(int word)
{
	return __builtin_ffs(word);
}

static inline int __popc(unsigned word)
{
	return __builtin_popcount(word);
}

/* ---- Memory */

template <class T> static inline T atomicCAS(T *word, T expected, T desired)
{
	gpu_maybe(2);
	__atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return expected;
}

/* Orders, as fences around it do on a GPU, which the thread sanitizer does not know. */
template <class T> static inline T atomicAdd(T *word, T more)
{
	gpu_maybe(2);
	return __atomic_fetch_add(word, more, __ATOMIC_ACQ_REL);
}

template <class T> static inline T atomicExch(T *word, T value)
{
	gpu_maybe(2);
	return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
}

template <class T> static inline T atomicMax(T *word, T least)
{
	gpu_maybe(2);
	T old = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (old < least &&
	       !__atomic_compare_exchange_n(word, &old, least, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	return old;
}

template <class T> static inline T atomicXor(T *word, T bits)
{
	gpu_maybe(2);
	return __atomic_fetch_xor(word, bits, __ATOMIC_ACQ_REL);
}

template <class T> static inline T __ldcg(const T *from)
{
	return *from;
}

template <class T> static inline T __ldcs(const T *from)
{
	return *from;
}

template <class T> static inline void __stcg(T *to, T value)
{
	*to = value;
}

template <class T> static inline void __stcs(T *to, T value)
{
	*to = value;
}

#endif
