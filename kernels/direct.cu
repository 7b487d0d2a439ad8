/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce of large vectors into registered memory, in long runs: a block sends its piece of a rank's part to that rank, then that of
 * the next one's; a link takes most when all that leaves a rank goes to one other. Then it folds what has come for it: in the same pass
 * the result goes to the first other rank, and out of its own receive buffer to the rest. Block b of a rank talks to block b
 * of every other one only. What slots do not hold at a time goes in several messages.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "fifo_reduce.cuh"

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
	const inputs in = inputs_of(a, f.first, a.send + r.at, c);
	unsigned char *to = a.recv + r.at, *also = a.ranks > 1 ? recv_address(a, peer_after(a, 1), r.at) : to;
	for (uint64_t at = w.thread * 16; at < r.bytes; at += w.threads * 16) {
		const unsigned n = r.bytes - at < 16 ? (unsigned)(r.bytes - at) : 16;
		const vector v = fold_vector<TYPE>(a, in, at, n);
		store_user<true>(also + at, v, n);
		store_user<true>(to + at, v, n);
	}
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
