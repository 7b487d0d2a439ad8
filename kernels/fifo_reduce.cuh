/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of what the other ranks have stored into slots here. */
#ifndef FIFO_REDUCE_CUH
#define FIFO_REDUCE_CUH

#include "fifo.cuh"

enum { BATCH = 4 }; /* ranks whose vectors a thread loads at a time */

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

/* All vectors, of all ranks: store(at, v, n) of each result, of which n bytes are there. */
template <int TYPE, class Store>
__device__ static inline void fold_range(const codelet_args &a, const warp_group &w, const inputs &in, uint64_t bytes, Store store)
{
	for (uint64_t at = w.thread * 16; at < bytes; at += w.threads * 16) {
		const unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		store(at, fold_vector<TYPE>(a, in, at, n), n);
	}
}

#endif
