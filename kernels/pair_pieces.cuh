/*
 * Sends and receives of lines that one half does not hold: in pieces of one launch, each a message of lines of its own
 * (pair_lines.cuh), so that the halves take turns. Every lane counts every piece, also one in which it has nothing. A sender's warps
 * go on to the next piece by themselves; a receiver's block ends each of them together and tells it. A send of more
 * than two pieces so ends after its receive has begun.
 */
#ifndef PAIR_PIECES_CUH
#define PAIR_PIECES_CUH

#include "pair_lines.cuh"

enum : uint32_t { PACKETS_AT_ONCE = 2 }; /* of a thread: it loads these before it stores the first, and awaits them together */

/* The packet that this thread has in turn x / blockDim.x of its lane: x counts the lane's packets, which lie a group here, a group there. */
__device__ static inline uint32_t packet_of(const pair_lines &p, uint32_t x)
{
	const uint32_t group = CODELET_GROUP * 8;
	return (p.path.number + x / group * p.lanes) * group + x % group;
}

/* Calls act(x) for the first of this thread's packets at once, whole warps together, until one fails. */
template <class Act> __device__ static inline bool each_packets(const pair_lines &p, uint32_t slots, Act act)
{
	for (uint32_t x = threadIdx.x; packet_of(p, x) / 32 * 32 < slots; x += PACKETS_AT_ONCE * blockDim.x)
		if (!act(x))
			return false;
	return true;
}

template <bool ODD> __device__ static inline bool send_piece(const pair_lines &p, const unsigned char *data, uint32_t bytes)
{
	const uint32_t slots = (uint32_t)codelet_lines(bytes) * 8;
	const uint64_t *taken = taken_of(p, p.g->args.rank, p.m->peer);
	unsigned char *to = lines_of(p, p.g->args.rank, p.m->peer);
	return each_packets(p, slots, [&](uint32_t first) {
		vector v[PACKETS_AT_ONCE] = {};
#pragma unroll
		for (uint32_t u = 0; u < PACKETS_AT_ONCE; u++) {
			uint32_t i = packet_of(p, first + u * blockDim.x);
			v[u] = load_user<ODD>(data + lines::at(i), filled<lines>(i, bytes));
		}
		/* behind the loads, which need no room */
		if (first < blockDim.x && !await_pair(p, [&] { return has_room(p, taken); }))
			return false;
#pragma unroll
		for (uint32_t u = 0; u < PACKETS_AT_ONCE; u++) {
			uint32_t i = packet_of(p, first + u * blockDim.x);
			if (i < slots)
				sync_store_packet(to + (uint64_t)i * 16, packed_line(p, v[u], i));
		}
		return true;
	});
}

template <bool ODD> __device__ static inline bool receive_piece(const pair_lines &p, unsigned char *data, uint32_t bytes)
{
	const uint32_t slots = (uint32_t)codelet_lines(bytes) * 8;
	const unsigned char *from = lines_of(p, p.m->peer, p.g->args.rank);
	return each_packets(p, slots, [&](uint32_t first) {
		vector v[PACKETS_AT_ONCE] = {};
		bool good = await_pair(p, [&] {
			bool ready = true;
#pragma unroll
			for (uint32_t u = 0; u < PACKETS_AT_ONCE; u++) {
				uint32_t i = packet_of(p, first + u * blockDim.x);
				if (i < slots)
					v[u] = sync_load_packet(from + (uint64_t)i * 16);
			}
#pragma unroll
			for (uint32_t u = 0; u < PACKETS_AT_ONCE; u++)
				ready = ready && (packet_of(p, first + u * blockDim.x) >= slots || has_come(p, v[u], first));
			return ready;
		});
#pragma unroll
		for (uint32_t u = 0; u < PACKETS_AT_ONCE; u++)
			good = good && (packet_of(p, first + u * blockDim.x) >= slots || is_expected(p, v[u], first));
		if (!__all_sync(~0u, good))
			return false;
#pragma unroll
		for (uint32_t u = 0; u < PACKETS_AT_ONCE; u++) {
			uint32_t i = packet_of(p, first + u * blockDim.x);
			store_user<ODD>(data + lines::at(i), v[u], filled<lines>(i, bytes));
		}
		return true;
	});
}

/* The whole block: one piece, and what its receiver tells. */
template <bool ODD> __device__ static inline bool run_piece(const pair_lines &p, uint32_t at, uint32_t bytes)
{
	if (p.m->sending)
		return send_piece<ODD>(p, p.m->data + at, bytes);
	if (!crew_agrees(whole_block(), receive_piece<ODD>(p, p.m->data + at, bytes)))
		return false;
	if (threadIdx.x == 0)
		tell_taken(p);
	return true;
}

/* The whole block. A function of its own, as it needs most registers. */
template <bool ODD> __device__ static __noinline__ bool run_pieces_of_lines(pair_lines p)
{
	const uint32_t all = (uint32_t)p.m->bytes, piece = codelet_piece(p.g, all);
	uint32_t *count = count_of(p), at = 0;
	bool good = true;
	p.number = *count;
	do {
		p.number++;
		good = run_piece<ODD>(p, at, all - at < piece ? all - at : piece);
		at += piece;
	} while (good && at < all);
	if (!crew_agrees(whole_block(), good))
		return false;
	if (threadIdx.x == 0)
		*count = p.number;
	__syncthreads(); /* the next message's threads read the count */
	return true;
}

__device__ static inline bool run_long_lines(const pair_lines &p)
{
	return (((uintptr_t)p.m->data | p.m->bytes) & 3) ? run_pieces_of_lines<true>(p) : run_pieces_of_lines<false>(p);
}

#endif
