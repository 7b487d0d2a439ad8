/* The two forms of packets that carry their own readiness, and the wait for some of them. */
#ifndef PACKET_CUH
#define PACKET_CUH

#include "call.cuh"

static constexpr uint32_t EMPTY = 0xffffffff;

/* 16 bytes of data; ready when no word is EMPTY. */
struct words {
	static constexpr bool RESTORED = true;
	__device__ static uint32_t slots(uint32_t bytes)
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
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return vector_hide<TYPE>(v);
	}
	__device__ static bool ready(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
	}
};

/*
 * Eight lanes make a line of 128 bytes that arrives whole: 120 bytes of data, then epoch and signature beside 8 of the data. Two
 * lines hold fifteen vectors; the one that both share comes last in the first and first in the second, so that
 * all others are loaded and stored whole.
 */
struct lines {
	static constexpr bool RESTORED = false;
	__device__ static uint32_t slots(uint32_t bytes)
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
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return i % 8 == 7 ? make_uint4(v.x, v.y, epoch, signature) : v;
	}
	__device__ static bool ready(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return i % 8 != 7 || (v.z == epoch && v.w == signature);
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
 * Words do not say which call they are of. So before anything is made of the first ones each warp hears of all ranks by their headers,
 * which come no later, and that none has failed: its lanes share the ranks and look beside the data, so it costs no time of its own.
 */
template <class Form> struct hearing {
	bool done = false;

	__device__ __forceinline__ unsigned missing(const codelet_args &a, uint64_t call)
	{
		if (!Form::RESTORED || done)
			return 0;
		done = headers_heard(a, call);
		return done ? 0 : 1u << A_HEADER;
	}

	__device__ static __forceinline__ bool is_header(int bit)
	{
		return Form::RESTORED && bit == A_HEADER;
	}
};

/* The rank of whose headers a lane has not heard. MANY: there may be more than 32 ranks, so a lane has several. */
template <bool MANY = false> __device__ static __forceinline__ int lane_rank(const codelet_args &a, uint64_t epoch)
{
	return MANY ? header_lacking(a, epoch) : (int)threadIdx.x % 32;
}

/* Where data does not carry the signature, the first warp waits until all ranks are known to make this call. EACH: of each block, not of one. */
template <bool EACH, bool MANY> __device__ static inline bool await_headers(const codelet_args &a, uint64_t epoch)
{
	if ((!EACH && blockIdx.x) || threadIdx.x >= 32)
		return true;
	return await(a, epoch, [&] { return headers_heard(a, epoch) ? 0u : 1u; }, [&](int) { return lane_rank<MANY>(a, epoch); });
}

/*
 * Calls run(c) for each piece of the vector or the blocks; piece c has epoch call + c. SEVERAL: there may be several. tells: data of
 * a single piece says that all are here; of several pieces every packet travels, which says it. MANY: as above.
 */
template <class Form, bool SEVERAL, bool MANY, class Run>
__device__ static __forceinline__ void run_pieces(const codelet_args &a, uint64_t call, bool tells, Run run)
{
	const uint32_t pieces = SEVERAL ? a.pieces : 1;
	const bool several = pieces > 1, headers = Form::RESTORED || !(several || tells);
	if (headers)
		send_headers(a, call);
	for (uint32_t c = 0; c < pieces; c++) {
		if (c == 1 && headers && !await_headers<false, MANY>(a, call)) /* a peer's next call may overwrite them */
			return;
		if (c && Form::RESTORED) /* places are empty before a peer can know it */
			sync_fence();
		if (!run(c))
			return;
	}
	if (!headers || several || await_headers<false, MANY>(a, call))
		call_end(a, call + pieces - 1);
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
