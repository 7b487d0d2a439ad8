/*
 * The movement of data: sources folded into targets by all threads of a block, or of a team of blocks. Operators
 * are types, so that a kernel for another type or operator is one more row of a table of kernels.
 */
#ifndef FOLD_CUH
#define FOLD_CUH

#include <stdint.h>

#include "kernels.h"

struct fold {
	int nsources, ntargets;
	const unsigned char *sources[KERNELS_MAX_PEERS + 1];
	unsigned char *targets[KERNELS_MAX_PEERS + 1];
	size_t count;      /* elements */
	int member, width; /* which block of how many in its team */
};

/* An operator on a type: element as stored, partial as accumulated. */
struct float_sum {
	typedef float element;
	typedef float partial;
	__device__ static partial load(element e)
	{
		return e;
	}
	__device__ static partial combine(partial a, partial b)
	{
		return __fadd_rn(a, b);
	}
	__device__ static element finish(partial p)
	{
		return p == p ? p : __uint_as_float(0x7fc00000); /* every NaN comes out as the canonical one */
	}
};

struct alignas(16) vector {
	unsigned char bytes[16];
};

template <class Op, int N> struct pack {
	typename Op::element e[N];
};

/* A team's blocks take turns of a block's threads. */
__device__ static size_t first_unit(const struct fold *f)
{
	return (size_t)f->member * blockDim.x + threadIdx.x;
}

__device__ static size_t unit_stride(const struct fold *f)
{
	return (size_t)f->width * blockDim.x;
}

enum { IN_FLIGHT = 4 }; /* units that a thread loads before it stores the first */

/* Folds units i, i + stride, ...: n of them, at most IN_FLIGHT. A unit is one element, or as many as fill 16 bytes. */
template <class Op, int N>
__device__ static void fold_some(const struct fold *f, size_t begin, size_t i, size_t stride, int n)
{
	typedef pack<Op, N> unit __attribute__((aligned(sizeof(typename Op::element) * N)));
	typename Op::partial sum[IN_FLIGHT][N];
	for (int k = 0; k < f->nsources; k++) {
		const unit *source = (const unit *)(f->sources[k] + begin) + i;
		unit in[IN_FLIGHT];
#pragma unroll
		for (int u = 0; u < IN_FLIGHT; u++)
			if (u < n)
				in[u] = source[u * stride];
#pragma unroll
		for (int u = 0; u < IN_FLIGHT; u++)
			for (int j = 0; j < N; j++)
				sum[u][j] = k ? Op::combine(sum[u][j], Op::load(in[u].e[j])) : Op::load(in[u].e[j]);
	}
	for (int k = 0; k < f->ntargets; k++) {
		unit *target = (unit *)(f->targets[k] + begin) + i;
#pragma unroll
		for (int u = 0; u < IN_FLIGHT; u++) {
			unit out;
			for (int j = 0; j < N; j++)
				out.e[j] = Op::finish(sum[u][j]);
			if (u < n)
				target[u * stride] = out;
		}
	}
}

template <class Op, int N> __device__ static void fold_units(const struct fold *f, size_t begin, size_t units)
{
	size_t i = first_unit(f), stride = unit_stride(f);
	for (; i + (IN_FLIGHT - 1) * stride < units; i += IN_FLIGHT * stride)
		fold_some<Op, N>(f, begin, i, stride, IN_FLIGHT);
	for (; i < units; i += stride)
		fold_some<Op, N>(f, begin, i, stride, 1);
}

template <class Unit> __device__ static void copy_units(const struct fold *f, size_t begin, size_t units)
{
	const Unit *from = (const Unit *)(f->sources[0] + begin);
	for (int k = 0; k < f->ntargets; k++) {
		Unit *to = (Unit *)(f->targets[k] + begin);
		size_t i = to == from ? units : first_unit(f), stride = unit_stride(f);
		for (; i + (IN_FLIGHT - 1) * stride < units; i += IN_FLIGHT * stride) {
			Unit unit[IN_FLIGHT];
			for (int u = 0; u < IN_FLIGHT; u++)
				unit[u] = from[i + u * stride];
			for (int u = 0; u < IN_FLIGHT; u++)
				to[i + u * stride] = unit[u];
		}
		for (; i < units; i += stride)
			to[i] = from[i];
	}
}

/* True if every pointer of the action is a multiple of bytes. */
__device__ static bool aligned(const struct fold *f, unsigned bytes)
{
	uintptr_t all = 0;
	for (int k = 0; k < f->nsources; k++)
		all |= (uintptr_t)f->sources[k];
	for (int k = 0; k < f->ntargets; k++)
		all |= (uintptr_t)f->targets[k];
	return all % bytes == 0;
}

template <class Op> __device__ static void fold_all(const struct fold *f)
{
	const size_t element = sizeof(typename Op::element), bytes = f->count * element;
	const size_t bulk = aligned(f, sizeof(vector)) ? bytes / sizeof(vector) * sizeof(vector) : 0;
	if (f->nsources == 1) { /* bits are kept */
		copy_units<vector>(f, 0, bulk / sizeof(vector));
		copy_units<typename Op::element>(f, bulk, (bytes - bulk) / element);
	} else if (f->nsources > 1) {
		fold_units<Op, sizeof(vector) / sizeof(typename Op::element)>(f, 0, bulk / sizeof(vector));
		fold_units<Op, 1>(f, bulk, (bytes - bulk) / element);
	}
}

#endif
