/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts: the root scatters parts among the other ranks, each passes its own on to all others but the root (van de Geijn's scatter and
 * all-gather). Every link into a rank carries the vector once. Over windows in host memory the root stores the vector once, and all others load it.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk_parts.cuh"
#include "zero_copy.cuh"

template <bulk_shape SHAPE> __device__ static bool scatter(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto edge = [&](int to) { return to != a.root; };
	return bulk_scatter(a, t, b, a.peers, edge, [&](int to, uint32_t m, const range &part) {
		unsigned char *own = a.send != a.recv ? a.recv + part.at : nullptr;
		copy_also<bulk_in_flight<SHAPE>>(t.workers, bulk_target(a, b, 0, to, m, part.at), !a.peers, own, a.send + part.at, part.bytes);
	});
}

template <bulk_shape SHAPE> __device__ static bool pass(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto from_root = [&](int from) { return from == a.root; };
	auto others = [&](int to) { return to != a.root && to != a.rank; };
	uint64_t here = 0, room = 0;
	auto ready = [&](uint32_t m) { return bulk_wait_data(a, b, 0, m, &here, from_root) && bulk_wait_room(a, b, 1, m, &room, a.peers, others); };
	auto work = [&](uint32_t m) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		const unsigned char *mine = a.peers ? a.recv + part.at : bulk_slot_here(a, b, 0, a.root, m);
		for (int k = 1; k < a.ranks; k++) {
			const int to = peer_after(a, k);
			if (others(to))
				bulk_copy<SHAPE>(t, bulk_target(a, b, 1, to, m, part.at), mine, part.bytes, !a.peers);
		}
		if (!a.peers)
			bulk_copy<SHAPE>(t, a.recv + part.at, mine, part.bytes, false);
	};
	return bulk_each(b, t, ready, work, [&](uint32_t m) {
		if (!a.peers)
			bulk_signal_taken(a, b, 0, m, from_root);
		bulk_signal_data(a, b, 1, m, others);
	});
}

template <bulk_shape SHAPE> __device__ static bool gather(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	return bulk_gather<SHAPE>(a, t, b, [&](int from) { return from != a.root && from != a.rank; });
}

/* ---- In host memory ----------------------------------------------------------------------------------------- */

/* The root's slots are not used again before all have loaded what lies there. */
__device__ static bool store_once(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto edge = [&](int to) { return to != a.root; };
	uint64_t seen = 0;
	auto ready = [&](uint32_t m) { return (m || bulk_wait_headers(a, b)) && bulk_wait_room(a, b, 0, m, &seen, false, edge); };
	auto work = [&](uint32_t m) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		unsigned char *own = a.send != a.recv ? a.recv + part.at : nullptr;
		copy_also<BULK_IN_FLIGHT>(t.workers, bulk_slot_of_owner(a, b, a.root, m), true, own, a.send + part.at, part.bytes);
	};
	return bulk_each(b, t, ready, work, [&](uint32_t m) { bulk_signal_data(a, b, 0, m, edge); }) &&
	       (!bulk_waits(b, t) || bulk_wait_room(a, b, 0, b->messages - 1 + a.depth, &seen, false, edge));
}

__device__ static bool load_from_root(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto from_root = [&](int from) { return from == a.root; };
	uint64_t seen = 0;
	auto work = [&](uint32_t m) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		bulk_copy(t, a.recv + part.at, bulk_slot_of_owner(a, b, a.root, m), part.bytes, false);
	};
	return bulk_each(
		b, t, [&](uint32_t m) { return bulk_wait_data(a, b, 0, m, &seen, from_root); }, work,
		[&](uint32_t m) { bulk_signal_taken(a, b, 0, m, from_root); });
}

/* ---- Blocks ------------------------------------------------------------------------------------------------- */

/* The root's warps all scatter, the others' pass on and gather. */
template <bulk_shape SHAPE> __device__ static bool run_warp(const codelet_args &a, const bulk_call *b)
{
	const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32, passing = (warps + 1) / 2;
	if (SHAPE == BULK_FEW && a.one_polls)
		return a.rank == a.root ? store_once(a, bulk_team_of(0, warps, true, 1), b) : load_from_root(a, bulk_team_of(0, warps, false, 1), b);
	if (a.rank == a.root)
		return scatter<SHAPE>(a, bulk_team_of(0, warps, true, 1), b);
	return warp < passing ? pass<SHAPE>(a, bulk_team_of(0, passing, true, 1), b) :
				gather<SHAPE>(a, bulk_team_of(passing, warps - passing, false, 2), b);
}

/* All threads of a block: owners fetch their parts from the root, then all but the root the other parts from these. */
__device__ static bool run_in_place(const codelet_args &a, const bulk_call *b)
{
	for (int rank = 0; rank < a.ranks; rank++) {
		const range part = b->peers[rank].part;
		if (rank == a.rank || (a.rank == a.root && a.send != a.recv))
			zero_copy_load(a.recv + part.at, b->send[a.root] + part.at, part.bytes);
	}
	if (a.ranks > 2 && !zero_copy_meet<false>(a, b, 0))
		return false;
	if (a.ranks > 2 && a.rank != a.root)
		zero_copy_fetch_parts(a, b);
	return zero_copy_meet<true>(a, b, 1);
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_broadcast(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c, bool) {
		if (a.one_polls)
			bulk_begin_blocks(a, b, c);
		else
			bulk_begin_parts(a, b, c, a.slot_bytes, false);
	};
	zero_copy_run(a, begin, [&](const bulk_call *b) { return b->form == ZERO_COPY_IN_PLACE ? run_in_place(a, b) : run_warp<BULK_FEW>(a, b); }, no_rest{});
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void fifo_broadcast(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c) { bulk_begin_parts(a, b, c, a.slot_bytes, false); };
	bulk_run(a, begin, [&](const bulk_call *b) { return run_warp<BULK_MANY>(a, b); });
}

int codelets_bulk_broadcast(const codelet_args *args, struct grid grid, int many, void *stream)
{
	return launch((const void *)(many ? fifo_broadcast : bulk_broadcast), grid, args, stream);
}

int codelets_load_bulk_broadcast(void)
{
	const int error = load((const void *)bulk_broadcast);
	return error ? error : load((const void *)fifo_broadcast);
}
