/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of many bytes between teams of warps, for calls that shall fill links with few blocks. Each warp of a block belongs to one team, which has one part of
 * the work: it sends, folds or takes in message after message. All workers of a team move a part of each message, so that what a block has in flight grows with its
 * warps. A fence for all GPUs takes 2 to 4 us: a team that sends has one warp more, which fences and signals one message while the workers move the next.
 *
 * Slots, flags and acknowledgements are those of fifo.cuh. A call has one exchange of messages, or two: what the first one brings is folded or passed on, and goes
 * out by the second one.
 */
#ifndef BULK_CUH
#define BULK_CUH

#include "fifo.cuh"
#include "shared.cuh"

enum {
	BULK_EXCHANGES = 2,
	BULK_WORKERS = 8, /* from the barrier of a team on to that of its workers */
	BULK_IN_FLIGHT = 8, /* vectors that a thread loads before it stores the first */
	BULK_FAR_IN_FLIGHT = 12 /* the same over a link, where few registers are held */
};

/* 20 warps a block, which has a multiprocessor to itself; 16 warps, two blocks a multiprocessor: these signal one peer's message before they move the next one's. */
enum bulk_shape { BULK_FEW, BULK_MANY };
template <bulk_shape SHAPE> static constexpr uint32_t bulk_in_flight = SHAPE == BULK_FEW ? (int)BULK_IN_FLIGHT : (int)IN_FLIGHT;

struct bulk_peer {
	range part; /* of the vector or block that the rank receives in the first exchange: this block's piece of it */
	unsigned char *slots[BULK_EXCHANGES]; /* there: this block's first one */
};

/* Which piece of a call: blocks of one channel of all ranks exchange messages. */
struct bulk_channel {
	uint64_t epoch;
	uint32_t number, channels; /* of how many */
};

/* A call as a block of threads has it: in shared memory, made once. */
struct bulk_call {
	connection exchange[BULK_EXCHANGES];
	uint32_t messages, message_bytes; /* to each peer */
	uint32_t one_polls; /* as codelet_args has it */
	bulk_peer peers[CODELET_MAX_RANKS]; /* by rank */
	/* zero_copy.cuh: what ranks have said, and where their buffers lie */
	uint64_t refs[EXPORTS_MOST_RANKS][CODELET_REFS];
	const unsigned char *send[EXPORTS_MOST_RANKS], *recv[EXPORTS_MOST_RANKS];
	int form; /* zero_copy_form */
	uint32_t summed; /* bulk_reduce.cu: bytes of this rank's part */
};

__device__ static inline uint32_t bulk_lane(void)
{
	return threadIdx.x % 32;
}

/* One warp of a block makes it. largest: bytes that any rank receives in the first exchange, part(rank): where. */
template <class Part>
__device__ static inline void bulk_begin(const codelet_args &a, bulk_call *b, const bulk_channel &c, uint64_t largest, uint32_t message_bytes, Part part)
{
	const connection first = { c.epoch, c.number, c.channels, CODELET_FIRST }, second = { c.epoch, c.number, c.channels, CODELET_SECOND };
	for (int rank = (int)bulk_lane(); rank < a.ranks; rank += 32) {
		const range r = part(rank), piece = cut(r.bytes, CODELET_LINE, c.channels, c.number);
		const bool other = rank != a.rank;
		b->peers[rank] = { { r.at + piece.at, piece.bytes },
				   { other ? slot_of(a, first, a.rank, rank, 0) : nullptr, other ? slot_of(a, second, a.rank, rank, 0) : nullptr } };
	}
	if (bulk_lane() == 0) {
		b->exchange[0] = first;
		b->exchange[1] = second;
		b->messages = (uint32_t)messages_of(largest, c.channels, message_bytes);
		b->message_bytes = message_bytes;
		b->one_polls = a.one_polls;
	}
}

/* Each rank's block or vector is as long as the others'. */
__device__ static inline void bulk_begin_blocks(const codelet_args &a, bulk_call *b, const bulk_channel &c)
{
	bulk_begin(a, b, c, a.bytes, a.slot_bytes, [&](int) { return range{ 0, a.bytes }; });
}

/* All threads of a block: a call, whatever its buffers. begin(b, channel): a warp makes b; run(b) does its work; false of any thread: the call has failed. */
template <class Begin, class Run> __device__ static inline void bulk_run(const codelet_args &a, Begin begin, Run run)
{
	const uint64_t epoch = call_epoch(a);
	bulk_call *b = shared_object<bulk_call>();
	send_headers(a, epoch);
	if (threadIdx.x < 32)
		begin(b, bulk_channel{ epoch, blockIdx.x, gridDim.x });
	__syncthreads();
	if (__syncthreads_and(run(b)))
		call_end(a, epoch);
}

/* ---- Slots ------------------------------------------------------------------------------------------------ */

/* Of a rank's part or block. */
__device__ static inline range bulk_message(const codelet_args &a, const range &part, uint32_t m)
{
	return message(part, a.slot_bytes, m);
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
	return slot_of(a, b->exchange[exchange], from, a.rank, m);
}

/* Over windows in host memory what goes to all others is stored once: in the owner's own window, from which they load it. */
__device__ static inline unsigned char *bulk_slot_of_owner(const codelet_args &a, const bulk_call *b, int owner, uint32_t m)
{
	return slot_of(a, b->exchange[0], owner == 0, owner, m);
}

/* ---- Teams ------------------------------------------------------------------------------------------------ */

struct bulk_team {
	warp_group workers; /* this thread is one if its place is below their number */
	uint32_t threads; /* the workers', and those of the warp that signals if there is one */
};

/* Of this thread's block: so many warps from `first` on, whose last one signals, if `sends`. */
__device__ static inline bulk_team bulk_team_of(uint32_t first, uint32_t warps, bool sends, uint32_t barrier)
{
	return { { threadIdx.x - first * 32, (warps - sends) * 32, barrier }, warps * 32 };
}

/* Whether this thread's warp waits for messages. */
__device__ static inline bool bulk_waits(const bulk_call *b, const bulk_team &t)
{
	return !b->one_polls || t.workers.thread < 32;
}

/*
 * A team goes through the messages of a call. Each warp of the workers waits until ready(m), or the first one for all (one_polls), then all of them work(m); one warp
 * calls signal(m) when all have done that, the first one where none does but that. False if the call has failed: for the whole team. times: m counts so many steps of
 * each message.
 */
template <class Ready, class Work, class Signal>
__device__ static inline bool bulk_each(const bulk_call *b, const bulk_team &t, Ready ready, Work work, Signal signal,
				    uint32_t times = 1)
{
	const warp_group &w = t.workers;
	const bool works = w.thread < w.threads, signals = w.threads < t.threads ? !works : w.thread < 32;
	for (uint32_t m = 0; m < b->messages * times; m++) {
		bool good = true;
		if (works) {
			good = !bulk_waits(b, t) || ready(m);
			if (b->one_polls)
				good = sync_warps_and(w.barrier + BULK_WORKERS, w.threads, good);
			if (good)
				work(m);
		}
		if (!sync_warps_and(w.barrier, t.threads, good))
			return false;
		if (signals)
			signal(m);
	}
	return true;
}

/* As copy(), by all workers. */
template <bulk_shape SHAPE = BULK_FEW>
__device__ static inline void bulk_copy(const bulk_team &t, unsigned char *to, const unsigned char *from, uint64_t bytes, bool whole)
{
	copy<bulk_in_flight<SHAPE>>(t.workers, to, from, bytes, whole);
}

/*
 * Over a link. A warp takes what lies one behind the other, so one address serves all of a thread's loads, and none has a condition: else ptxas spills some, which waits for
 * them before the next ones begin. A function of its own, so that all registers are for what it loads.
 */
template <int N = BULK_FAR_IN_FLIGHT>
__device__ static __noinline__ void bulk_copy_far(uint32_t thread, uint32_t threads, unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	sync_assume_global(to);
	const uint64_t apart = threads * N * 16, whole = ((uintptr_t)to | (uintptr_t)from) & 15 ? 0 : bytes / apart * apart;
	for (uint64_t at = (thread / 32 * N * 32 + thread % 32) * 16; at < whole; at += apart) {
		const vector *source = (const vector *)(from + at);
		vector *target = (vector *)(to + at), v[N];
#pragma unroll
		for (int u = 0; u < N; u++)
			v[u] = __ldcg(source + u * 32);
#pragma unroll
		for (int u = 0; u < N; u++)
			target[u * 32] = v[u];
	}
	copy<IN_FLIGHT>({ thread, threads, 0 }, to + whole, from + whole, bytes - whole, false);
}

/* ---- Waits and signals: all lanes of a warp. edge(rank): which ranks they are about -------------------------- */

/* All ranks are known to make this call, and may be stored to. */
__device__ static inline bool bulk_wait_headers(const codelet_args &a, const bulk_call *b)
{
	return warp_wait_headers(a, b->exchange[0].epoch);
}

/* seen: how far the words of this lane's ranks were known to be, 0 at first. */
template <class Edge, class Word>
__device__ static inline bool bulk_wait(const codelet_args &a, const bulk_call *b, uint32_t m, uint64_t *seen, Edge edge, Word word)
{
	const uint64_t value = flag_value(b->exchange[0], m);
	auto lacking = [&] {
		int lacks = -1;
		*seen = ~(uint64_t)0;
		for (int rank = (int)bulk_lane(); rank < a.ranks; rank += 32) {
			const uint64_t is = edge(rank) ? sync_load_acquire(word(rank)) : *seen;
			*seen = is < *seen ? is : *seen;
			lacks = is < value ? rank : lacks;
		}
		return lacks;
	};
	if (one_warp::all(*seen >= value))
		return true;
	const bool good = wait_until<one_warp>(a, b->exchange[0].epoch, true, [&] { return lacking() < 0; }, lacking);
	__syncwarp();
	return good;
}

/* Message m is here. */
template <class Edge>
__device__ static inline bool bulk_wait_data(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, uint64_t *seen, Edge edge)
{
	return bulk_wait(a, b, m, seen, edge, [&](int from) { return flag_of(a, b->exchange[exchange], from, a.rank); });
}

/* The slot for message m is empty there, or none is used: direct. */
template <class Edge>
__device__ static inline bool bulk_wait_room(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, uint64_t *seen, bool direct,
					     Edge edge)
{
	return direct || m < a.depth || bulk_wait(a, b, m - a.depth, seen, edge, [&](int to) { return ack_of(a, b->exchange[exchange], a.rank, to); });
}

/* What the workers have stored has arrived before the signal does. */
template <class Edge> __device__ static inline void bulk_signal_data(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, Edge edge)
{
	const connection &conn = b->exchange[exchange];
	sync_fence();
	for (int to = (int)bulk_lane(); to < a.ranks; to += 32)
		if (edge(to))
			sync_store_relaxed(flag_of(a, conn, a.rank, to), flag_value(conn, m));
}

/* The workers have loaded what lay in the slot. */
template <class Edge> __device__ static inline void bulk_signal_taken(const codelet_args &a, const bulk_call *b, uint32_t exchange, uint32_t m, Edge edge)
{
	const connection &conn = b->exchange[exchange];
	for (int from = (int)bulk_lane(); from < a.ranks; from += 32)
		if (edge(from))
			sync_store_after_loads(ack_of(a, conn, from, a.rank), flag_value(conn, m));
}

#endif
