/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce of large vectors into registered memory, in long runs: a block sends its piece of a rank's part to that rank, then that of
 * the next one's; a link takes most when all that leaves a rank goes to one other. Then it folds what has come for it: in the same pass
 * the result goes to the first other rank, and out of its own receive buffer to the rest. Block b of a rank talks to block b
 * of every other one only. What slots do not hold at a time goes in several messages. No teams of warps: what a block has in flight goes to one rank. The fold of
 * bulk_reduce.cu spills 2,800 to 4,700 bytes a thread in the 64 registers that two blocks a multiprocessor leave, this one at most 92.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "fifo_reduce.cuh"

struct fold_call {
	connection first, second; /* of the two exchanges */
	uint64_t steps;
};

__device__ static fold_call fold_call_of(const codelet_args &a, uint64_t epoch)
{
	const uint64_t largest = cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)a.ranks, 0).bytes;
	return { { epoch, blockIdx.x, gridDim.x, CODELET_FIRST },
		 { epoch, blockIdx.x, gridDim.x, CODELET_SECOND },
		 messages_of(largest, gridDim.x, a.slot_bytes) };
}

/* The part of the vector that a rank folds, as this block of threads sees it. */
__device__ static range part_of(const codelet_args &a, int rank)
{
	const range part = cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)a.ranks, (uint32_t)rank), piece = cut(part.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	return { part.at + piece.at, piece.bytes };
}

template <int TYPE> __device__ static void scatter(const codelet_args &a, const warp_group &w, const fold_call &f, uint64_t c)
{
	for (int k = 1; k < a.ranks; k++) {
		const int to = peer_after(a, k);
		const range r = message(part_of(a, to), a.slot_bytes, c);
		put_input<TYPE>(a, w, slot_of(a, f.first, a.rank, to, c), a.send + r.at, r.bytes);
		signal_one(w, f.first, flag_of(a, f.first, a.rank, to), c);
	}
}

/* To the first other rank, too. */
template <int TYPE> __device__ static void fold(const codelet_args &a, const warp_group &w, const fold_call &f, range r, uint64_t c)
{
	const inputs in = { a.send + r.at, slot_of(a, f.first, a.rank ? 0 : 1, a.rank, c), a.area_bytes };
	unsigned char *to = a.recv + r.at, *also = a.ranks > 1 ? recv_address(a, peer_after(a, 1), r.at) : to;
	fold_range<TYPE>(a, w, in, r.bytes, [&](uint64_t at, const vector &v, unsigned n) {
		store_user<true>(also + at, v, n);
		store_user<true>(to + at, v, n);
	});
}

template <int TYPE> __device__ static void pass(const codelet_args &a, const warp_group &w, const fold_call &f, uint64_t c)
{
	const range r = message(part_of(a, a.rank), a.slot_bytes, c);
	fold<TYPE>(a, w, f, r, c);
	warp_group_sync(w);
	for (int k = 1; k < a.ranks; k++) {
		const int to = peer_after(a, k);
		if (k > 1)
			copy(w, recv_address(a, to, r.at), a.recv + r.at, r.bytes, false);
		signal_one(w, f.second, flag_of(a, f.second, a.rank, to), c);
	}
}

/* A peer whose message c has arrived has folded my message c - 1, whose slot c + 1 takes; one whose results have arrived has folded all. */
template <int TYPE> __device__ static bool run_all(const codelet_args &a, fold_call *f)
{
	const warp_group w = whole_block();
	if (!wait_headers(a, w, &f->first))
		return false;
	for (uint64_t c = 0; c < f->steps; c++) {
		scatter<TYPE>(a, w, *f, c);
		if (!wait_data(a, w, &f->first, c))
			return false;
		pass<TYPE>(a, w, *f, c);
	}
	return wait_data(a, w, &f->second, f->steps - 1);
}

template <int TYPE> __global__ __launch_bounds__(CODELET_THREADS, 2) void direct(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	send_headers(a, epoch);
	fold_call f = fold_call_of(a, epoch);
	if (run_all<TYPE>(a, &f))
		call_end(a, epoch);
}

typedef void (*kernel)(codelet_args);

static constexpr auto rows = vector_table_of<kernel>([](auto type) { return direct<type.value>; });

int codelets_direct(const codelet_args *args, struct grid grid, int type, void *stream)
{
	return launch((const void *)rows[type], grid, args, stream);
}

int codelets_load_direct(void)
{
	return load_all(rows);
}
