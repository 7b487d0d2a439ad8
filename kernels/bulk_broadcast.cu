/*
 * Broadcasts by few blocks: the root scatters parts among the other ranks, each passes its own on to all others but the root (van de Geijn's scatter and
 * all-gather). Every link into a rank carries the vector once.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk_parts.cuh"

__device__ static bool scatter(const codelet_args &a, const role &r, const bulk_call *b, bulk_tiles *t)
{
	auto edge = [&](int to) { return a.rank == a.root && to != a.root; };
	return bulk_scatter(a, r, b, t, a.peers, edge, [&](int to, uint32_t m, const range &part) {
		bulk_copy(t, bulk_target(a, b, 0, to, m, part.at), a.send + part.at, part.bytes, !a.peers);
		if (a.send != a.recv)
			bulk_copy(t, a.recv + part.at, a.send + part.at, part.bytes, false);
	});
}

__device__ static bool pass(const codelet_args &a, const role &r, const bulk_call *b, bulk_tiles *t)
{
	auto from_root = [&](int from) { return from == a.root; };
	auto others = [&](int to) { return to != a.root && to != a.rank; };
	if (a.rank == a.root)
		return true;
	for (uint32_t m = bulk_first(a, r); m < b->messages; m = bulk_next(a, r, m)) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		if (!bulk_wait_data(a, b, 0, m, from_root) || !bulk_wait_room(a, b, 1, m, a.peers, others))
			return false;
		const unsigned char *mine = a.peers ? a.recv + part.at : bulk_slot_here(a, b, 0, a.root, m);
		for (int k = 1; k < a.ranks; k++) {
			const int to = peer_after(a, k);
			if (others(to))
				bulk_copy(t, bulk_target(a, b, 1, to, m, part.at), mine, part.bytes, !a.peers);
		}
		if (!a.peers)
			bulk_copy(t, a.recv + part.at, mine, part.bytes, false);
		bulk_publish(t);
		bulk_signal_data(a, b, 1, m, others);
		bulk_signal_taken(a, b, 0, m, from_root);
	}
	return true;
}

__device__ static bool gather(const codelet_args &a, const role &r, const bulk_call *b, bulk_tiles *t)
{
	return a.rank == a.root || bulk_gather(a, r, b, t, [&](int from) { return from != a.root && from != a.rank; });
}

/* The root's warps all scatter, the others' pass on and gather. */
__device__ static bool run_warp(const codelet_args &a, const bulk_call *b, bulk_tiles *t)
{
	const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32, half = warps / 2;
	if (a.rank == a.root)
		return scatter(a, { warp, warps }, b, t);
	return warp < half ? pass(a, { warp, half }, b, t) : gather(a, { warp - half, warps - half }, b, t);
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_broadcast(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	send_headers(a, epoch);
	const bulk_call *b = bulk_begin_parts(a, epoch);
	bulk_tiles t = bulk_open();
	const bool good = run_warp(a, b, &t);
	bulk_close(&t);
	if (__syncthreads_and(good))
		call_end(a, epoch);
}

int codelets_bulk_broadcast(const codelet_args *args, struct grid grid, int shared, void *stream)
{
	return launch((const void *)bulk_broadcast, grid, args, stream, shared);
}

int codelets_load_bulk_broadcast(void)
{
	return load_shared((const void *)bulk_broadcast, BULK_SHARED);
}
