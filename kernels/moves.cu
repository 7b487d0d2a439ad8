/*
 * Blocks of data that all ranks send to all, and broadcasts, when they are too large for packets. Crews as in slots.cu: one sends,
 * one takes in. A block (of threads) sends its piece to one peer after the other, because long runs in which all ranks
 * send to different peers are faster than a mix. Into registered memory data goes straight; slots are not used then.
 * Broadcasts go from rank to rank, message by message, so that every link carries the vector once; the crews take turns, so
 * that one's wait for a flag is another's time to move data (pipelined chain).
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "slot.cuh"

enum { SEND_THREADS = CODELET_THREADS / 2, CREWS = CODELET_CREWS };

struct move_call {
	lane path;
	uint64_t steps;
};

/* Where a rank wants what lies at `at` of its receive buffer. */
__device__ static unsigned char *place_of(const codelet_args &a, int rank, uint64_t at)
{
	return a.peers[rank] + a.peers_at + at;
}

/* ---- all_gather, all_to_all -------------------------------------------------------------------------------- */

__device__ static bool send_blocks(const codelet_args &a, const crew &w, move_call *m, range piece)
{
	/* Nobody's memory is written before he has made the call, nor slots in which he may still receive (grants.cuh): not scratch. */
	if ((a.peers || !a.slots) && !hear_all(a, w, &m->path))
		return false;
	for (uint64_t c = 0; c < m->steps; c++) {
		range r = message(piece, a.slot_bytes, c);
		if (!a.peers && !wait_room(a, w, &m->path, c))
			return false;
		for (int k = 1; k < a.ranks; k++) {
			int to = peer_after(a, k);
			const unsigned char *from = a.send + (uint64_t)to * a.send_block + r.at;
			unsigned char *place = a.peers ? place_of(a, to, (uint64_t)a.rank * a.recv_block + r.at)
						       : slot_of(a, m->path, a.rank, to, c);
			copy(w, place, from, r.bytes, !a.peers);
			tell_one(w, m->path, flag_of(a, m->path, a.rank, to), c);
		}
	}
	return a.peers || wait_taken(a, w, &m->path, m->steps - 1); /* what comes next may cut the slots in another way */
}

__device__ static bool take_blocks(const codelet_args &a, const crew &w, move_call *m, range piece)
{
	const unsigned char *mine = a.send + (uint64_t)a.rank * a.send_block + piece.at;
	unsigned char *own = a.recv + (uint64_t)a.rank * a.recv_block + piece.at;
	if (own != mine)
		copy(w, own, mine, piece.bytes, false);
	if (!hear_all(a, w, &m->path))
		return false;
	if (a.peers)
		return wait_data(a, w, &m->path, m->steps - 1);
	for (uint64_t c = 0; c < m->steps; c++) {
		range r = message(piece, a.slot_bytes, c);
		for (int k = a.ranks - 1; k > 0; k--) { /* in the order of arrival */
			int from = peer_after(a, k);
			if (!wait_one(a, w, &m->path, flag_of(a, m->path, from, a.rank), c, from))
				return false;
			copy(w, a.recv + (uint64_t)from * a.recv_block + r.at, slot_of(a, m->path, from, a.rank, c), r.bytes, false);
			tell_one(w, m->path, ack_of(a, m->path, from, a.rank), c);
		}
	}
	return true;
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void block_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const range piece = cut(a.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	move_call m = { { epoch, blockIdx.x, gridDim.x, CODELET_FIRST, 0 }, messages_of(a.bytes, gridDim.x, a.slot_bytes) };
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

/* A crew's place in the chain. Its ring is its own: it takes every CREWS-th message. */
struct link {
	lane path;
	int place; /* 0 is the root's */
	int previous, next; /* ranks */
	uint64_t first; /* message */
	range piece;
};

__device__ static unsigned char *slot_of_link(const codelet_args &a, const link &k, int sender, int receiver, uint64_t c)
{
	return slots_of(a, sender, receiver) + ((uint64_t)k.path.number * a.depth + c % a.depth) * a.slot_bytes;
}

/* Where message c lies on this rank. */
__device__ static const unsigned char *source_of(const codelet_args &a, const link &k, range r, uint64_t c)
{
	return k.place == 0 ? a.send + r.at : a.peers ? a.recv + r.at : slot_of_link(a, k, k.previous, a.rank, c);
}

__device__ static bool pass_message(const codelet_args &a, const crew &w, link *k, uint64_t c)
{
	const bool last = k->place == a.ranks - 1;
	range r = message(k->piece, a.slot_bytes, c);
	const unsigned char *from = source_of(a, *k, r, c);
	if (k->place && !wait_one(a, w, &k->path, flag_of(a, k->path, k->previous, a.rank), c, k->previous))
		return false;
	if (!last && !a.peers && c >= a.depth && !wait_one(a, w, &k->path, ack_of(a, k->path, a.rank, k->next), c - a.depth, k->next))
		return false;
	unsigned char *to = last ? nullptr : a.peers ? place_of(a, k->next, r.at) : slot_of_link(a, *k, a.rank, k->next, c);
	unsigned char *own = from == a.recv + r.at ? nullptr : a.recv + r.at;
	if (to && own)
		copy_twice(w, to, !a.peers, own, from, r.bytes);
	else if (to || own)
		copy(w, to ? to : own, from, r.bytes, to && !a.peers);
	crew_sync(w);
	if (w.thread == 0 && !last)
		sync_store_release(flag_of(a, k->path, a.rank, k->next), flag_value(k->path, c));
	if (w.thread == 0 && k->place && !a.peers)
		sync_store_release(ack_of(a, k->path, k->previous, a.rank), flag_value(k->path, c));
	return true;
}

__device__ static bool pass(const codelet_args &a, const crew &w, link *k, uint64_t steps)
{
	uint64_t c = k->first;
	if (!hear_all(a, w, &k->path))
		return false;
	for (; c < steps; c += CREWS)
		if (!pass_message(a, w, k, c))
			return false;
	/* what comes next may cut the slots in another way */
	return a.peers || k->place == a.ranks - 1 || c < CREWS ||
	       wait_one(a, w, &k->path, ack_of(a, k->path, a.rank, k->next), c - CREWS, k->next);
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void broadcast_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const uint32_t threads = blockDim.x / CREWS, number = threadIdx.x / threads;
	link k = { { epoch, blockIdx.x, gridDim.x, CODELET_CHAIN + number, 0 }, a.rank - a.root };
	k.place += k.place < 0 ? a.ranks : 0;
	k.previous = peer_after(a, a.ranks - 1);
	k.next = peer_after(a, 1);
	k.first = number;
	k.piece = cut(a.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	send_headers(a, epoch);
	const uint64_t steps = messages_of(a.bytes, gridDim.x, a.slot_bytes);
	if (__syncthreads_and(pass(a, { threadIdx.x % threads, threads, number + 1 }, &k, steps)))
		call_end(a, epoch);
}

int codelets_moves(const codelet_args *args, int blocks, void *stream)
{
	codelet_shape shape = { blocks, CODELET_THREADS };
	return launch(args->root >= 0 ? (const void *)broadcast_moves : (const void *)block_moves, shape, args, stream);
}

int codelets_load_moves(void)
{
	int error = load((const void *)block_moves);
	return error ? error : load((const void *)broadcast_moves);
}
