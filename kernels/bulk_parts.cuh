/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors in parts by teams of warps (bulk.cuh): each rank, or each but the root, owns a part. In the first exchange the parts go to their owners, who fold
 * them or pass them on; the results go out in the second one.
 */
#ifndef BULK_PARTS_CUH
#define BULK_PARTS_CUH

#include "bulk.cuh"

/* Of two ranks the root folds all. */
__device__ static inline bool root_folds(const codelet_args &a)
{
	return a.root >= 0 && a.ranks == 2;
}

/*
 * Ranks without blocks of their own share the vector; a root has no part of it, so that each link carries the vector once. folds: what the ranks send is folded.
 */
__device__ static inline range part_of_vector(const codelet_args &a, int rank, bool folds)
{
	const bool rooted = a.root >= 0;
	if (a.send_block)
		return { (uint64_t)rank * a.send_block, a.bytes };
	if (folds && root_folds(a))
		return { 0, rank == a.root ? a.bytes : 0 };
	if (rank == a.root)
		return { 0, 0 };
	return cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)(a.ranks - rooted), (uint32_t)(rank - (rooted && rank > a.root)));
}

/* The first part is the longest. */
__device__ static inline void bulk_begin_parts(const codelet_args &a, bulk_call *b, const bulk_channel &c, uint32_t message_bytes, bool folds)
{
	const int first = folds && root_folds(a) ? a.root : a.root == 0;
	bulk_begin(a, b, c, part_of_vector(a, first, folds).bytes, message_bytes, [&](int rank) { return part_of_vector(a, rank, folds); });
}

/* Sends their parts to the owners. store(to, m, part): all workers. direct: not into slots. */
template <class Edge, class Store>
__device__ static inline bool bulk_scatter(const codelet_args &a, const bulk_team &t, const bulk_call *b, bool direct, Edge edge, Store store)
{
	uint64_t seen = 0;
	auto ready = [&](uint32_t m) { return (m || bulk_wait_headers(a, b)) && bulk_wait_room(a, b, 0, m, &seen, direct, edge); };
	auto work = [&](uint32_t m) {
		for (int k = 1; k < a.ranks; k++) {
			const int to = peer_after(a, k);
			if (edge(to))
				store(to, m, bulk_message(a, b->peers[to].part, m));
		}
	};
	return bulk_each(b, t, ready, work, [&](uint32_t m) { bulk_signal_data(a, b, 0, m, edge); });
}

/* Takes in the results of the other owners. In registered memory they are where they belong, and no slot is given back. */
template <bulk_shape SHAPE = BULK_FEW, class Edge>
__device__ static inline bool bulk_gather(const codelet_args &a, const bulk_team &t, const bulk_call *b, Edge edge)
{
	uint64_t seen = 0;
	auto work = [&](uint32_t m) {
		for (int k = a.ranks - 1; k > 0 && !a.peers; k--) { /* in the order of arrival */
			const int from = peer_after(a, k);
			const range part = bulk_message(a, b->peers[from].part, m);
			if (edge(from))
				bulk_copy<SHAPE>(t, a.recv + part.at, bulk_slot_here(a, b, 1, from, m), part.bytes, false);
		}
	};
	return bulk_each(
		b, t, [&](uint32_t m) { return bulk_wait_data(a, b, 1, m, &seen, edge); }, work,
		[&](uint32_t m) {
			if (!a.peers)
				bulk_signal_taken(a, b, 1, m, edge);
		});
}

#endif
