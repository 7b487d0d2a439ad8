/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one-shot and two-shot share: packets among any number of ranks, at any address; and among few ranks, for which the host has made
 * every address.
 */
#ifndef SHOTS_CUH
#define SHOTS_CUH

#include "packet.cuh"

/* ---- Any number of ranks ----------------------------------------------------------------------------------- */

enum { BATCH = 4 }; /* packets that a thread waits for at a time */

/* The packets at one place of the inboxes of ranks first, first + 1, ... */
struct inbox {
	unsigned char *at; /* of the lowest other rank */
	uint32_t i, epoch;
	unsigned wanted; /* one bit each */
	int first;
};

__device__ static __forceinline__ unsigned char *slot(const codelet_args &a, const inbox &box, int k)
{
	return box.at + (uint64_t)codelet_index(box.first + k, a.rank) * a.area_bytes;
}

/* One rank's side of a call. TYPE of moves: uint8. UNALIGNED: see load_user. */
template <class Form, int TYPE, bool UNALIGNED> struct packet_call {
	const codelet_args &a;
	const uint64_t first_epoch; /* the epoch of the headers, from which peers know it */
	uint64_t epoch;
	const uint32_t aborted;
	mutable header_wait<Form> headers;

	__device__ packet_call(const codelet_args &args) : a(args), first_epoch(call_epoch(args)), epoch(first_epoch), aborted(call_aborted(args))
	{
	}

	/* Packet i of this rank's own data, the scalar applied. */
	__device__ vector own(const unsigned char *from, uint32_t i, uint32_t bytes) const
	{
		vector v = load_user<UNALIGNED>(from + Form::at(i), filled<Form>(i, bytes));
		return a.op == CORALE_NUM_OPS ? premultiply<TYPE>(a, v) : v;
	}

	__device__ void push(int to, uint32_t offset, uint32_t i, vector v) const
	{
		sync_store_packet(packets_of(a, a.rank, to, epoch & 1) + offset + i * 16,
				  Form::template pack<TYPE>(v, i, (uint32_t)epoch, a.tag));
	}

	/* Which of the ranks first .. first + BATCH - 1 send me packet i. All send the first ones, be they empty. */
	__device__ unsigned senders(int first, uint32_t i) const
	{
		unsigned mask = 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (first + k < a.ranks && first + k != a.rank && (a.root < 0 || i < 8 || a.root == first + k))
				mask |= 1u << k;
		return mask;
	}

	/* Loads all wanted packets at once; those that are not ready. */
	__device__ __forceinline__ unsigned look(const inbox &box, vector got[BATCH]) const
	{
		unsigned lacking = aborted != 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (box.wanted >> k & 1)
				got[k] = sync_load_packet(slot(a, box, k));
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if ((box.wanted >> k & 1) && !Form::ready(got[k], box.i, box.epoch, a.tag))
				lacking |= 1u << k;
		return lacking;
	}

	__device__ __forceinline__ bool take(int first, unsigned wanted, uint32_t offset, uint32_t i, vector got[BATCH]) const
	{
		inbox box = { inbox_of(a, epoch & 1) + offset + i * 16, i, (uint32_t)epoch, wanted, first };
		auto rank_of = [&](int k) { return headers.is_header(k) ? rank_without_header_of<true>(a, first_epoch) : first + k; };
		if (!await(a, first_epoch, [&] { return look(box, got) | headers.missing(a, first_epoch); }, rank_of))
			return false;
#pragma unroll
		for (int k = 0; Form::IS_SENTINEL && k < BATCH; k++)
			if (wanted >> k & 1)
				sync_store_packet(slot(a, box, k), make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
		return true;
	}

	/* Folds packet i of all ranks in their order. Not by fold_ranks: with this rank's own among the loaded ones a fold takes up to 10 registers more. */
	__device__ bool fold(bool wanted, uint32_t i, vector mine, vector *out) const
	{
		vector_sum<TYPE> sum;
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			if (!take(first, wanted ? senders(first, i) : 0, 0, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++) {
				if (first + k >= a.ranks)
					break;
				vector v = first + k == a.rank ? mine : got[k];
				if (k == 0 && first == 0)
					sum.start(v);
				else
					sum.add(v, a.op);
			}
		}
		*out = sum.finish(a.op, a.ranks);
		return true;
	}

	/* Writes packet i of all ranks that send, of which `bytes` are wanted, to their blocks of the receive buffer. */
	__device__ bool collect(bool wanted, uint32_t i, unsigned char *recv, uint32_t bytes) const
	{
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned from = wanted ? senders(first, i) : 0;
			if (!take(first, from, 0, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if ((from >> k & 1) && (a.root < 0 || a.root == first + k))
					store_user<UNALIGNED>(recv + (uint64_t)(first + k) * a.recv_block + Form::at(i), got[k],
							filled<Form>(i, bytes));
		}
		return true;
	}
};

/* ---- Few ranks --------------------------------------------------------------------------------------------- */

enum { OTHERS = CODELET_FEW_RANKS - 1 };

/* The packets at one place of the inboxes, by the other ranks' order. */
struct few_inbox {
	uint64_t at;
	uint32_t i, epoch, tag;
	unsigned wanted; /* of the other ranks, one bit each */
};

template <class Form> __device__ static __forceinline__ unsigned look(const codelet_args &a, const few_inbox &box, vector got[OTHERS])
{
	unsigned lacking = 0;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (box.wanted >> j & 1)
			got[j] = sync_load_packet(a.few_ranks.in[j] + box.at);
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if ((box.wanted >> j & 1) && !Form::ready(got[j], box.i, box.epoch, box.tag))
			lacking |= 1u << j;
	return lacking;
}

/* Waits for packets and leaves their places empty. call: the epoch of the headers, from which peers know it. */
template <class Form>
__device__ static __forceinline__ bool take(const codelet_args &a, uint64_t first_epoch, const few_inbox &box, vector got[OTHERS], header_wait<Form> *headers)
{
	auto rank_of = [&](int j) { return headers->is_header(j) ? rank_without_header_of(a, first_epoch) : j + (j >= a.rank); };
	if (!await(a, first_epoch, [&] { return look<Form>(a, box, got) | headers->missing(a, first_epoch); }, rank_of))
		return false;
#pragma unroll
	for (int j = 0; Form::IS_SENTINEL && j < OTHERS; j++)
		if (box.wanted >> j & 1)
			sync_store_packet((void *)(a.few_ranks.in[j] + box.at), make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
	return true;
}

/* The vector of the rank at a place in the ranks' order. */
__device__ static __forceinline__ vector in_order(const codelet_args &a, int r, vector mine, const vector got[OTHERS])
{
	vector before = r ? got[r - 1] : mine, after = r < OTHERS ? got[r] : mine;
	return r < a.rank ? after : r == a.rank ? mine : before;
}

/* Not by fold_ranks: without a loop all packets stay in registers, and 32 suffice. */
template <int TYPE>
__device__ static __forceinline__ vector fold(const codelet_args &a, int op, vector mine, const vector got[OTHERS])
{
	vector_sum<TYPE> sum;
	sum.start(in_order(a, 0, mine, got));
#pragma unroll
	for (int r = 1; r < CODELET_FEW_RANKS; r++)
		if (r < a.ranks)
			sum.add(in_order(a, r, mine, got), op);
	return sum.finish(op, a.ranks);
}

template <int TYPE> __device__ static __forceinline__ vector scaled(const codelet_args &a, int op, vector v)
{
	return op == CORALE_NUM_OPS ? premultiply<TYPE>(a, v) : v;
}

#define LEAN __launch_bounds__(CODELET_THREADS, SM_THREADS / CODELET_THREADS) /* at most 32 registers where that is 4 */
#define MODEST __launch_bounds__(1024) /* at most 64: while a block waits, others find room on its SM */

#endif
