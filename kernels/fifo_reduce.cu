/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds through slots, for vectors too large for packets: reduce_scatter by one exchange, all_reduce by two, unless its results go
 * straight into registered memory (direct.cu). Block b of a rank talks to block b of every other rank only. Its warps form groups that
 * work at the same time, each a message or two behind the one before: one scatters, one folds and passes on, one gathers; while one waits
 * for a flag, the others move data.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "fifo_reduce.cuh"

enum { SCATTER_THREADS = 192, GATHER_THREADS = 128 };

/* ---- Warp groups ---------------------------------------------------------------------------------------- */

/* Before a peer makes this call, it may still receive in its window's slots (grants.cuh), or take what copies left out of its scratch. */
template <int TYPE> __device__ static bool scatter(const codelet_args &a, const warp_group &w, fold_call *f)
{
	if (!wait_headers(a, w, &f->first))
		return false;
	for (uint64_t c = 0; c < f->steps; c++) {
		if (!wait_room(a, w, &f->first, c))
			return false;
		for (int k = 1; k < a.ranks; k++) {
			int to = peer_after(a, k);
			range r = message(part_of(a, to), a.slot_bytes, c);
			unsigned char *slot = slot_of(a, f->first, a.rank, to, c);
			put_input<TYPE>(a, w, slot, a.send + r.at, r.bytes);
		}
		signal_all(a, w, [&](int peer) { sync_store_release(flag_of(a, f->first, a.rank, peer), flag_value(f->first, c)); });
	}
	return true; /* the next call waits for the headers of all ranks, which have taken this out by then */
}

/* Folds message c; the result goes to recv and, in a two-shot, to all peers. */
template <int TYPE> __device__ static void fold_message(const codelet_args &a, const warp_group &w, const fold_call &f, uint64_t c)
{
	range r = message(part_of(a, a.rank), a.slot_bytes, c);
	const inputs in = inputs_of(a, f.first, a.send + r.at, c);
	unsigned char *to = a.recv + (is_two_shot(a) ? r.at : r.at - (uint64_t)a.rank * a.send_block);
	for (uint64_t at = w.thread * 16; at < r.bytes; at += w.threads * 16) {
		unsigned n = r.bytes - at < 16 ? (unsigned)(r.bytes - at) : 16;
		vector v = fold_vector<TYPE>(a, in, at, n);
		for (int k = 1; is_two_shot(a) && k < a.ranks; k++)
			*(vector *)(slot_of(a, f.second, a.rank, peer_after(a, k), c) + at) = v;
		store_user<true>(to + at, v, n);
	}
}

template <int TYPE> __device__ static bool fold(const codelet_args &a, const warp_group &w, fold_call *f)
{
	if (!wait_headers(a, w, &f->first))
		return false;
	for (uint64_t c = 0; c < f->steps; c++) {
		if (!wait_data(a, w, &f->first, c) || (is_two_shot(a) && !wait_room(a, w, &f->second, c)))
			return false;
		fold_message<TYPE>(a, w, *f, c);
		signal_all(a, w, [&](int peer) {
			sync_store_release(ack_of(a, f->first, peer, a.rank), flag_value(f->first, c));
			if (is_two_shot(a))
				sync_store_relaxed(flag_of(a, f->second, a.rank, peer), flag_value(f->second, c));
		});
	}
	return true;
}

__device__ static bool gather(const codelet_args &a, const warp_group &w, fold_call *f)
{
	for (uint64_t c = 0; c < f->steps; c++) {
		if (!wait_data(a, w, &f->second, c))
			return false;
		for (int k = 1; k < a.ranks; k++) {
			int from = peer_after(a, k);
			range r = message(part_of(a, from), a.slot_bytes, c);
			copy(w, a.recv + r.at, slot_of(a, f->second, from, a.rank, c), r.bytes, false);
		}
		signal_all(a, w, [&](int peer) { sync_store_release(ack_of(a, f->second, peer, a.rank), flag_value(f->second, c)); });
	}
	return true;
}

template <int TYPE> __device__ static bool run_warp_group(const codelet_args &a, fold_call *f)
{
	const uint32_t gatherers = is_two_shot(a) ? GATHER_THREADS : 0, folders = blockDim.x - SCATTER_THREADS - gatherers;
	if (threadIdx.x < SCATTER_THREADS)
		return scatter<TYPE>(a, { threadIdx.x, SCATTER_THREADS, 1 }, f);
	if (threadIdx.x < SCATTER_THREADS + folders)
		return fold<TYPE>(a, { threadIdx.x - SCATTER_THREADS, folders, 2 }, f);
	return gather(a, { threadIdx.x - SCATTER_THREADS - folders, gatherers, 3 }, f);
}

template <int TYPE> __global__ __launch_bounds__(CODELET_THREADS, 2) void fifo_reduce(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	uint64_t epoch = call_epoch(a);
	send_headers(a, epoch);
	fold_call f = fold_call_of(a, epoch);
	if (__syncthreads_and(run_warp_group<TYPE>(a, &f)))
		call_end(a, epoch);
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
