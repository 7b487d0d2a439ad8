/*
 * Blocks of data by few CUDA blocks (bulk.cuh): all_gather, all_to_all, gather, scatter. Half of a block's warps send: a message goes to one peer after the other,
 * beginning with the next rank, because a link takes most when all that leaves a rank goes to one other. The other half takes in.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk.cuh"

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

__device__ static bool send_blocks(const codelet_args &a, const role &r, const bulk_call *b, bulk_tiles *t)
{
	auto edge = [&](int to) { return is_edge(a, a.rank, to); };
	auto told = [&](int to) { return edge(to) || (to == a.rank && is_in_place(a)); };
	if (!bulk_wait_headers(a, b))
		return false;
	for (uint32_t m = bulk_first(a, r); m < b->messages; m = bulk_next(a, r, m)) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		if (!bulk_wait_room(a, b, 0, m, a.peers, edge))
			return false;
		for (int k = 1; k < a.ranks; k++) {
			const int to = peer_after(a, k);
			unsigned char *target = bulk_target(a, b, 0, to, m, (uint64_t)a.rank * a.recv_block + part.at);
			if (edge(to))
				bulk_copy(t, target, a.send + (uint64_t)to * a.send_block + part.at, part.bytes, !a.peers);
		}
		bulk_publish(t);
		bulk_signal_data(a, b, 0, m, told);
	}
	return true;
}

/* What a rank has for itself. */
__device__ static inline void keep(const codelet_args &a, const range &part, bulk_tiles *t)
{
	const unsigned char *from = a.send + (uint64_t)a.rank * a.send_block;
	unsigned char *to = a.recv + (uint64_t)a.rank * a.recv_block;
	if (to != from && (a.root < 0 || a.rank == a.root))
		bulk_copy(t, to + part.at, from + part.at, part.bytes, false);
}

__device__ static bool take_blocks(const codelet_args &a, const role &r, const bulk_call *b, bulk_tiles *t)
{
	auto edge = [&](int from) { return is_edge(a, from, a.rank); };
	auto awaited = [&](int from) { return edge(from) || (from == a.rank && is_in_place(a)); };
	if (!bulk_wait_headers(a, b))
		return false;
	for (uint32_t m = bulk_first(a, r); m < b->messages; m = bulk_next(a, r, m)) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		keep(a, part, t);
		if (!bulk_wait_data(a, b, 0, m, awaited))
			return false;
		if (a.peers) /* it is where it belongs, and no slot is given back */
			continue;
		for (int k = a.ranks - 1; k > 0; k--) { /* in the order of arrival */
			const int from = peer_after(a, k);
			if (edge(from))
				bulk_copy(t, a.recv + (uint64_t)from * a.recv_block + part.at, bulk_slot_here(a, b, 0, from, m), part.bytes, false);
		}
		bulk_publish(t);
		bulk_signal_taken(a, b, 0, m, edge);
	}
	return true;
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const uint32_t warp = threadIdx.x / 32, senders = blockDim.x / 64;
	send_headers(a, epoch);
	const bulk_call *b =
		bulk_begin(a, epoch, (uint32_t)messages_of(a.bytes, gridDim.x, a.slot_bytes), [&](int) { return range{ 0, a.bytes }; });
	bulk_tiles t = bulk_open();
	const bool good =
		warp < senders ? send_blocks(a, { warp, senders }, b, &t) : take_blocks(a, { warp - senders, blockDim.x / 32 - senders }, b, &t);
	bulk_close(&t);
	if (__syncthreads_and(good))
		call_end(a, epoch);
}

int codelets_bulk_moves(const codelet_args *args, struct grid grid, int shared, void *stream)
{
	return launch((const void *)bulk_moves, grid, args, stream, shared);
}

int codelets_load_bulk_moves(void)
{
	return load_shared((const void *)bulk_moves, BULK_SHARED);
}

int codelets_bulk_shared(void)
{
	return BULK_SHARED;
}
