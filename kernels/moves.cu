/*
 * Blocks of data that all ranks send to all, and broadcasts, when they are too large for packets. Crews as in slots.cu: one sends,
 * one takes in. A block (of threads) sends its piece to one peer after the other, because long runs in which all ranks
 * send to different peers are faster than a mix. Into registered memory data goes straight; slots are not used then.
 * Broadcasts: the root deals each other rank a part, message by message, and that rank passes it on at once, so that the root's
 * link carries the vector once (scatter and all-gather of van de Geijn 1994, overlapped).
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "slot.cuh"

enum { MOVE_THREADS = 1024, SEND_THREADS = 512, PASS_THREADS = 512 };

struct move_call {
	lane first, second;
	uint64_t steps;
};

/* Where a rank wants what lies at `at` of its receive buffer. */
__device__ static unsigned char *place_of(const codelet_args &a, int rank, uint64_t at)
{
	return a.peers[rank] + a.peers_at + at;
}

__device__ static uint64_t steps_of(const codelet_args &a, uint64_t bytes)
{
	uint64_t largest = cut(bytes, CODELET_LINE, gridDim.x, 0).bytes;
	return largest > a.slot_bytes ? (largest + a.slot_bytes - 1) / a.slot_bytes : 1;
}

/* ---- all_gather, all_to_all -------------------------------------------------------------------------------- */

__device__ static bool send_blocks(const codelet_args &a, const crew &w, move_call *m, range piece)
{
	if (a.peers && !hear_all(a, w, &m->first)) /* nobody's memory is written before he has made the call */
		return false;
	for (uint64_t c = 0; c < m->steps; c++) {
		range r = message(piece, a.slot_bytes, c);
		if (!a.peers && !wait_room(a, w, &m->first, c))
			return false;
		for (int k = 1; k < a.ranks; k++) {
			int to = peer_after(a, k);
			const unsigned char *from = a.send + (uint64_t)to * a.send_block + r.at;
			unsigned char *place = a.peers ? place_of(a, to, (uint64_t)a.rank * a.recv_block + r.at)
						       : slot_of(a, m->first, a.rank, to, c);
			copy(w, place, from, r.bytes, !a.peers);
			tell_one(w, m->first, flag_of(a, m->first, a.rank, to), c);
		}
	}
	return a.peers || wait_taken(a, w, &m->first, m->steps - 1); /* what comes next may cut the slots in another way */
}

__device__ static bool take_blocks(const codelet_args &a, const crew &w, move_call *m, range piece)
{
	const unsigned char *mine = a.send + (uint64_t)a.rank * a.send_block + piece.at;
	unsigned char *own = a.recv + (uint64_t)a.rank * a.recv_block + piece.at;
	if (own != mine)
		copy(w, own, mine, piece.bytes, false);
	if (!hear_all(a, w, &m->second))
		return false;
	if (a.peers)
		return wait_data(a, w, &m->first, m->steps - 1);
	for (uint64_t c = 0; c < m->steps; c++) {
		range r = message(piece, a.slot_bytes, c);
		for (int k = a.ranks - 1; k > 0; k--) { /* in the order of arrival */
			int from = peer_after(a, k);
			if (!wait_one(a, w, &m->first, flag_of(a, m->first, from, a.rank), c, from))
				return false;
			copy(w, a.recv + (uint64_t)from * a.recv_block + r.at, slot_of(a, m->first, from, a.rank, c), r.bytes, false);
			tell_one(w, m->first, ack_of(a, m->first, from, a.rank), c);
		}
	}
	return true;
}

__global__ __launch_bounds__(MOVE_THREADS, 1) void block_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const range piece = cut(a.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	lane l = { epoch, blockIdx.x, gridDim.x, CODELET_FIRST, 0 };
	move_call m = { l, l, steps_of(a, a.bytes) };
	bool good;
	send_headers(a, epoch);
	if (threadIdx.x < SEND_THREADS)
		good = send_blocks(a, { threadIdx.x, SEND_THREADS, 1 }, &m, piece);
	else
		good = take_blocks(a, { threadIdx.x - SEND_THREADS, blockDim.x - SEND_THREADS, 2 }, &m, piece);
	if (__syncthreads_and(good))
		call_end(a, epoch);
}

/* ---- Broadcast ------------------------------------------------------------------------------------------- */

/* The part that a rank other than the root passes on, as this block sees it. */
__device__ static range part_of(const codelet_args &a, int rank)
{
	range part = cut(a.bytes, CODELET_LINE, (uint32_t)a.ranks - 1, codelet_index(rank, a.root));
	range piece = cut(part.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	return { part.at + piece.at, piece.bytes };
}

__device__ static bool deal(const codelet_args &a, const crew &w, move_call *m)
{
	if (!hear_all(a, w, &m->first))
		return false;
	for (uint64_t c = 0; c < m->steps; c++)
		for (int k = 1; k < a.ranks; k++) {
			int to = peer_after(a, k);
			range r = message(part_of(a, to), a.slot_bytes, c);
			uint64_t *ack = ack_of(a, m->first, a.rank, to);
			if (!a.peers && c >= CODELET_DEPTH && !wait_one(a, w, &m->first, ack, c - CODELET_DEPTH, to))
				return false;
			copy(w, a.peers ? place_of(a, to, r.at) : slot_of(a, m->first, a.rank, to, c), a.send + r.at, r.bytes, !a.peers);
			tell_one(w, m->first, flag_of(a, m->first, a.rank, to), c);
		}
	return a.peers || wait_taken(a, w, &m->first, m->steps - 1);
}

/* The root's own copy, while it deals. */
__device__ static bool keep(const codelet_args &a, const crew &w)
{
	range piece = cut(a.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	if (a.recv != a.send)
		copy(w, a.recv + piece.at, a.send + piece.at, piece.bytes, false);
	return true;
}

/* Message c of this rank's part, from where the root put it to the ranks that are not the root. */
__device__ static void pass_message(const codelet_args &a, const crew &w, const move_call &m, uint64_t c)
{
	range r = message(part_of(a, a.rank), a.slot_bytes, c);
	const unsigned char *from = a.peers ? a.recv + r.at : slot_of(a, m.first, a.root, a.rank, c);
	for (int k = 1; k < a.ranks; k++) {
		int to = peer_after(a, k);
		if (to != a.root)
			copy(w, a.peers ? place_of(a, to, r.at) : slot_of(a, m.second, a.rank, to, c), from, r.bytes, !a.peers);
	}
	if (!a.peers)
		copy(w, a.recv + r.at, from, r.bytes, false);
}

__device__ static bool pass(const codelet_args &a, const crew &w, move_call *m)
{
	auto others = [&](auto wait) { return wait_all(a, w, [&](int peer) { return peer == a.root || wait(peer); }); };
	auto taken = [&](uint64_t c) {
		return others([&](int peer) {
			return wait_flag(a, &m->second, ack_of(a, m->second, a.rank, peer), flag_value(m->second, c), peer);
		});
	};
	if (!hear_all(a, w, &m->first))
		return false;
	for (uint64_t c = 0; c < m->steps; c++) {
		if (!wait_one(a, w, &m->first, flag_of(a, m->first, a.root, a.rank), c, a.root))
			return false;
		if (!a.peers && c >= CODELET_DEPTH && !taken(c - CODELET_DEPTH))
			return false;
		pass_message(a, w, *m, c);
		tell_all(a, w, [&](int peer) {
			sync_store_release(peer == a.root ? ack_of(a, m->first, a.root, a.rank) : flag_of(a, m->second, a.rank, peer),
					   flag_value(m->second, c));
		});
	}
	return a.peers || taken(m->steps - 1);
}

/* What the ranks that are not the root pass on. */
__device__ static bool take_parts(const codelet_args &a, const crew &w, move_call *m)
{
	for (uint64_t c = 0; c < m->steps; c++)
		for (int k = a.ranks - 1; k > 0; k--) {
			int from = peer_after(a, k);
			range r = message(part_of(a, from), a.slot_bytes, c);
			if (from == a.root)
				continue;
			if (!wait_one(a, w, &m->second, flag_of(a, m->second, from, a.rank), c, from))
				return false;
			if (a.peers)
				continue;
			copy(w, a.recv + r.at, slot_of(a, m->second, from, a.rank, c), r.bytes, false);
			tell_one(w, m->second, ack_of(a, m->second, from, a.rank), c);
		}
	return true;
}

__global__ __launch_bounds__(MOVE_THREADS, 1) void broadcast_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a), part = cut(a.bytes, CODELET_LINE, (uint32_t)a.ranks - 1, 0).bytes;
	move_call m = { { epoch, blockIdx.x, gridDim.x, CODELET_FIRST, 0 }, { epoch, blockIdx.x, gridDim.x, CODELET_SECOND, 0 }, steps_of(a, part) };
	const crew front = { threadIdx.x, PASS_THREADS, 1 }, back = { threadIdx.x - PASS_THREADS, blockDim.x - PASS_THREADS, 2 };
	bool good;
	send_headers(a, epoch);
	if (threadIdx.x < PASS_THREADS)
		good = a.rank == a.root ? deal(a, front, &m) : pass(a, front, &m);
	else
		good = a.rank == a.root ? keep(a, back) : take_parts(a, back, &m);
	if (__syncthreads_and(good))
		call_end(a, epoch);
}

int codelets_moves(const codelet_args *args, int blocks, void *stream)
{
	codelet_shape shape = { blocks, MOVE_THREADS };
	return launch(args->root >= 0 ? (const void *)broadcast_moves : (const void *)block_moves, shape, args, stream);
}

int codelets_load_moves(void)
{
	int error = load((const void *)block_moves);
	return error ? error : load((const void *)broadcast_moves);
}
