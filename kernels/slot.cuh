/* Messages of many bytes: the slots of a lane, their flags and acknowledgements, and the movement of data. A lane is one
 * block of an edge; its message c of this call lies in slot c mod CODELET_DEPTH and its flag says {epoch, c + 1}, which only grows. */
#ifndef SLOT_CUH
#define SLOT_CUH

#include "call.cuh"

enum { IN_FLIGHT = 4 }; /* vectors that a thread loads before it stores the first */

struct lane {
	uint64_t epoch; /* in the upper half of every flag */
	uint32_t number, lanes; /* this block's, of how many */
	uint32_t ring;
	uint64_t start; /* of a wait that lasts */
};

__device__ static inline uint64_t flag_value(const lane &l, uint64_t message)
{
	return l.epoch << 32 | (message + 1);
}

__device__ static inline uint64_t *flag_at(const codelet_args &a, uint64_t area, const lane &l, int window, int peer)
{
	return (uint64_t *)(window_of(a, window) + area) +
	       ((uint64_t)l.ring * (uint32_t)a.ranks + (uint32_t)peer) * CODELET_MAX_BLOCKS + l.number;
}

/* Set by the sender in the receiver's window. */
__device__ static inline uint64_t *flag_of(const codelet_args &a, const lane &l, int sender, int receiver)
{
	return flag_at(a, a.flags, l, receiver, sender);
}

/* Set by the receiver in the sender's window. */
__device__ static inline uint64_t *ack_of(const codelet_args &a, const lane &l, int sender, int receiver)
{
	return flag_at(a, a.acks, l, sender, receiver);
}

/* Sends and receives share the slots of the first ring: every call leaves them empty. */
__device__ static inline unsigned char *slot_of(const codelet_args &a, const lane &l, int sender, int receiver, uint64_t message)
{
	return slots_of(a, sender, receiver) +
	       (((uint64_t)(l.ring == CODELET_SECOND) * l.lanes + l.number) * CODELET_DEPTH + message % CODELET_DEPTH) * a.slot_bytes;
}

/* One thread: waits until a flag has come as far as value. False if the call has failed. */
__device__ static inline bool wait_flag(const codelet_args &a, lane *l, const uint64_t *flag, uint64_t value, int peer)
{
	const bool headers = l->ring != CODELET_PAIRS;
	for (uint32_t spins = 1; sync_load_relaxed(flag) < value; spins++) {
		if (spins % CALL_SPINS_PER_LOOK || !call_look(a, spins, &l->start, l->epoch, headers))
			continue;
		call_explain(a, peer, l->epoch, headers);
		return false;
	}
	sync_fence();
	return true;
}

/* ---- Data: all threads of a block ------------------------------------------------------------------------ */

/* From the user's memory into a window. */
__device__ static inline void put(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	uint64_t vectors = bytes / 16, i = threadIdx.x, stride = blockDim.x;
	if ((uintptr_t)from % 16 == 0) {
		const vector *source = (const vector *)from;
		vector *target = (vector *)to;
		for (; i + (IN_FLIGHT - 1) * stride < vectors; i += IN_FLIGHT * stride) {
			vector v[IN_FLIGHT];
#pragma unroll
			for (int u = 0; u < IN_FLIGHT; u++)
				v[u] = source[i + u * stride];
#pragma unroll
			for (int u = 0; u < IN_FLIGHT; u++)
				target[i + u * stride] = v[u];
		}
	}
	for (; i * 16 < bytes; i += stride) {
		uint64_t left = bytes - i * 16;
		*(vector *)(to + i * 16) = load_user<true>(from + i * 16, left < 16 ? (unsigned)left : 16);
	}
}

/* From a slot of my window into the user's memory. */
__device__ static inline void get(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	uint64_t vectors = bytes / 16, i = threadIdx.x, stride = blockDim.x;
	const vector *source = (const vector *)from;
	if ((uintptr_t)to % 16 == 0) {
		vector *target = (vector *)to;
		for (; i + (IN_FLIGHT - 1) * stride < vectors; i += IN_FLIGHT * stride) {
			vector v[IN_FLIGHT];
#pragma unroll
			for (int u = 0; u < IN_FLIGHT; u++)
				v[u] = __ldcg(source + i + u * stride);
#pragma unroll
			for (int u = 0; u < IN_FLIGHT; u++)
				target[i + u * stride] = v[u];
		}
	}
	for (; i * 16 < bytes; i += stride) {
		uint64_t left = bytes - i * 16;
		store_user<true>(to + i * 16, __ldcg(source + i), left < 16 ? (unsigned)left : 16);
	}
}

/* Within the user's memory, any alignment. */
__device__ static inline void copy_own(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	if (to == from)
		return;
	if ((uintptr_t)to % 16 == 0) {
		put(to, from, bytes / 16 * 16);
		if (threadIdx.x == 0 && bytes % 16)
			store_user<true>(to + bytes / 16 * 16, load_user<true>(from + bytes / 16 * 16, bytes % 16), bytes % 16);
		return;
	}
	for (uint64_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
		unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		store_user<true>(to + at, load_user<true>(from + at, n), n);
	}
}

/* ---- Cuts ------------------------------------------------------------------------------------------------ */

struct range {
	uint64_t at, bytes;
};

/* Piece i of n of so many bytes, in whole units. */
__device__ static inline range cut(uint64_t bytes, uint64_t unit, uint32_t n, uint32_t i)
{
	uint64_t units = (bytes + unit - 1) / unit, each = units / n, more = units % n;
	uint64_t first = (i * each + (i < more ? i : more)) * unit, last = first + (each + (i < more)) * unit;
	first = first < bytes ? first : bytes;
	last = last < bytes ? last : bytes;
	return { first, last - first };
}

/* Message c of a lane's piece. */
__device__ static inline range message(range piece, uint64_t slot_bytes, uint64_t c)
{
	uint64_t first = c * slot_bytes < piece.bytes ? c * slot_bytes : piece.bytes;
	uint64_t left = piece.bytes - first;
	return { piece.at + first, left < slot_bytes ? left : slot_bytes };
}

#endif
