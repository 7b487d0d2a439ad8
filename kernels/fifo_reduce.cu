/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds through slots by many CUDA blocks, for vectors too large for packets: reduce_scatter by one exchange, all_reduce by two, unless its results go
 * straight into registered memory (direct.cu). Teams of warps as in bulk_reduce.cu, whose fold of several vectors a lane spills 2,800 to 4,700 bytes a thread in the
 * 64 registers that two blocks a multiprocessor leave, instead of at most 64: here a thread folds one vector of all ranks at a time.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk_parts.cuh"
#include "fifo_reduce.cuh"

enum { SCATTER_WARPS = 6, GATHER_WARPS = 4 };

/* A send buffer without blocks: each rank folds a part of it, whose result goes to all. */
__device__ static inline bool is_two_shot(const codelet_args &a)
{
	return !a.send_block;
}

/* Before a peer makes this call, it may still receive in its window's slots (grants.cuh), or take what copies left out of its scratch: its header is awaited first. A function
 * of its own, so that the fold's registers are not spilled for it. */
template <int TYPE> __device__ static __noinline__ bool scatter(const codelet_args &a, bulk_team t, const bulk_call *b)
{
	return bulk_scatter(a, t, b, false, [&](int to) { return to != a.rank; }, [&](int to, uint32_t m, const range &part) {
		put_input<TYPE>(a, t.workers, bulk_slot_there(a, b, 0, to, m), a.send + part.at, part.bytes);
	});
}

/* Folds message m; the result goes to recv and, in a two-shot, to all peers. */
template <int TYPE> __device__ static void fold_message(const codelet_args &a, const bulk_team &t, const bulk_call *b, uint32_t m)
{
	const range part = bulk_message(a, b->peers[a.rank].part, m);
	const inputs in = { a.send + part.at, bulk_slot_here(a, b, 0, a.rank ? 0 : 1, m), a.area_bytes };
	unsigned char *to = a.recv + (is_two_shot(a) ? part.at : part.at - (uint64_t)a.rank * a.send_block);
	const uint64_t there = (uint64_t)(m % a.depth) * a.slot_bytes;
	fold_range<TYPE>(a, t.workers, in, part.bytes, [&](uint64_t at, const vector &v, unsigned n) {
		for (int k = 1; is_two_shot(a) && k < a.ranks; k++)
			*(vector *)(b->peers[peer_after(a, k)].slots[1] + there + at) = v;
		store_user<true>(to + at, v, n);
	});
}

template <int TYPE> __device__ static bool fold(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto others = [&](int rank) { return rank != a.rank; };
	auto ready = [&](uint32_t m) {
		uint64_t here = 0, room = 0; /* not kept: registers are for the fold */
		return bulk_wait_data(a, b, 0, m, &here, others) && bulk_wait_room(a, b, 1, m, &room, !is_two_shot(a), others);
	};
	return bulk_each(b, t, ready, [&](uint32_t m) { fold_message<TYPE>(a, t, b, m); }, [&](uint32_t m) {
		bulk_signal_taken(a, b, 0, m, others);
		if (is_two_shot(a))
			bulk_signal_data(a, b, 1, m, others);
	});
}

template <int TYPE> __device__ static bool run_warp(const codelet_args &a, const bulk_call *b)
{
	const uint32_t warp = threadIdx.x / 32, gatherers = is_two_shot(a) ? GATHER_WARPS : 0, folders = blockDim.x / 32 - SCATTER_WARPS - gatherers;
	if (warp < SCATTER_WARPS)
		return scatter<TYPE>(a, bulk_team_of(0, SCATTER_WARPS, false, 1), b);
	if (warp < SCATTER_WARPS + folders)
		return fold<TYPE>(a, bulk_team_of(SCATTER_WARPS, folders, false, 2), b);
	return bulk_gather<BULK_MANY>(a, bulk_team_of(SCATTER_WARPS + folders, gatherers, false, 3), b, [&](int from) { return from != a.rank; });
}

template <int TYPE> __global__ __launch_bounds__(CODELET_THREADS, 2) void fifo_reduce(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c) { bulk_begin_parts(a, b, c, a.slot_bytes, true); };
	bulk_run(a, begin, [&](const bulk_call *b) { return run_warp<TYPE>(a, b); });
}

typedef void (*kernel)(codelet_args);

static constexpr auto rows = vector_table_of<kernel>([](auto type) { return fifo_reduce<type.value>; });

int codelets_fifo_reduce(const codelet_args *args, struct grid grid, int type, void *stream)
{
	return launch((const void *)rows[type], grid, args, stream);
}

int codelets_load_fifo_reduce(void)
{
	return load_all(rows);
}
