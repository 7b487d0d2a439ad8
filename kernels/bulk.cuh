/*
 * Messages of many bytes between warps, for calls that shall fill links with few blocks. What a block has for a rank goes in messages; message m lies in the
 * block's slot m mod depth there. A slot has two words, which only grow: a flag at the receiver, an acknowledgement at the sender. Either says
 * {epoch, m + 1}. So any warp may fill a slot and any warp may empty it: of the warps with one role each has some slots, whose words it sets in the order of their
 * messages. While one waits for a word, or for its stores to arrive, the others move data: what a block has in flight grows with its warps.
 *
 * A call has one exchange of messages, or two: what the first one brings is folded or passed on, and goes out by the second one.
 */
#ifndef BULK_CUH
#define BULK_CUH

#include "fifo.cuh"
#include "shared.cuh"
#include "tile.cuh"

enum {
	BULK_EXCHANGES = 2,
	BULK_IN_FLIGHT = 8, /* vectors that a lane loads before it stores the first */
	BULK_TILES = 2, /* of each warp, where the copy unit moves the data */
	BULK_SHARED = CODELET_BULK_THREADS / 32 * TILES_SHARED<BULK_TILES> /* bytes of a block for them */
};

struct bulk_peer {
	range part; /* of the vector or block that the rank receives in the first exchange: this block's piece of it */
	unsigned char *slots[BULK_EXCHANGES]; /* there: this block's first one */
};

/* A call as a block of threads has it: in shared memory, made once. */
struct bulk_call {
	uint64_t epoch;
	uint32_t messages; /* to each peer */
	const unsigned char *in[BULK_EXCHANGES]; /* here: this block's first slot of the first other rank */
	bulk_peer peers[CODELET_MAX_RANKS]; /* by rank */
};

/* Warps of a block with one role, and this one's place among them. */
struct role {
	uint32_t warp, warps;
};

/* A warp's first message, and the one after m: of n warps warp w has the slots w, w + n, ... */
__device__ static inline uint32_t bulk_first(const codelet_args &a, const role &r)
{
	return r.warp < a.depth ? r.warp : ~0u;
}

__device__ static inline uint32_t bulk_next(const codelet_args &a, const role &r, uint32_t m)
{
	const uint32_t slot = m % a.depth;
	return slot + r.warps < a.depth ? m + r.warps : m - slot + a.depth + r.warp;
}

/* A warp's tiles: its first lane has them. */
struct bulk_tiles {
	bool here;
	tiles<BULK_TILES> of_lane;
};

/* All threads of a block make its call. part(rank): what that rank receives in the first exchange. */
template <class Part> __device__ static inline bulk_call *bulk_begin(const codelet_args &a, uint64_t epoch, uint32_t messages, Part part)
{
	bulk_call *b = shared_object<bulk_call>();
	const uint64_t block = (uint64_t)blockIdx.x * a.depth * a.slot_bytes, exchange = gridDim.x * (uint64_t)a.depth * a.slot_bytes;
	for (int rank = (int)threadIdx.x; rank < a.ranks; rank += (int)blockDim.x) {
		const range r = part(rank), piece = cut(r.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
		unsigned char *there = rank == a.rank ? nullptr : slots_of(a, a.rank, rank) + block;
		b->peers[rank] = { { r.at + piece.at, piece.bytes }, { there, there + exchange } };
	}
	if (threadIdx.x == 0) {
		b->epoch = epoch;
		b->messages = messages;
		b->in[0] = slots_of(a, a.rank ? 0 : 1, a.rank) + block;
		b->in[1] = b->in[0] + exchange;
	}
	__syncthreads();
	return b;
}

/* ---- Slots and words -------------------------------------------------------------------------------------- */

__device__ static inline uint32_t bulk_lane(void)
{
	return threadIdx.x % 32;
}

/* For functions of warps that work together: this warp alone. */
__device__ static inline warp_group bulk_warp(void)
{
	return { bulk_lane(), 32, 0 };
}

/* Of a rank's part or block. */
__device__ static inline range bulk_message(const codelet_args &a, const range &part, uint32_t m)
{
	return message(part, a.slot_bytes, m);
}

__device__ static inline uint64_t bulk_value(const bulk_call *b, uint32_t m)
{
	return call_word(b->epoch, (uint64_t)m + 1);
}

__device__ static inline unsigned char *bulk_slot_there(const codelet_args &a, const bulk_call *b, uint32_t exchange, int to, uint32_t m)
{
	return b->peers[to].slots[exchange] + (uint64_t)(m % a.depth) * a.slot_bytes;
}

/* Where message m goes: into the receive buffer of a rank, at, where all ranks' are registered, else into its slot there. */
__device__ static inline unsigned char *bulk_target(const codelet_args &a, const bulk_call *b, uint32_t exchange, int to, uint32_t m, uint64_t at)
{
	return a.peers ? recv_address(a, to, at) : bulk_slot_there(a, b, exchange, to, m);
}

__device__ static inline const unsigned char *bulk_slot_here(const codelet_args &a, const bulk_call *b, uint32_t exchange, int from, uint32_t m)
{
	return b->in[exchange] + (uint64_t)codelet_index(from, a.rank) * a.area_bytes + (uint64_t)(m % a.depth) * a.slot_bytes;
}

/* In a window: the word of a slot that belongs to a peer. */
__device__ static inline uint64_t *bulk_word(const codelet_args &a, uint32_t area, uint32_t exchange, int window, int peer, uint32_t m)
{
	return (uint64_t *)(window_of(a, window) + area) +
	       ((uint64_t)(exchange * (uint32_t)a.ranks + (uint32_t)peer) * gridDim.x + blockIdx.x) * a.depth + m % a.depth;
}

__device__ static inline uint64_t *bulk_flag(const codelet_args &a, uint32_t exchange, int sender, int receiver, uint32_t m)
{
	return bulk_word(a, a.flags, exchange, receiver, sender, m);
}

__device__ static inline uint64_t *bulk_ack(const codelet_args &a, uint32_t exchange, int sender, int receiver, uint32_t m)
{
	return bulk_word(a, a.acks, exchange, sender, receiver, m);
}

/* ---- Waits and signals: all lanes of a warp. edge(rank): which ranks they are about -------------------------- */

/* All ranks are known to make this call, and may be stored to. */
__device__ static inline bool bulk_wait_headers(const codelet_args &a, const bulk_call *b)
{
	const bool good = warp_wait_headers(a, b->epoch);
	__syncwarp();
	return good;
}

template <class Edge, class Word> __device__ static inline bool bulk_wait(const codelet_args &a, const bulk_call *b, uint32_t m, Edge edge, Word word)
{
	const uint64_t value = bulk_value(b, m);
	auto lacking = [&] {
		int lacks = -1;
		for (int rank = (int)bulk_lane(); rank < a.ranks; rank += 32)
			if (edge(rank) && sync_load_acquire(word(rank)) < value)
				lacks = rank;
		return lacks;
	};
	const bool good = wait_until<one_warp>(a, b->epoch, true, [&] { return lacking() < 0; }, lacking);
	__syncwarp();
	return good;
}

/* Message m is here. */
template <class Edge> __device__ static inline bool bulk_wait_data(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, Edge edge)
{
	return bulk_wait(a, b, m, edge, [&](int from) { return bulk_flag(a, exchange, from, a.rank, m); });
}

/* The slot for message m is empty there, or none is used: direct. */
template <class Edge>
__device__ static inline bool bulk_wait_room(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, bool direct, Edge edge)
{
	return direct || m < a.depth || bulk_wait(a, b, m - a.depth, edge, [&](int to) { return bulk_ack(a, exchange, a.rank, to, m); });
}

/* After the loads and stores of all lanes, before signals that say so. */
__device__ static inline void bulk_publish(bulk_tiles *t)
{
	if (t->here && bulk_lane() == 0)
		tiles_arrive(&t->of_lane);
	__syncwarp();
	sync_fence();
}

template <class Edge, class Word> __device__ static inline void bulk_signal(const codelet_args &a, const bulk_call *b, uint32_t m, Edge edge, Word word)
{
	for (int rank = (int)bulk_lane(); rank < a.ranks; rank += 32)
		if (edge(rank))
			sync_store_relaxed(word(rank), bulk_value(b, m));
}

template <class Edge> __device__ static inline void bulk_signal_data(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, Edge edge)
{
	bulk_signal(a, b, m, edge, [&](int to) { return bulk_flag(a, exchange, a.rank, to, m); });
}

template <class Edge> __device__ static inline void bulk_signal_taken(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, Edge edge)
{
	bulk_signal(a, b, m, edge, [&](int from) { return bulk_ack(a, exchange, from, a.rank, m); });
}

/* ---- Data: all lanes of a warp ---------------------------------------------------------------------------- */

__device__ static inline bulk_tiles bulk_open(void)
{
	bulk_tiles t = {};
	t.here = TILE_IS_HERE && tiles_room() >= (uint32_t)BULK_SHARED;
	if (t.here && bulk_lane() == 0)
		t.of_lane = tiles_open<BULK_TILES>(threadIdx.x / 32);
	return t;
}

/* The last thing that a warp does, be its call good or not: tiles that are still being stored stay until they are read. */
__device__ static inline void bulk_close(bulk_tiles *t)
{
	if (t->here && bulk_lane() == 0)
		tiles_close(&t->of_lane);
}

/* By one lane; multiples of 16 bytes. All tiles but one are loaded ahead. */
__device__ static inline void bulk_copy_tiles(tiles<BULK_TILES> *t, unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	auto size = [&](uint64_t at) { return bytes - at < TILE_BYTES ? (uint32_t)(bytes - at) : (uint32_t)TILE_BYTES; };
	uint64_t loaded = 0;
	tiles_see();
	for (uint64_t at = 0; at < bytes; at += TILE_BYTES) {
		for (; loaded < bytes && loaded < at + (BULK_TILES - 1) * TILE_BYTES; loaded += TILE_BYTES) {
			tiles_read<1>(t);
			tiles_load(t, from + loaded, size(loaded));
		}
		tiles_store(t, to + at, size(at));
	}
}

/* By all lanes; returns how many bytes it has copied. */
__device__ static inline uint64_t bulk_copy_vectors(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	const uint32_t turn = BULK_IN_FLIGHT * 32, vectors = (uint32_t)(bytes / 16) / turn * turn;
	for (uint32_t first = bulk_lane(); first < vectors; first += turn) {
		vector v[BULK_IN_FLIGHT];
#pragma unroll
		for (uint32_t u = 0; u < BULK_IN_FLIGHT; u++)
			v[u] = __ldcg((const vector *)from + first + u * 32);
#pragma unroll
		for (uint32_t u = 0; u < BULK_IN_FLIGHT; u++)
			((vector *)to)[first + u * 32] = v[u];
	}
	return (uint64_t)vectors * 16;
}

/* Any addresses. whole: the target may be written up to the next multiple of 16 bytes. */
__device__ static inline void bulk_copy(bulk_tiles *t, unsigned char *to, const unsigned char *from, uint64_t bytes, bool whole)
{
	uint64_t at = 0;
	if (!(((uintptr_t)to | (uintptr_t)from) & 15)) {
		at = t->here ? bytes / 16 * 16 : bulk_copy_vectors(to, from, bytes);
		if (t->here && bulk_lane() == 0)
			bulk_copy_tiles(&t->of_lane, to, from, at);
	}
	copy(bulk_warp(), to + at, from + at, bytes - at, whole);
}

#endif
