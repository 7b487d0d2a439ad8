/* SPDX-License-Identifier: BSD-3-Clause */
/* The two forms of packets that carry their own readiness, and the wait for some of them. */
#ifndef PACKET_CUH
#define PACKET_CUH

#include "call.cuh"

static constexpr uint32_t EMPTY = 0xffffffff;

/* 16 bytes of data; ready when no word is EMPTY. */
struct words {
	static constexpr bool IS_SENTINEL = true;
	__device__ static uint32_t packets(uint32_t bytes)
	{
		return (bytes + 15) / 16;
	}
	__device__ static uint32_t at(uint32_t i)
	{
		return i * 16;
	}
	__device__ static uint32_t before(uint32_t i)
	{
		return i * 16;
	}
	__device__ static uint32_t most(uint32_t i)
	{
		return 16;
	}
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint32_t epoch, uint32_t tag)
	{
		return vector_hide<TYPE>(v);
	}
	__device__ static bool ready(vector v, uint32_t i, uint32_t epoch, uint32_t tag)
	{
		return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
	}
};

/*
 * Eight lanes make a line of 128 bytes that arrives whole: 120 bytes of data, then epoch and tag beside 8 of the data. Two
 * lines hold fifteen vectors; the one that both share comes last in the first and first in the second, so that
 * all others are loaded and stored whole.
 */
struct lines {
	static constexpr bool IS_SENTINEL = false;
	__device__ static uint32_t packets(uint32_t bytes)
	{
		return (bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA * 8;
	}
	__device__ static uint32_t at(uint32_t i)
	{
		return i / 16 * 2 * CODELET_LINE_DATA + (i % 16 == 15 ? (uint32_t)CODELET_LINE_DATA : i % 16 * 16);
	}
	__device__ static uint32_t before(uint32_t i)
	{
		return i / 8 * CODELET_LINE_DATA; /* a line travels whole */
	}
	__device__ static uint32_t most(uint32_t i)
	{
		return i % 8 == 7 ? 8 : 16;
	}
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint32_t epoch, uint32_t tag)
	{
		return i % 8 == 7 ? make_uint4(v.x, v.y, epoch, tag) : v;
	}
	__device__ static bool ready(vector v, uint32_t i, uint32_t epoch, uint32_t tag)
	{
		return i % 8 != 7 || (v.z == epoch && v.w == tag);
	}
};

/* How much of packet i the vector of so many bytes fills. */
template <class Form> __device__ static uint32_t filled(uint32_t i, uint32_t bytes)
{
	uint32_t at = Form::at(i), left = at < bytes ? bytes - at : 0;
	return left < Form::most(i) ? left : Form::most(i);
}

/* Whether packet i of the vector is sent at all. */
template <class Form> __device__ static bool travels(uint32_t i, uint32_t bytes)
{
	return Form::before(i) < bytes;
}

/* ---- The wait, the whole warp together -------------------------------------------------------------------- */

enum { A_HEADER = 31 }; /* the bit of a header that has not come */

/* A wait that lasts: from now on peers can see which call this is. */
template <class Missing, class RankOf>
__device__ static __forceinline__ bool persist(const codelet_args &a, uint64_t epoch, Missing missing, RankOf rank_of)
{
	unsigned lacking;
	send_headers(a, epoch);
	return wait_until<one_warp>(
		a, epoch, true, [&] { return !(lacking = missing()); }, [&] { return lacking ? rank_of(__ffs((int)lacking) - 1) : -1; });
}

/* Until missing() is 0: which of the awaited ranks have not come, one bit each. rank_of gives the rank of a bit, as call_note has it. False if the
 * call has failed. */
template <class Missing, class RankOf>
__device__ static __forceinline__ bool await(const codelet_args &a, uint64_t epoch, Missing missing, RankOf rank_of)
{
	for (uint32_t spins = 0; __any_sync(~0u, missing() != 0); spins++)
		if (__builtin_expect(spins == CALL_SPINS_PER_LOOK, 0))
			return persist(a, epoch, missing, rank_of);
	return true;
}

/*
 * Sentinel packets do not say which call they are of. So before a warp uses its first ones it waits for the headers of all ranks, which come
 * no later, and say that none has failed. Its lanes share the ranks and look beside the data, so this costs no time of its own.
 */
template <class Form> struct header_wait {
	bool done = false;

	__device__ __forceinline__ unsigned missing(const codelet_args &a, uint64_t first_epoch)
	{
		if (!Form::IS_SENTINEL || done)
			return 0;
		done = headers_arrived(a, first_epoch);
		return done ? 0 : 1u << A_HEADER;
	}

	__device__ static __forceinline__ bool is_header(int bit)
	{
		return Form::IS_SENTINEL && bit == A_HEADER;
	}
};

/* The rank whose header a lane waits for. MANY: there may be more than 32 ranks, so a lane has several. */
template <bool MANY = false> __device__ static __forceinline__ int rank_without_header_of(const codelet_args &a, uint64_t epoch)
{
	return MANY ? rank_without_header(a, epoch) : (int)threadIdx.x % 32;
}

/* Where data does not carry the tag, the first warp waits until all ranks are known to make this call. EACH: of each block, not of one. */
template <bool EACH, bool MANY> __device__ static inline bool await_headers(const codelet_args &a, uint64_t epoch)
{
	if ((!EACH && blockIdx.x) || threadIdx.x >= 32)
		return true;
	return await(a, epoch, [&] { return headers_arrived(a, epoch) ? 0u : 1u; }, [&](int) { return rank_without_header_of<MANY>(a, epoch); });
}

/*
 * Calls run(c) for each piece of the vector or the blocks; piece c has epoch first_epoch + c. SEVERAL: there may be several. MANY: as above.
 * all_send: of a single piece each rank sends data to every other one.
 *
 * A rank that has finished a call has a signal from every rank. Lines are such signals where each rank sends some to all: with several pieces every
 * packet is sent, even an empty one. Else headers are, and who waits for them depends: each warp before it uses its first sentinel packets
 * (header_wait); the first warp of block 0 before the second piece, because a peer's next call may overwrite them; or that warp at the end.
 */
template <class Form, bool SEVERAL, bool MANY, class Run>
__device__ static __forceinline__ void run_pieces(const codelet_args &a, uint64_t first_epoch, bool all_send, Run run)
{
	const uint32_t pieces = SEVERAL ? a.pieces : 1;
	const bool several = pieces > 1, uses_headers = Form::IS_SENTINEL || !(several || all_send), waits_at_end = uses_headers && !several;
	if (uses_headers)
		send_headers(a, first_epoch);
	for (uint32_t c = 0; c < pieces; c++) {
		if (c == 1 && uses_headers && !await_headers<false, MANY>(a, first_epoch))
			return;
		if (c && Form::IS_SENTINEL) /* packets are refilled before a peer can know it */
			sync_fence();
		if (!run(c))
			return;
	}
	if (!waits_at_end || await_headers<false, MANY>(a, first_epoch))
		call_end(a, first_epoch + pieces - 1);
}

/* So many packets, and those of the last warp's lanes that have none; a warp's at least. */
__device__ static __forceinline__ uint32_t whole_warps(uint32_t packets)
{
	return packets < 32 ? 32 : (packets + 31) / 32 * 32;
}

/* What carries the two-shot folds of a type. Moves keep every bit, so they travel in lines. */
template <int TYPE, bool HIDES> struct form_of {
	typedef lines form;
};
template <int TYPE> struct form_of<TYPE, true> {
	typedef words form;
};
template <int TYPE> using fold_form = typename form_of<TYPE, vector_hides<TYPE>>::form;

#endif
