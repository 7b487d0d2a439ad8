/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of data by few CUDA blocks (bulk.cuh): all_gather, all_to_all, gather, scatter. One team of a block sends: a message goes to one peer after the other,
 * beginning with the next rank, because a link takes most when all that leaves a rank goes to one other. The other team takes in.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "zero_copy.cuh"

/* Whether a rank has data for another one. */
__device__ static inline bool is_edge(const codelet_args &a, int from, int to)
{
	const bool all = a.root < 0 || (a.send_block ? from : to) == a.root;
	return all && from != to;
}

/* An all_to_all in place: a message is in its slots before what comes overwrites it. Senders tell so by a flag to this rank itself. */
__device__ static inline bool is_in_place(const codelet_args &a)
{
	return a.send == a.recv && a.send_block && a.recv_block;
}

/* Whether a rank has a block for itself that is not where it belongs. Of a rooted call the root alone: it sends or takes in, not both. */
__device__ static inline bool keeps(const codelet_args &a)
{
	return a.send + (uint64_t)a.rank * a.send_block != a.recv + (uint64_t)a.rank * a.recv_block && (a.root < 0 || a.rank == a.root);
}

__device__ static inline void keep(const codelet_args &a, const bulk_team &t, const range &part)
{
	const unsigned char *from = a.send + (uint64_t)a.rank * a.send_block;
	unsigned char *to = a.recv + (uint64_t)a.rank * a.recv_block;
	if (keeps(a))
		bulk_copy(t, to + part.at, from + part.at, part.bytes, false);
}

__device__ static bool send_blocks(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto edge = [&](int to) { return is_edge(a, a.rank, to); };
	auto told = [&](int to) { return edge(to) || (to == a.rank && is_in_place(a)); };
	uint64_t seen = 0;
	auto ready = [&](uint32_t m) { return (m || bulk_wait_headers(a, b)) && bulk_wait_room(a, b, 0, m, &seen, a.peers, edge); };
	auto work = [&](uint32_t m) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		for (int k = 1; k < a.ranks; k++) {
			const int to = peer_after(a, k);
			unsigned char *target = bulk_target(a, b, 0, to, m, (uint64_t)a.rank * a.recv_block + part.at);
			if (edge(to))
				bulk_copy(t, target, a.send + (uint64_t)to * a.send_block + part.at, part.bytes, !a.peers);
		}
		if (a.root >= 0)
			keep(a, t, part);
	};
	return bulk_each(b, t, ready, work, [&](uint32_t m) { bulk_signal_data(a, b, 0, m, told); });
}

/* In registered memory what comes is where it belongs, and no slot is given back. */
__device__ static bool take_blocks(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto edge = [&](int from) { return is_edge(a, from, a.rank); };
	auto awaited = [&](int from) { return edge(from) || (from == a.rank && is_in_place(a)); };
	uint64_t seen = 0;
	auto ready = [&](uint32_t m) {
		if (m == 0 && !bulk_wait_headers(a, b))
			return false;
		keep(a, t, bulk_message(a, b->peers[a.rank].part, m));
		return bulk_wait_data(a, b, 0, m, &seen, awaited);
	};
	auto work = [&](uint32_t m) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		for (int k = a.ranks - 1; k > 0 && !a.peers; k--) { /* in the order of arrival */
			const int from = peer_after(a, k);
			if (edge(from))
				bulk_copy(t, a.recv + (uint64_t)from * a.recv_block + part.at, bulk_slot_here(a, b, 0, from, m), part.bytes, false);
		}
	};
	return bulk_each(b, t, ready, work, [&](uint32_t m) {
		if (!a.peers)
			bulk_signal_taken(a, b, 0, m, edge);
	});
}

/* Of a rooted call a rank's warps all send, or all take in. */
__device__ static bool run_warp(const codelet_args &a, const bulk_call *b)
{
	const bool rooted = a.root >= 0, sends = (a.send_block != 0) == (a.rank == a.root);
	const uint32_t warps = blockDim.x / 32, senders = !rooted ? (warps + 1) / 2 : sends ? warps : 0;
	return threadIdx.x / 32 < senders ? send_blocks(a, bulk_team_of(0, senders, true, 1), b) :
					    take_blocks(a, bulk_team_of(senders, warps - senders, false, 2), b);
}

/* All threads of a block: blocks come from where the ranks have them. */
__device__ static bool run_in_place(const codelet_args &a, const bulk_call *b)
{
	const range part = b->peers[a.rank].part;
	for (int k = 0; k < a.ranks; k++) {
		const int from = peer_after(a, k);
		if (k ? is_edge(a, from, a.rank) : keeps(a))
			zero_copy_load(a.recv + (uint64_t)from * a.recv_block + part.at, b->send[from] + (uint64_t)a.rank * a.send_block + part.at,
				       part.bytes);
	}
	return zero_copy_meet<true>(a, b, 0);
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c) { bulk_begin(a, b, c, a.bytes, a.slot_bytes, [&](int) { return range{ 0, a.bytes }; }); };
	zero_copy_run(a, begin, [&](const bulk_call *b) { return b->form == ZERO_COPY_IN_PLACE ? run_in_place(a, b) : run_warp(a, b); });
}

int codelets_bulk_moves(const codelet_args *args, struct grid grid, void *stream)
{
	return launch((const void *)bulk_moves, grid, args, stream);
}

int codelets_load_bulk_moves(void)
{
	return load((const void *)bulk_moves);
}
