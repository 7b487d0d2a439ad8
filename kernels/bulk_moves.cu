/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of data by teams of warps (bulk.cuh): all_gather, all_to_all, by few blocks gather and scatter, too. One team of a block sends: a message goes to one peer after the
 * other, beginning with the next rank, because a link takes most when all that leaves a rank goes to one other. The other team takes in. Into registered memory data
 * goes straight; slots are not used then.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "zero_copy.cuh"

/* Whether a rank has data for another one. */
template <bulk_shape SHAPE> __device__ static inline bool is_edge(const codelet_args &a, int from, int to)
{
	const bool all = SHAPE == BULK_MANY || a.root < 0 || (a.send_block ? from : to) == a.root;
	return all && from != to;
}

/* An all_to_all in place: a message is in its slots before what comes overwrites it. Senders tell so by a flag to this rank itself. */
__device__ static inline bool is_in_place(const codelet_args &a)
{
	return a.send == a.recv && a.send_block && a.recv_block;
}

/* Whether a rank has a block for itself that is not where it belongs. Of a rooted call the root alone: it sends or takes in, not both. */
__device__ static inline bool keeps(const codelet_args &a)
{
	return a.send + (uint64_t)a.rank * a.send_block != a.recv + (uint64_t)a.rank * a.recv_block && (a.root < 0 || a.rank == a.root);
}

template <bulk_shape SHAPE> __device__ static inline void keep(const codelet_args &a, const bulk_team &t, const range &part)
{
	const unsigned char *from = a.send + (uint64_t)a.rank * a.send_block;
	unsigned char *to = a.recv + (uint64_t)a.rank * a.recv_block;
	if (keeps(a))
		bulk_copy<SHAPE>(t, to + part.at, from + part.at, part.bytes, false);
}

/* Whether what a rank sends is the same for all, and stored once (bulk_slot_of_owner). */
template <bulk_shape SHAPE> __device__ static inline bool stores_once(const codelet_args &a)
{
	return SHAPE == BULK_FEW && a.one_polls && !a.peers && a.root < 0 && !a.send_block;
}

/* Message m with the peers from first on: all of them, or of many blocks one. */
struct step {
	uint32_t m;
	int first;
};

template <bulk_shape SHAPE> __device__ static inline int end_of(const codelet_args &a, const step &s)
{
	return SHAPE == BULK_FEW ? a.ranks : s.first + 1;
}

/* As bulk_each: ready(step), work(step), signal(step). */
template <bulk_shape SHAPE, class Ready, class Work, class Signal>
__device__ static inline bool each_step(const codelet_args &a, const bulk_call *b, const bulk_team &t, Ready ready, Work work, Signal signal)
{
	const uint32_t steps = SHAPE == BULK_FEW ? 1 : (uint32_t)a.ranks - 1; /* of a message */
	auto step_at = [&](uint32_t n) { return step{ n / steps, 1 + (int)(n % steps) }; };
	return bulk_each(
		b, t, [&](uint32_t n) { return ready(step_at(n)); }, [&](uint32_t n) { work(step_at(n)); }, [&](uint32_t n) { signal(step_at(n)); }, steps);
}

/* Waits for every rank's header: until then its buffer may be in use, its slots may be granted to sends (grants.cuh), and its scratch may hold copies that it has not taken out. */
template <bulk_shape SHAPE> __device__ static bool send_blocks(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto edge = [&](int to) { return is_edge<SHAPE>(a, a.rank, to); };
	uint64_t seen = 0;
	auto ready = [&](const step &s) {
		return s.first > 1 || ((s.m || bulk_wait_headers(a, b)) && bulk_wait_room(a, b, 0, s.m, &seen, a.peers, edge));
	};
	auto work = [&](const step &s) {
		const range part = bulk_message(a, b->peers[a.rank].part, s.m);
		if (stores_once<SHAPE>(a))
			bulk_copy<SHAPE>(t, bulk_slot_of_owner(a, b, a.rank, s.m), a.send + part.at, part.bytes, true);
		for (int k = s.first; k < end_of<SHAPE>(a, s) && !stores_once<SHAPE>(a); k++) {
			const int to = peer_after(a, k);
			unsigned char *target = bulk_target(a, b, 0, to, s.m, (uint64_t)a.rank * a.recv_block + part.at);
			if (edge(to))
				bulk_copy<SHAPE>(t, target, a.send + (uint64_t)to * a.send_block + part.at, part.bytes, !a.peers);
		}
		if (SHAPE == BULK_FEW && a.root >= 0)
			keep<SHAPE>(a, t, part);
	};
	auto signal = [&](const step &s) {
		bulk_signal_data(a, b, 0, s.m, [&](int to) {
			const bool sent = SHAPE == BULK_FEW ? edge(to) : to == peer_after(a, s.first);
			return sent || (to == a.rank && end_of<SHAPE>(a, s) == a.ranks && is_in_place(a));
		});
	};
	if (!each_step<SHAPE>(a, b, t, ready, work, signal))
		return false;
	/* The next call waits for all ranks anyway. But ranks that end together begin it together: without this wait all_gather of 2 GPUs, 128 MB, by many blocks takes
	 * 209 us instead of 205. What is stored once has to be loaded before this rank's slots are used again. */
	return (SHAPE == BULK_FEW && !stores_once<SHAPE>(a)) || !bulk_waits(b, t) || bulk_wait_room(a, b, 0, b->messages - 1 + a.depth, &seen, a.peers, edge);
}

/* In registered memory what comes is where it belongs, and no slot is given back. */
template <bulk_shape SHAPE> __device__ static bool take_blocks(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto peer = [&](int k) { return peer_after(a, a.ranks - k); }; /* in the order of arrival */
	auto edge = [&](const step &s, int from) { return SHAPE == BULK_FEW ? is_edge<SHAPE>(a, from, a.rank) : from == peer(s.first); };
	auto awaited = [&](const step &s, int from) { return edge(s, from) || (from == a.rank && s.first == 1 && is_in_place(a)); };
	uint64_t seen = 0;
	if (SHAPE == BULK_MANY)
		keep<SHAPE>(a, t, b->peers[a.rank].part);
	auto ready = [&](const step &s) {
		if (s.m == 0 && s.first == 1 && !bulk_wait_headers(a, b))
			return false;
		if (SHAPE == BULK_FEW)
			keep<SHAPE>(a, t, bulk_message(a, b->peers[a.rank].part, s.m));
		else
			seen = 0; /* which is of the peer before */
		return bulk_wait_data(a, b, 0, s.m, &seen, [&](int from) { return awaited(s, from); });
	};
	auto work = [&](const step &s) {
		const range part = bulk_message(a, b->peers[a.rank].part, s.m);
		if (SHAPE == BULK_FEW && !bulk_waits(b, t))
			keep<SHAPE>(a, t, part);
		for (int k = s.first; k < end_of<SHAPE>(a, s) && !a.peers; k++) {
			const int from = peer(k);
			const unsigned char *slot = stores_once<SHAPE>(a) ? bulk_slot_of_owner(a, b, from, s.m) : bulk_slot_here(a, b, 0, from, s.m);
			if (edge(s, from))
				bulk_copy<SHAPE>(t, a.recv + (uint64_t)from * a.recv_block + part.at, slot, part.bytes, false);
		}
	};
	return each_step<SHAPE>(a, b, t, ready, work, [&](const step &s) {
		if (!a.peers)
			bulk_signal_taken(a, b, 0, s.m, [&](int from) { return edge(s, from); });
	});
}

/* Of a rooted call a rank's warps all send, or all take in. */
template <bulk_shape SHAPE> __device__ static bool run_warp(const codelet_args &a, const bulk_call *b)
{
	const bool rooted = SHAPE == BULK_FEW && a.root >= 0, sends = (a.send_block != 0) == (a.rank == a.root);
	const uint32_t warps = blockDim.x / 32, senders = !rooted ? (warps + 1) / 2 : sends ? warps : 0;
	return threadIdx.x / 32 < senders ? send_blocks<SHAPE>(a, bulk_team_of(0, senders, SHAPE == BULK_FEW, 1), b) :
					    take_blocks<SHAPE>(a, bulk_team_of(senders, warps - senders, false, 2), b);
}

/* All threads of a block: some of the own block. */
__device__ static void keep_in_place(const codelet_args &a, const range &part)
{
	if (keeps(a))
		zero_copy_load(a.recv + (uint64_t)a.rank * a.recv_block + part.at, a.send + (uint64_t)a.rank * a.send_block + part.at, part.bytes);
}

/* All threads of a block: blocks come from where the ranks have them. The own one is left to blocks that have nothing else to do, if there are any. */
__device__ static bool run_in_place(const codelet_args &a, const bulk_call *b)
{
	const range part = b->peers[a.rank].part;
	if (zero_copy_channels(a) == gridDim.x)
		keep_in_place(a, part);
	for (int k = 1; k < a.ranks; k++) {
		const int from = peer_after(a, k);
		if (is_edge<BULK_FEW>(a, from, a.rank))
			zero_copy_load(a.recv + (uint64_t)from * a.recv_block + part.at, b->send[from] + (uint64_t)a.rank * a.send_block + part.at,
				       part.bytes);
	}
	return zero_copy_meet<true>(a, b, 0);
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c, bool) { bulk_begin_blocks(a, b, c); };
	auto run = [&](const bulk_call *b) { return b->form == ZERO_COPY_IN_PLACE ? run_in_place(a, b) : run_warp<BULK_FEW>(a, b); };
	zero_copy_run(a, begin, run, [&](uint32_t number, uint32_t of) { keep_in_place(a, cut(a.bytes, CODELET_LINE, of, number)); });
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void fifo_moves(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c) { bulk_begin_blocks(a, b, c); };
	bulk_run(a, begin, [&](const bulk_call *b) { return run_warp<BULK_MANY>(a, b); });
}

int codelets_bulk_moves(const codelet_args *args, struct grid grid, int many, void *stream)
{
	return launch((const void *)(many ? fifo_moves : bulk_moves), grid, args, stream);
}

int codelets_load_bulk_moves(void)
{
	const int error = load((const void *)bulk_moves);
	return error ? error : load((const void *)fifo_moves);
}
