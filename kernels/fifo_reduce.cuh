/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of what the other ranks have stored into slots here. */
#ifndef FIFO_REDUCE_CUH
#define FIFO_REDUCE_CUH

#include "fifo.cuh"

enum { BATCH = 4 }; /* ranks whose vectors a thread loads at a time */

struct fold_call {
	connection first, second; /* of the two exchanges */
	uint64_t steps;
};

/* A send buffer without blocks: each rank folds a part of it, whose result goes to all. */
__device__ static inline bool is_two_shot(const codelet_args &a)
{
	return !a.send_block;
}

__device__ static fold_call fold_call_of(const codelet_args &a, uint64_t epoch)
{
	const uint64_t largest = is_two_shot(a) ? cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)a.ranks, 0).bytes : a.bytes;
	return { { epoch, blockIdx.x, gridDim.x, CODELET_FIRST },
		 { epoch, blockIdx.x, gridDim.x, CODELET_SECOND },
		 messages_of(largest, gridDim.x, a.slot_bytes) };
}

/* The block or part of the send buffer that a rank folds, as this block of threads sees it. */
__device__ static range part_of(const codelet_args &a, int rank)
{
	range part = is_two_shot(a) ? cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)a.ranks, (uint32_t)rank)
				    : range{ (uint64_t)rank * a.send_block, a.bytes };
	range piece = cut(part.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	return { part.at + piece.at, piece.bytes };
}

/* What a rank has for another one, into a slot. */
template <int TYPE, uint32_t N = IN_FLIGHT>
__device__ static void put_input(const codelet_args &a, const warp_group &w, unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	if (a.op != CORALE_NUM_OPS) {
		copy<N>(w, to, from, bytes, true);
		return;
	}
	for (uint64_t at = w.thread * 16; at < bytes; at += w.threads * 16) {
		unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		*(vector *)(to + at) = premultiply<TYPE>(a, load_user<true>(from + at, n));
	}
}

/* A message of every rank. */
struct inputs {
	const unsigned char *own, *others; /* others: in rank order, */
	uint64_t stride; /* so many bytes from each other */
};

__device__ static inline inputs inputs_of(const codelet_args &a, const connection &conn, const unsigned char *own, uint64_t c)
{
	return { own, slot_of(a, conn, a.rank ? 0 : 1, a.rank, c), a.area_bytes };
}

/* One vector of all ranks, in their order; so many of its bytes are there. */
template <int TYPE>
__device__ static __forceinline__ vector fold_vector(const codelet_args &a, const inputs &in, uint64_t at, unsigned n)
{
	vector_sum<TYPE> sum;
	auto load = [&](int r) {
		if (r != a.rank)
			return __ldcg((const vector *)(in.others + codelet_index(r, a.rank) * in.stride + at));
		const vector own = load_user<true>(in.own + at, n);
		return a.op == CORALE_NUM_OPS ? premultiply<TYPE>(a, own) : own;
	};
	fold_ranks<BATCH>(&sum, a.ranks, a.op, load);
	return sum.finish(a.op, a.ranks);
}

#endif
