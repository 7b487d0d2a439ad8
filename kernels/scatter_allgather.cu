/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts too large for packets. The root deals messages to the other ranks in turn, and each passes its own on to all others: every
 * link into a rank carries the vector once, and the last data is there one message after it left the root (van de Geijn's scatter and
 * all-gather, message by message). A block's warp groups deal, each with slots of its own, so that one's wait for a flag is another's time to
 * move data. Into registered memory data goes straight; slots are not used then.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "fifo.cuh"

enum { WARP_GROUPS = CODELET_WARP_GROUPS };

/*
 * One of a block's warp groups: it takes every WARP_GROUPS-th message of the block's piece. A round has a message for each rank but the root; in slots
 * each of them lies in the same position of its sender's. Slots are free again by halves of the warp group's.
 */
struct deal {
	connection path;
	int position, others; /* from the root on, whose is 0; all but the root */
	uint32_t group, first; /* first: whose the warp group's first message is, so that warp groups begin with different ones */
	uint64_t rounds;
	range piece;
};

/* The rank at a position. */
__device__ static int rank_at(const codelet_args &a, int position)
{
	return (a.root + position) % a.ranks;
}

/* The k-th position after mine among the others. */
__device__ static int next_position(const deal &d, int k)
{
	return (d.position - 1 + k) % d.others + 1;
}

/* What the rank at a position has to pass on. */
__device__ static range dealt(const codelet_args &a, const deal &d, uint64_t round, int position)
{
	const uint32_t turn = ((uint32_t)(position - 1) + (uint32_t)d.others - d.first) % (uint32_t)d.others;
	return message(d.piece, a.slot_bytes, d.group + (round * (uint64_t)d.others + turn) * WARP_GROUPS);
}

__device__ static unsigned char *slot_of_group(const codelet_args &a, const deal &d, int sender, int receiver, uint64_t round)
{
	return slots_of(a, sender, receiver) + ((uint64_t)(d.path.number * WARP_GROUPS + d.group) * a.depth + round % a.depth) * a.slot_bytes;
}

/* Where a rank wants a message. */
__device__ static unsigned char *target_of(const codelet_args &a, const deal &d, int rank, range r, uint64_t round)
{
	return a.peers ? recv_address(a, rank, r.at) : slot_of_group(a, d, a.rank, rank, round);
}

/* All threads of a warp group: a word of each other rank but the root has come as far as a round. */
template <class Word> __device__ static bool wait_others(const codelet_args &a, const warp_group &w, deal *d, uint64_t round, Word word)
{
	bool good = true;
	for (int position = 1 + (int)w.thread; position < a.ranks; position += (int)w.threads) {
		const int rank = rank_at(a, position);
		if (position != d->position)
			good = good && wait_flag(a, &d->path, word(rank), flag_value(d->path, round), rank);
	}
	return warp_group_agrees(w, good);
}

/* Those that I send to have taken out so much. */
__device__ static bool wait_acks(const codelet_args &a, const warp_group &w, deal *d, uint64_t round)
{
	return wait_others(a, w, d, round, [&](int rank) { return ack_of(a, d->path, a.rank, rank); });
}

/* There is room for half as many rounds as there are slots. */
__device__ static bool wait_half(const codelet_args &a, const warp_group &w, deal *d, uint64_t round)
{
	const uint32_t half = a.depth / 2;
	return a.peers || round < a.depth || round % half || wait_acks(a, w, d, round - half - 1);
}

/* After the whole warp group's stores. */
__device__ static void signal_others(const codelet_args &a, const warp_group &w, const deal &d, uint64_t round)
{
	warp_group_sync(w);
	for (int k = 1 + (int)w.thread; k < d.others; k += (int)w.threads)
		sync_store_release(flag_of(a, d.path, a.rank, rank_at(a, next_position(d, k))), flag_value(d.path, round));
}

/* After the whole warp group's loads: to the root and to the others, for all rounds until this one. */
__device__ static void acknowledge(const codelet_args &a, const warp_group &w, const deal &d, uint64_t round)
{
	if ((round + 1) % (a.depth / 2))
		return;
	warp_group_sync(w);
	for (int position = (int)w.thread; position < a.ranks; position += (int)w.threads)
		if (position != d.position)
			sync_store_release(ack_of(a, d.path, rank_at(a, position), a.rank), flag_value(d.path, round));
}

__device__ static bool deal_round(const codelet_args &a, const warp_group &w, deal *d, uint64_t round)
{
	if (!wait_half(a, w, d, round))
		return false;
	for (int k = 0; k < d->others; k++) {
		const int position = 1 + (int)(d->first + (uint32_t)k) % d->others, to = rank_at(a, position);
		const range r = dealt(a, *d, round, position);
		unsigned char *own = a.send == a.recv ? nullptr : a.recv + r.at;
		copy_also(w, target_of(a, *d, to, r, round), !a.peers, own, a.send + r.at, r.bytes);
		signal_one(w, d->path, flag_of(a, d->path, a.rank, to), round);
	}
	return true;
}

__device__ static bool pass_round(const codelet_args &a, const warp_group &w, deal *d, uint64_t round)
{
	const range r = dealt(a, *d, round, d->position);
	const unsigned char *from = a.peers ? a.recv + r.at : slot_of_group(a, *d, a.root, a.rank, round);
	unsigned char *own = a.peers ? nullptr : a.recv + r.at;
	if (!wait_one(a, w, &d->path, flag_of(a, d->path, a.root, a.rank), round, a.root) || !wait_half(a, w, d, round))
		return false;
	for (int k = 1; k < d->others; k++) {
		const int to = rank_at(a, next_position(*d, k));
		copy_also(w, target_of(a, *d, to, r, round), !a.peers, k == 1 ? own : nullptr, from, r.bytes);
	}
	if (d->others == 1 && own)
		copy(w, own, from, r.bytes, false);
	if (!a.peers)
		signal_others(a, w, *d, round);
	return true;
}

/* Out of the slots of the others. */
__device__ static bool take_round(const codelet_args &a, const warp_group &w, deal *d, uint64_t round)
{
	for (int k = d->others - 1; k > 0; k--) { /* in the order of arrival */
		const int position = next_position(*d, k), from = rank_at(a, position);
		const range r = dealt(a, *d, round, position);
		if (!wait_one(a, w, &d->path, flag_of(a, d->path, from, a.rank), round, from))
			return false;
		copy(w, a.recv + r.at, slot_of_group(a, *d, from, a.rank, round), r.bytes, false);
	}
	acknowledge(a, w, *d, round);
	return true;
}

/* What others pass on comes while the next round's message is passed on. */
__device__ static bool pass(const codelet_args &a, const warp_group &w, deal *d)
{
	for (uint64_t round = 0; round <= d->rounds; round++) {
		if (round < d->rounds && !pass_round(a, w, d, round))
			return false;
		if (!a.peers && round && !take_round(a, w, d, round - 1))
			return false;
	}
	if (!a.peers)
		return true;
	signal_others(a, w, *d, d->rounds - 1);
	return wait_others(a, w, d, d->rounds - 1, [&](int rank) { return flag_of(a, d->path, rank, a.rank); });
}

__device__ static bool deal_all(const codelet_args &a, const warp_group &w, deal *d)
{
	for (uint64_t round = 0; round < d->rounds; round++)
		if (!deal_round(a, w, d, round))
			return false;
	return true;
}

/* Of one rank. */
__device__ static void keep(const codelet_args &a, const warp_group &w, const deal &d)
{
	const range r = cut(d.piece.bytes, CODELET_LINE, WARP_GROUPS, d.group);
	if (a.send != a.recv)
		copy(w, a.recv + d.piece.at + r.at, a.send + d.piece.at + r.at, r.bytes, false);
}

__device__ static bool run_deal(const codelet_args &a, const warp_group &w, deal *d)
{
	if (!d->others) {
		keep(a, w, *d);
		return true;
	}
	return wait_headers(a, w, &d->path) && (d->position ? pass(a, w, d) : deal_all(a, w, d));
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void scatter_allgather(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const uint32_t threads = blockDim.x / WARP_GROUPS, group = threadIdx.x / threads, others = (uint32_t)a.ranks - 1;
	const uint64_t messages = (messages_of(a.bytes, gridDim.x, a.slot_bytes) + WARP_GROUPS - 1) / WARP_GROUPS;
	deal d = { { epoch, blockIdx.x, gridDim.x, CODELET_BROADCAST + group }, a.rank - a.root, (int)others, group };
	d.position += d.position < 0 ? a.ranks : 0;
	d.first = others ? (blockIdx.x * WARP_GROUPS + group) % others : 0;
	d.rounds = others ? (messages + others - 1) / others : 0;
	d.piece = cut(a.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	send_headers(a, epoch);
	if (__syncthreads_and(run_deal(a, { threadIdx.x % threads, threads, group + 1 }, &d)))
		call_end(a, epoch);
}

int codelets_scatter_allgather(const codelet_args *args, struct grid grid, void *stream)
{
	return launch((const void *)scatter_allgather, grid, args, stream);
}

int codelets_load_scatter_allgather(void)
{
	return load((const void *)scatter_allgather);
}
