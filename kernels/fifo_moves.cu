/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of data that all ranks send to all, when they are too large for packets. Warp groups as in fifo_reduce.cu: one sends,
 * one takes in. A block (of threads) sends its piece to one peer after the other, because long runs in which all ranks
 * send to different peers are faster than a mix. Into registered memory data goes straight; slots are not used then.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "fifo.cuh"

enum { SEND_THREADS = CODELET_THREADS / 2 };

/* An all_to_all in place: a message is in its slots before what comes overwrites it. The senders' progress is a flag to this rank itself. */
__device__ static inline bool is_in_place(const codelet_args &a)
{
	return a.send == a.recv && a.send_block;
}

struct move_call {
	connection path;
	uint64_t steps;
};

__device__ static bool send_blocks(const codelet_args &a, const warp_group &w, move_call *m, range piece)
{
	/* Waits for every rank's header. Until then its buffer may be in use, its slots may be granted to sends (grants.cuh), and its scratch may
	 * hold copies that it has not taken out. */
	if (!wait_headers(a, w, &m->path))
		return false;
	for (uint64_t c = 0; c < m->steps; c++) {
		range r = message(piece, a.slot_bytes, c);
		if (!a.peers && !wait_room(a, w, &m->path, c))
			return false;
		for (int k = 1; k < a.ranks; k++) {
			int to = peer_after(a, k);
			const unsigned char *from = a.send + (uint64_t)to * a.send_block + r.at;
			unsigned char *place = a.peers ? recv_address(a, to, (uint64_t)a.rank * a.recv_block + r.at)
						       : slot_of(a, m->path, a.rank, to, c);
			copy(w, place, from, r.bytes, !a.peers);
			signal_one(w, m->path, flag_of(a, m->path, a.rank, to), c);
		}
		if (is_in_place(a))
			signal_one(w, m->path, flag_of(a, m->path, a.rank, a.rank), c);
	}
	/* The next call waits for all ranks anyway. But ranks that end together begin it together: without this wait all_gather of 2
	 * GPUs, 128 MB, takes 209 us instead of 205. */
	return a.peers || wait_taken(a, w, &m->path, m->steps - 1);
}

__device__ static bool take_blocks(const codelet_args &a, const warp_group &w, move_call *m, range piece)
{
	const unsigned char *mine = a.send + (uint64_t)a.rank * a.send_block + piece.at;
	unsigned char *own = a.recv + (uint64_t)a.rank * a.recv_block + piece.at;
	if (own != mine)
		copy(w, own, mine, piece.bytes, false);
	if (!wait_headers(a, w, &m->path))
		return false;
	if (a.peers)
		return wait_data(a, w, &m->path, m->steps - 1);
	for (uint64_t c = 0; c < m->steps; c++) {
		range r = message(piece, a.slot_bytes, c);
		if (is_in_place(a) && !wait_one(a, w, &m->path, flag_of(a, m->path, a.rank, a.rank), c, peer_after(a, a.ranks - 1)))
			return false;
		for (int k = a.ranks - 1; k > 0; k--) { /* in the order of arrival */
			int from = peer_after(a, k);
			if (!wait_one(a, w, &m->path, flag_of(a, m->path, from, a.rank), c, from))
				return false;
			copy(w, a.recv + (uint64_t)from * a.recv_block + r.at, slot_of(a, m->path, from, a.rank, c), r.bytes, false);
			signal_one(w, m->path, ack_of(a, m->path, from, a.rank), c);
		}
	}
	return true;
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void fifo_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const range piece = cut(a.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	move_call m = { { epoch, blockIdx.x, gridDim.x, CODELET_FIRST }, messages_of(a.bytes, gridDim.x, a.slot_bytes) };
	bool good;
	send_headers(a, epoch);
	if (threadIdx.x < SEND_THREADS)
		good = send_blocks(a, { threadIdx.x, SEND_THREADS, 1 }, &m, piece);
	else
		good = take_blocks(a, { threadIdx.x - SEND_THREADS, blockDim.x - SEND_THREADS, 2 }, &m, piece);
	if (__syncthreads_and(good))
		call_end(a, epoch);
}

int codelets_fifo_moves(const codelet_args *args, struct grid grid, void *stream)
{
	return launch((const void *)fifo_moves, grid, args, stream);
}

int codelets_load_fifo_moves(void)
{
	return load((const void *)fifo_moves);
}
