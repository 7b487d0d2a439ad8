/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts by few blocks, from rank to rank, beginning at the root: each passes on message after message. What leaves a rank goes to one other rank, which is what
 * links carry best. All warps of a block are one team (bulk.cuh).
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk.cuh"

/* The rank before this one and the one behind it; -1: none. */
struct neighbours {
	int before, behind;
};

__device__ static inline neighbours neighbours_of(const codelet_args &a)
{
	const int place = (a.rank - a.root + a.ranks) % a.ranks;
	return { place > 0 ? (a.rank + a.ranks - 1) % a.ranks : -1, place < a.ranks - 1 ? (a.rank + 1) % a.ranks : -1 };
}

/* At a receiver: one rank alone sends to it, so the areas of all senders, which lie side by side, are that one's. */
__device__ static inline unsigned char *slot_at(const codelet_args &a, int receiver, uint32_t m)
{
	const int first = receiver == 0;
	return slots_of(a, first, receiver) + ((uint64_t)blockIdx.x * a.depth + m % a.depth) * a.slot_bytes;
}

/* Of the rank behind: its receive buffer where all ranks' are registered. */
__device__ static inline unsigned char *target(const codelet_args &a, const neighbours &n, uint32_t m, const range &part)
{
	return a.peers ? recv_address(a, n.behind, part.at) : slot_at(a, n.behind, m);
}

/* The root reads what it sends, the others their slots or, where all are registered, their receive buffers. */
__device__ static inline const unsigned char *source(const codelet_args &a, const neighbours &n, uint32_t m, const range &part)
{
	if (n.before < 0)
		return a.send + part.at;
	return a.peers ? a.recv + part.at : slot_at(a, a.rank, m);
}

/* NULL where the message is in place. */
__device__ static inline unsigned char *own_copy(const codelet_args &a, const neighbours &n, const range &part)
{
	const bool there = n.before < 0 ? a.send == a.recv : a.peers != nullptr;
	return there ? nullptr : a.recv + part.at;
}

__device__ static bool pass(const codelet_args &a, const bulk_team &t, const bulk_call *b, const neighbours &n)
{
	auto before = [&](int rank) { return rank == n.before; };
	auto behind = [&](int rank) { return rank == n.behind; };
	uint64_t here = 0, room = 0;
	auto ready = [&](uint32_t m) {
		const bool has = n.before < 0 ? m || bulk_wait_headers(a, b) : bulk_wait_data(a, b, 0, m, &here, before);
		return has && bulk_wait_room(a, b, 0, m, &room, a.peers, behind);
	};
	auto work = [&](uint32_t m) {
		const range part = bulk_message(a, b->peers[a.rank].part, m);
		const unsigned char *from = source(a, n, m, part);
		unsigned char *own = own_copy(a, n, part);
		if (n.behind >= 0)
			copy_also<BULK_IN_FLIGHT>(t.workers, target(a, n, m, part), !a.peers, own, from, part.bytes);
		else if (own)
			bulk_copy(t, own, from, part.bytes, false);
	};
	return bulk_each(b, t, ready, work, [&](uint32_t m) {
		if (!a.peers)
			bulk_signal_taken(a, b, 0, m, before);
		if (n.behind >= 0)
			bulk_signal_data(a, b, 0, m, behind);
	});
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void chain(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const neighbours n = neighbours_of(a);
	auto begin = [&](bulk_call *b, const bulk_channel &c) { bulk_begin_blocks(a, b, c); };
	bulk_run(a, begin, [&](const bulk_call *b) { return pass(a, bulk_team_of(0, blockDim.x / 32, n.behind >= 0, 1), b, n); });
}

int codelets_chain(const codelet_args *args, struct grid grid, void *stream)
{
	return launch((const void *)chain, grid, args, stream);
}

int codelets_load_chain(void)
{
	return load((const void *)chain);
}
