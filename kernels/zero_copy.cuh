/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls by few blocks (bulk.cuh) that read the ranks' buffers where they lie. Ranks read each other's buffers and write their own ones only, so a rank that fails
 * leaves nobody who might still store into its memory.
 *
 * Block 0 of each rank says where its buffers lie and which exports of the others are open here (codelet_refs), to all ranks, its own blocks among them. Each block of
 * each rank decides from what all ranks have said, so all decide alike. Where buffers are read, blocks beyond codelet_zero_copy.channels copy what stays on the GPU and end, and
 * the others go through phases, between which blocks of one number of all ranks meet.
 */
#ifndef ZERO_COPY_CUH
#define ZERO_COPY_CUH

#include "bulk.cuh"
#include "exports.cuh"

enum zero_copy_form { ZERO_COPY_SLOTS, ZERO_COPY_IN_PLACE, ZERO_COPY_FAILED };

/* ---- What ranks say ----------------------------------------------------------------------------------------- */

__device__ static inline unsigned char *refs_of(const codelet_args &a, int sender, int receiver, uint64_t epoch)
{
	const uint64_t index = (epoch & 1) * (uint32_t)a.ranks + (uint32_t)sender;
	return window_of(a, receiver) + a.zero_copy.refs + index * sizeof(codelet_refs);
}

/* Packets of a rank. */
__device__ static inline int refs_packets(const codelet_args &a)
{
	return CODELET_REF_OPENED + (a.ranks + 1) / 2;
}

/* The lanes that load a word each, all at a time: of each rank's exports how many are open here, and whether the own buffers' may still be named. */
enum { LANE_OF_SEND = EXPORTS_MOST_RANKS, LANE_OF_RECV };

__device__ static inline uint64_t load_of_lane(const codelet_args &a, int lane)
{
	const codelet_zero_copy &z = a.zero_copy;
	const uint64_t *from = nullptr;
	if (lane < a.ranks && lane != a.rank)
		from = &z.exports[lane]->opened;
	else if (lane == LANE_OF_SEND || lane == LANE_OF_RECV)
		from = &z.own->usable[(lane == LANE_OF_SEND ? z.send : z.recv).number % EXPORTS_ROOM];
	return from ? sync_load_acquire(from) : 0;
}

/* What others must have open: the highest number of what they read, and above it whether they may. */
__device__ static inline uint64_t need_of(const codelet_args &a, uint64_t usable_send, uint64_t usable_recv)
{
	const codelet_zero_copy &z = a.zero_copy;
	const uint64_t send = z.read & CODELET_READS_SEND ? z.send.number : 0, recv = z.read & CODELET_READS_RECV ? z.recv.number : 0;
	const bool sendable = !(z.read & CODELET_READS_SEND) || (send && usable_send == send),
		   receivable = !(z.read & CODELET_READS_RECV) || (recv && usable_recv == recv);
	return (send > recv ? send : recv) | (uint64_t)(sendable && receivable && !z.cannot) << 32;
}

/* All lanes of a warp: what a lane says. */
__device__ static inline uint64_t refs_word(const codelet_args &a, int packet)
{
	const uint64_t loaded = load_of_lane(a, packet), opened = loaded < UINT32_MAX ? loaded : UINT32_MAX;
	const int first = (packet - CODELET_REF_OPENED) * 2 & 31; /* rank of this packet */
	const uint64_t usable_send = __shfl_sync(~0u, loaded, LANE_OF_SEND), usable_recv = __shfl_sync(~0u, loaded, LANE_OF_RECV);
	const uint64_t low = __shfl_sync(~0u, opened, first), high = __shfl_sync(~0u, opened, first + 1);
	switch (packet) {
	case CODELET_REF_SEND:
		return ref_word(a.zero_copy.send);
	case CODELET_REF_RECV:
		return ref_word(a.zero_copy.recv);
	case CODELET_REF_NEED:
		return need_of(a, usable_send, usable_recv);
	default:
		return low | (first + 1 < a.ranks ? high : 0) << 32;
	}
}

/* One warp of the first block: each word that may change is read once, by one lane, so that all ranks hear the same. */
__device__ static inline void send_refs(const codelet_args &a, uint64_t epoch)
{
	const int packet = (int)bulk_lane();
	const vector v = epoch_packet(refs_word(a, packet), epoch);
	if (packet >= refs_packets(a))
		return;
	for (int k = 0; k < a.ranks; k++) {
		const int to = peer_after(a, k);
		sync_store_packet(refs_of(a, a.rank, to, epoch) + packet * sizeof(v), v);
	}
}

/* ---- What is agreed ------------------------------------------------------------------------------------------ */

/* A packet of a rank: into b. Whether it has come. */
__device__ static inline bool take_ref(bulk_call *b, int rank, int packet, const vector &v, uint64_t epoch)
{
	b->refs[rank][packet] = word_of(v);
	return header_is_of(v, epoch);
}

/* All lanes of a warp: headers and refs of all ranks are here, and the refs in b. What a look needs is loaded at one time. */
__device__ static inline bool wait_refs(const codelet_args &a, bulk_call *b, uint64_t epoch)
{
	const int packets = refs_packets(a), all = a.ranks * packets, lane = (int)bulk_lane();
	auto load = [&](int i) { return sync_load_packet(refs_of(a, i / packets, a.rank, epoch) + i % packets * sizeof(vector)); };
	int lacking = -1;
	auto ready = [&] {
		const uint32_t aborted = call_aborted(a);
		const vector first = load(lane < all ? lane : 0);
		lacking = rank_without_header(a, epoch);
		if (lane < all && !take_ref(b, lane / packets, lane % packets, first, epoch))
			lacking = lane / packets;
		for (int i = lane + 32; i < all; i += 32)
			lacking = take_ref(b, i / packets, i % packets, load(i), epoch) ? lacking : i / packets;
		return lacking < 0 && !aborted;
	};
	const bool good = wait_until<one_warp>(a, epoch, true, ready, [&] { return lacking; });
	sync_fence();
	__syncwarp();
	return good;
}

/* Whether all other ranks can read what they need of a rank's. */
__device__ static inline bool is_open(const codelet_args &a, const bulk_call *b, int rank)
{
	const uint64_t need = b->refs[rank][CODELET_REF_NEED];
	bool open = need >> 32;
	for (int other = 0; other < a.ranks; other++) {
		const uint64_t two = b->refs[other][CODELET_REF_OPENED + rank / 2];
		open = open && (other == rank || (uint32_t)(two >> 32 * (rank % 2)) >= (uint32_t)need);
	}
	return open;
}

__device__ static inline void find_buffers(const codelet_args &a, bulk_call *b)
{
	const int rank = (int)bulk_lane() % EXPORTS_MOST_RANKS;
	const bool sends = bulk_lane() < EXPORTS_MOST_RANKS;
	const unsigned char **at = sends ? b->send : b->recv;
	if (rank >= a.ranks)
		return;
	if (rank == a.rank)
		at[rank] = sends ? a.send : a.recv;
	else
		at[rank] = open_at(a, rank, b->refs[rank][sends ? CODELET_REF_SEND : CODELET_REF_RECV]);
}

/*
 * All lanes of a warp: nobody had given the call up when abort was loaded. An owner says that before its program can free a buffer, so an address that is gone is of a call
 * that is over.
 */
__device__ static inline bool still_lives(const codelet_args &a, uint64_t abort, uint64_t epoch)
{
	const bool ended = one_warp::any(abort != 0);
	if (ended && bulk_lane() == 0)
		call_explain(a, -1, epoch, true);
	return !ended;
}

/* All lanes of a warp: how the call goes. If in place, the addresses of all ranks' buffers are in b. */
__device__ static inline int agree(const codelet_args &a, bulk_call *b, uint64_t epoch)
{
	if (!a.zero_copy.exports)
		return ZERO_COPY_SLOTS;
	if (blockIdx.x == 0)
		send_refs(a, epoch);
	if (!wait_refs(a, b, epoch))
		return ZERO_COPY_FAILED;
	if (!one_warp::all((int)bulk_lane() >= a.ranks || is_open(a, b, (int)bulk_lane())))
		return ZERO_COPY_SLOTS;
	find_buffers(a, b);
	return still_lives(a, abort_word(a), epoch) ? ZERO_COPY_IN_PLACE : ZERO_COPY_FAILED;
}

/* A call in which nothing but what is read is copied. */
struct no_rest {
	__device__ void operator()(uint32_t, uint32_t) const
	{
	}
};

/* Blocks that go through the phases of a call in place. */
__device__ static inline uint32_t zero_copy_channels(const codelet_args &a)
{
	return a.zero_copy.channels < gridDim.x ? a.zero_copy.channels : gridDim.x;
}

/*
 * All threads of a block: a call. begin(b, channel, in_place): a warp makes b; run(b) does its work; false of any thread: the call has failed. While one warp waits for
 * what others say, one begins as if in place. rest(number, of): what the blocks do that such a call leaves over.
 */
template <class Begin, class Run, class Rest> __device__ static inline void zero_copy_run(const codelet_args &a, Begin begin, Run run, Rest rest)
{
	const uint64_t epoch = call_epoch(a);
	const uint32_t warp = threadIdx.x / 32, few = zero_copy_channels(a);
	bulk_call *b = shared_object<bulk_call>();
	send_headers(a, epoch);
	if (warp == 0) {
		const int form = agree(a, b, epoch);
		if (bulk_lane() == 0)
			b->form = form;
	} else if (warp == 1 && a.zero_copy.exports && blockIdx.x < few) {
		begin(b, bulk_channel{ epoch, blockIdx.x, few }, true);
	}
	__syncthreads();
	const int form = b->form;
	if (form == ZERO_COPY_SLOTS) {
		if (warp == 1)
			begin(b, bulk_channel{ epoch, blockIdx.x, gridDim.x }, false);
		__syncthreads();
	}
	bool good = form != ZERO_COPY_FAILED;
	if (good && form == ZERO_COPY_IN_PLACE && blockIdx.x >= few)
		rest(blockIdx.x - few, gridDim.x - few);
	else if (good)
		good = __syncthreads_and(run(b));
	if (good)
		call_end(a, epoch);
}

/* ---- Phases: all threads of a block --------------------------------------------------------------------------- */

/*
 * This block of all ranks has ended a phase. LAST: an owner that gave up before this rank had read its buffers has said so by now, as it does that before its program has
 * the memory back; then what has been read may be anything.
 */
template <bool LAST> __device__ static inline bool zero_copy_meet(const codelet_args &a, const bulk_call *b, uint32_t phase)
{
	bool good = true;
	__syncthreads();
	if (threadIdx.x < 32) {
		auto others = [&](int rank) { return rank != a.rank; };
		uint64_t seen = 0;
		bulk_signal_data(a, b, 0, phase, others);
		const uint64_t abort = LAST ? abort_word(a) : 0; /* behind the signal's fence */
		good = bulk_wait_data(a, b, 0, phase, &seen, others) && still_lives(a, abort, b->exchange[0].epoch);
	}
	return __syncthreads_and(good);
}

/* All threads of a block. */
__device__ static inline void zero_copy_load(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	bulk_copy_far(threadIdx.x, blockDim.x, to, from, bytes);
}

/* The parts of a vector, each of which its owner has in its receive buffer. */
__device__ static void zero_copy_fetch_parts(const codelet_args &a, const bulk_call *b)
{
	for (int k = 1; k < a.ranks; k++) {
		const int from = peer_after(a, k);
		const range part = b->peers[from].part;
		zero_copy_load(a.recv + part.at, b->recv[from] + part.at, part.bytes);
	}
}

#endif
