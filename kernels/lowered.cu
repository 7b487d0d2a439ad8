/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lowered plans: one kernel for every plan (lib/plan/lower.h). A block runs one program of one channel: operation after
 * operation, each by all of its threads. The list and where its spans begin are brought into shared memory first, an operation a
 * thread, so an operation itself costs no division.
 *
 * Messages go through slots as in fifo.cuh, a queue for each ring, channel and ordered pair of ranks: message c of a call lies in slot c mod
 * the ring's depth. Small calls have a kernel of their own (lowered_packets.cu).
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "lowered.cuh"
#include "remote.cuh"
#include "shared.cuh"
#include "fifo.cuh"
#include "vector_other.cuh"

static_assert((int)LOWERED_THREADS / 2 >= (int)CODELET_MAX_RANKS, "a thread for each peer in both halves of a block");

struct prepared {
	lowered_op op;
	lowered_slice src, dst;
};

enum { BATCH = 4 }; /* sources whose vectors a thread loads at a time */
enum : uint32_t { FEW_SOURCES = 8 /* of an operation, whose messages of few bytes are taken out before it */ };

struct slots_state {
	prepared ops[CODELET_LOWERED_OPS];
	lowered_peer peers[CODELET_LOWERED_PEERS];
	int turn; /* of the REPEAT under way */
	size_t together; /* elements of the MOVE under way that are moved at once, as they lie together */
	int read, written, listed; /* of several blocks: the first of these in each span, and how many are before their end */
	uint32_t sent[PLAN_MAX_QUEUES][CODELET_MAX_RANKS], received[PLAN_MAX_QUEUES][CODELET_MAX_RANKS]; /* messages of this call */
	remote_counts before; /* messages of earlier calls, to and from other nodes */
	/* messages of few bytes that have come from other nodes, by their place in an operation's list, and the one that goes there */
	alignas(16) uint64_t came[FEW_SOURCES][REMOTE_FEW_BYTES / 8 + 1], goes[REMOTE_FEW_BYTES / 8 + 1];
	/* of an operation, in the order of its fold */
	const unsigned char *sources[CODELET_MAX_RANKS + 1];
	unsigned char *targets[CODELET_MAX_RANKS + 1];
	int nsources, ntargets, own; /* own: the source that is this rank's contribution, to be premultiplied; -1: none */
	int local; /* the source that is this rank's own span; -1: none */
	uint32_t aligned; /* all addresses are multiples of 16 */
};

struct slots_run {
	const codelet_lowered *a;
	const lowered_call *call;
	slots_state *s;
	uint64_t epoch;
	uint32_t channel;
};

__device__ static inline connection connection_of(const slots_run &r, uint32_t ring)
{
	return { r.epoch, r.channel, r.a->channels, (uint32_t)CODELET_LOWERED + ring };
}

__device__ static inline unsigned char *slot_at(const slots_run &r, uint32_t ring, int sender, int receiver, uint32_t message)
{
	const uint32_t depth = r.a->depth[ring];
	return slots_of(r.a->args, sender, receiver) +
	       (uint64_t)(r.a->ring_at[ring] + r.channel * depth + message % depth) * r.a->args.slot_bytes;
}

/* ---- Peers of other nodes --------------------------------------------------------------------------------- */

__device__ static inline bool is_remote(const slots_run &r, int peer)
{
	return peer >= r.a->args.ranks;
}

/* Its number among all ranks of other nodes. */
__device__ static inline int far_of(const slots_run &r, int peer)
{
	return r.s->before.peer[peer - r.a->args.ranks];
}

__device__ static inline remote_port out_to(const slots_run &r, uint32_t ring, int peer)
{
	return { &r.a->remote, r.s->before.out[ring][peer], far_of(r, peer), remote_index(r.a->first_channel + r.channel, ring) };
}

__device__ static inline remote_port in_from(const slots_run &r, uint32_t ring, int peer)
{
	return { &r.a->remote, r.s->before.in[ring][peer], far_of(r, peer), remote_index(r.a->first_channel + r.channel, ring) };
}

/* What the host calls it. */
__device__ static inline int host_number_of(const slots_run &r, int peer)
{
	return r.a->args.ranks + far_of(r, peer);
}

/* Where a message's data lie, on whichever side of the link this rank is. */
__device__ static inline unsigned char *sent_at(const slots_run &r, uint32_t ring, int peer)
{
	const uint32_t message = r.s->sent[ring][peer];
	if (is_remote(r, peer))
		return out_to(r, ring, peer).data(r.s->before.sent[ring][peer] + message);
	return slot_at(r, ring, r.a->args.rank, peer, message);
}

__device__ static inline unsigned char *received_at(const slots_run &r, uint32_t ring, int peer)
{
	const uint32_t message = r.s->received[ring][peer];
	if (is_remote(r, peer))
		return in_from(r, ring, peer).data(r.s->before.received[ring][peer] + message);
	return slot_at(r, ring, peer, r.a->args.rank, message);
}

/* ---- Waits and signals: one thread a peer ------------------------------------------------------------------ */

/* The rank that this thread waits for, or -1: of ALL the others, and oneself for a token. */
__device__ static inline int awaited_by_me(const slots_run &r, const lowered_op &op)
{
	const int t = (int)threadIdx.x;
	if (t >= op.from_count)
		return -1;
	int peer = r.s->peers[op.from_first + t].rank;
	return (op.flags & LOWERED_ALL) && peer == r.a->args.rank ? -1 : peer;
}

__device__ static inline int signalled_by_me(const slots_run &r, const lowered_op &op)
{
	const int t = (int)threadIdx.x - (int)blockDim.x / 2;
	return t >= 0 && t < op.to_count ? r.s->peers[op.to_first + t].rank : -1;
}

__device__ static bool message_came(const slots_run &r, uint32_t ring, int peer, uint32_t message)
{
	connection conn = connection_of(r, ring);
	const codelet_args &a = r.a->args;
	if (is_remote(r, peer))
		return in_from(r, ring, peer).arrived(a, &conn, host_number_of(r, peer), r.s->before.received[ring][peer] + message);
	return wait_flag(a, &conn, flag_of(a, conn, peer, a.rank), flag_value(conn, message), peer);
}

__device__ static bool room_is_free(const slots_run &r, uint32_t ring, int peer, uint32_t message)
{
	connection conn = connection_of(r, ring);
	const codelet_args &a = r.a->args;
	const uint32_t depth = r.a->depth[ring];
	if (is_remote(r, peer))
		return out_to(r, ring, peer)
			.has_room(a, &conn, host_number_of(r, peer), r.s->before.sent[ring][peer] + message, &r.s->before.free[ring][peer]);
	return message < depth || wait_flag(a, &conn, ack_of(a, conn, a.rank, peer), flag_value(conn, message - depth), peer);
}

/* An operation's messages from and to other nodes: their bytes, and whether warps take out and send them as a few. */
struct few {
	uint32_t bytes;
	bool in, out;
};

__device__ static inline few few_of(const slots_run &r, const lowered_op &op, uint64_t bytes)
{
	const bool are_few = r.a->remote.counts && bytes <= REMOTE_FEW_BYTES;
	return { (uint32_t)bytes, are_few && op.from_count <= (int)FEW_SOURCES, are_few };
}

/* What one thread does for an operation beside its data: it looks after one peer, or none. */
struct duty {
	int from, to; /* rank, or -1 */
	uint32_t message; /* its number in this call */
};

__device__ static inline duty duty_of(const slots_run &r, const lowered_op &op)
{
	duty d = { awaited_by_me(r, op), signalled_by_me(r, op), 0 };
	if (d.from >= 0)
		d.message = r.s->received[op.from_queue][d.from];
	else if (d.to >= 0)
		d.message = r.s->sent[op.to_queue][d.to];
	return d;
}

__device__ static inline bool await_peer(const slots_run &r, const lowered_op &op, const duty &d, const few &f)
{
	if (d.from >= 0)
		return (f.in && is_remote(r, d.from)) || message_came(r, op.from_queue, d.from, d.message);
	return d.to < 0 || room_is_free(r, op.to_queue, d.to, d.message);
}

/* Between the two barriers of an operation, when nobody reads the numbers. */
__device__ static inline void count_message(const slots_run &r, const lowered_op &op, const duty &d)
{
	if (d.from >= 0)
		r.s->received[op.from_queue][d.from] = d.message + 1;
	else if (d.to >= 0)
		r.s->sent[op.to_queue][d.to] = d.message + 1;
}

/* All that was received is taken here, so that taken, whoever raises it, never goes back. */
__device__ static void signal_remote(const slots_run &r, const lowered_op &op, const duty &d, const few &f)
{
	if (d.from >= 0 && f.in)
		in_from(r, op.from_queue, d.from).take_few(r.s->before.received[op.from_queue][d.from] + d.message);
	else if (d.from >= 0)
		in_from(r, op.from_queue, d.from).take(r.s->before.received[op.from_queue][d.from] + d.message);
	else if (d.to >= 0 && !f.out)
		out_to(r, op.to_queue, d.to)
			.post({ r.s->before.sent[op.to_queue][d.to] + d.message + 1, r.a->args.signature, 0, f.bytes });
}

__device__ static void signal_peer(const slots_run &r, const lowered_op &op, const duty &d, const few &f)
{
	const codelet_args &a = r.a->args;
	if (is_remote(r, d.from) || is_remote(r, d.to)) {
		signal_remote(r, op, d, f);
	} else if (d.from >= 0) {
		const connection conn = connection_of(r, op.from_queue);
		sync_store_release(ack_of(a, conn, d.from, a.rank), flag_value(conn, d.message));
	} else if (d.to >= 0) {
		const connection conn = connection_of(r, op.to_queue);
		sync_store_release(flag_of(a, conn, a.rank, d.to), flag_value(conn, d.message));
	}
}

/* ---- A few bytes to and from other nodes: a warp a peer ------------------------------------------------------ */

__device__ static bool take_few(const slots_run &r, const lowered_op &op, const few &f)
{
	const int at = remote_data_of();
	bool good = true;
	for (int i = (int)threadIdx.x / 32; good && f.in && i < op.from_count; i += (int)blockDim.x / 32) {
		const int peer = r.s->peers[op.from_first + i].rank, ring = op.from_queue;
		connection conn = connection_of(r, ring);
		uint64_t data;
		if (!is_remote(r, peer))
			continue;
		good = remote_receive_few(r.a->args, &conn, in_from(r, ring, peer), host_number_of(r, peer),
					  r.s->before.received[ring][peer] + r.s->received[ring][peer], 0, f.bytes,
					  &data);
		if (good && at >= 0 && at < (int)f.bytes)
			r.s->came[i][at / 8] = data;
	}
	return good;
}

/* Those that warps did not take out, as they are too many, have arrived. With slots in a GPU's memory they lie in front alone: into their slots. */
__device__ static void bring_few(const slots_run &r, const lowered_op &op, uint32_t bytes)
{
	for (int i = (int)threadIdx.x / 32; i < op.from_count; i += (int)blockDim.x / 32) {
		const int peer = r.s->peers[op.from_first + i].rank, ring = op.from_queue;
		if (!is_remote(r, peer))
			continue;
		const uint64_t *words =
			remote_few_data(in_from(r, ring, peer), r.s->before.received[ring][peer] + r.s->received[ring][peer]);
		uint32_t *slot = (uint32_t *)received_at(r, ring, peer);
		for (uint32_t k = threadIdx.x % 32; k < (bytes + 3) / 4; k += 32)
			slot[k] = (uint32_t)sync_load_relaxed(words + k);
	}
	__syncthreads();
}

/* The same for all threads. */
__device__ static inline bool are_few_apart(const slots_run &r, const lowered_op &op, const few &f)
{
	return r.a->remote.counts && f.bytes && f.bytes <= REMOTE_FEW_BYTES && !f.in &&
	       remote_slots_are_apart(&r.a->remote.remote, remote_index(r.a->first_channel + r.channel, op.from_queue));
}

/* After their messages were counted. */
__device__ static void send_few(const slots_run &r, const lowered_op &op, const few &f)
{
	const int at = remote_data_of();
	const uint64_t data = at >= 0 && at < (int)f.bytes ? r.s->goes[at / 8] : 0;
	for (int i = (int)threadIdx.x / 32; f.out && i < op.to_count; i += (int)blockDim.x / 32) {
		const int peer = r.s->peers[op.to_first + i].rank, ring = op.to_queue;
		if (is_remote(r, peer))
			remote_send_few(out_to(r, ring, peer), r.s->before.sent[ring][peer] + r.s->sent[ring][peer] - 1,
					r.a->args.signature, 0, f.bytes, data);
	}
}

/* ---- Data -------------------------------------------------------------------------------------------------- */

__device__ static void add_source(slots_state *s, const unsigned char *from)
{
	s->sources[s->nsources++] = from;
	s->aligned &= ((uintptr_t)from & 15) == 0;
}

__device__ static void add_target(slots_state *s, unsigned char *to)
{
	s->targets[s->ntargets++] = to;
	s->aligned &= ((uintptr_t)to & 15) == 0;
}

template <int TYPE> __device__ static inline uint32_t element_bytes(const slots_run &r)
{
	if constexpr (TYPE == VECTOR_OTHER)
		return r.a->element;
	else
		return (uint32_t)vector_element_bytes<TYPE>;
}

template <int TYPE> __device__ static unsigned char *span_at(const slots_run &r, const lowered_span &span, size_t at)
{
	return lowered_address(*r.a, r.channel, span, at, element_bytes<TYPE>(r));
}

template <int TYPE> __device__ static void add_local(const slots_run &r, const lowered_op &op, size_t at)
{
	r.s->local = r.s->nsources;
	if (op.src.space == PLAN_SEND)
		r.s->own = r.s->nsources;
	add_source(r.s, span_at<TYPE>(r, op.src, at));
}

/* One thread: those of several blocks that lie together from number `done` on. */
__device__ static void find_blocks(const slots_run &r, const lowered_op &op, int done)
{
	slots_state *s = r.s;
	const int from = lowered_together(r.call, &op, &op.src, done, &s->read), to = lowered_together(r.call, &op, &op.dst, done, &s->written),
		  n = from < to ? from : to;
	s->listed = done + n;
	s->together = n * r.call->count;
}

/* One thread: where the data of a MOVE come from and go to, of its first blocks if it has several; a token carries none. */
template <int TYPE> __device__ static void list_data(const slots_run &r, const lowered_op &op, size_t src, size_t dst, size_t count, const few &f)
{
	slots_state *s = r.s;
	const int me = r.a->args.rank;
	bool placed = !op.src.space, goes = false;
	s->nsources = s->ntargets = 0;
	s->own = s->local = -1;
	s->together = count;
	s->aligned = !f.in && !f.out; /* what is aligned is loaded from global memory */
	for (int i = 0; i < op.from_count; i++) {
		int peer = r.s->peers[op.from_first + i].rank;
		if (f.in && is_remote(r, peer)) {
			add_source(s, (const unsigned char *)s->came[i]);
		} else if (peer != me) {
			add_source(s, received_at(r, op.from_queue, peer));
		} else if (!placed) {
			add_local<TYPE>(r, op, src);
			placed = true;
		}
	}
	if (!placed)
		add_local<TYPE>(r, op, src);
	if (op.dst.space)
		add_target(s, span_at<TYPE>(r, op.dst, dst));
	for (int i = 0; i < op.to_count; i++) {
		int peer = r.s->peers[op.to_first + i].rank;
		if (f.out && is_remote(r, peer))
			goes = true;
		else if (peer != me)
			add_target(s, sent_at(r, op.to_queue, peer));
	}
	if (goes)
		add_target(s, (unsigned char *)s->goes);
	if (op.flags & LOWERED_BLOCKS)
		find_blocks(r, op, 0);
}

__device__ static inline void store_all(const slots_state *s, uint64_t at, vector v, unsigned n)
{
	for (int k = 0; k < s->ntargets; k++)
		if (s->aligned && n == 16)
			*(vector *)(s->targets[k] + at) = v;
		else
			store_user<true>(s->targets[k] + at, v, n);
}

/* The bits as they are, to all targets. */
__device__ static void copy_data(const slots_state *s, uint64_t bytes)
{
	const unsigned char *from = s->sources[0];
	const uint32_t t = threadIdx.x, threads = blockDim.x;
	uint64_t at = 0;
	if (s->aligned) {
		const uint32_t vectors = (uint32_t)(bytes / 16);
		for (uint32_t first = t; first < vectors; first += IN_FLIGHT * threads) {
			vector v[IN_FLIGHT];
#pragma unroll
			for (uint32_t u = 0; u < IN_FLIGHT; u++)
				if (first + u * threads < vectors)
					v[u] = __ldcg((const vector *)from + first + u * threads);
			for (int k = 0; k < s->ntargets; k++)
#pragma unroll
				for (uint32_t u = 0; u < IN_FLIGHT; u++)
					if (first + u * threads < vectors)
						((vector *)s->targets[k])[first + u * threads] = v[u];
		}
		at = (uint64_t)vectors * 16;
	}
	for (at += t * 16; at < bytes; at += threads * 16) {
		const unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		store_all(s, at, load_user<true>(from + at, n), n);
	}
}

/* One vector of source k, as it is. */
template <int TYPE> __device__ static inline vector load_stored(const slots_run &r, int k, uint64_t at, unsigned n)
{
	const unsigned char *from = r.s->sources[k] + at;
	vector v = r.s->aligned && n == 16 ? __ldcg((const vector *)from) : load_user<true>(from, n);
	if constexpr (TYPE == VECTOR_OTHER)
		return v;
	else
		return k == r.s->own && r.a->args.op == CORALE_NUM_OPS ? premultiply<TYPE>(r.a->args, v) : v;
}

/* A fold in the order of the sources. */
template <int TYPE> __device__ static void fold_data(const slots_run &r, const lowered_op &o, uint64_t bytes)
{
	const int op = r.a->args.op, n = r.s->nsources, last = lowered_last_op<vector_shares_kernels<TYPE>>(op, o);
	for (uint64_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
		const unsigned fill = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		vector_sum<TYPE> sum;
		fold_ranks<BATCH>(&sum, n, op, [&](int k) { return load_stored<TYPE>(r, k, at, fill); });
		store_all(r.s, at, sum.finish(last, r.a->world), fill);
	}
}

/* Whether a MOVE does more than to copy bits. */
template <int TYPE> __device__ static inline bool computes(const slots_run &r, const lowered_op &op)
{
	return lowered_folds<vector_shares_kernels<TYPE>>(*r.a, op, r.s->nsources, r.s->own == 0);
}

template <int TYPE> __device__ static void move_data(const slots_run &r, const lowered_op &op, uint64_t count)
{
	const slots_state *s = r.s;
	const uint32_t element = element_bytes<TYPE>(r);
	if (computes<TYPE>(r, op))
		fold_data<TYPE>(r, op, count * element);
	else if (s->nsources && (s->ntargets > 1 || s->sources[0] != s->targets[0])) /* not all in place */
		copy_data(s, count * element);
}

/* ---- Several blocks ------------------------------------------------------------------------------------------ */

/* One thread: data of the blocks that are moved next. A message goes on where it is, a span at another block perhaps. */
template <int TYPE> __device__ static void list_next(const slots_run &r, const lowered_op &op)
{
	slots_state *s = r.s;
	const int read = s->read, written = s->written;
	const ptrdiff_t block = (ptrdiff_t)r.call->count, moved = (ptrdiff_t)s->together,
			bytes = element_bytes<TYPE>(r);
	find_blocks(r, op, s->listed);
	for (int k = 0; k < s->nsources; k++) {
		s->sources[k] += k == s->local ? (s->read - read) * block * bytes :
						 moved * bytes;
		s->aligned &= ((uintptr_t)s->sources[k] & 15) == 0;
	}
	for (int k = 0; k < s->ntargets; k++) {
		s->targets[k] += k == 0 && op.dst.space ? (s->written - written) * block * bytes :
							  moved * bytes;
		s->aligned &= ((uintptr_t)s->targets[k] & 15) == 0;
	}
}

/* All threads; false if there are none. */
template <int TYPE> __device__ static bool next_blocks(const slots_run &r, const lowered_op &op)
{
	if (!(op.flags & LOWERED_BLOCKS) || r.s->listed == op.blocks)
		return false;
	__syncthreads();
	if (threadIdx.x == 0)
		list_next<TYPE>(r, op);
	__syncthreads();
	return true;
}

/* How far behind the listed ones block i of an operation is, in blocks: in a span, or without one in a message. */
__device__ static inline ptrdiff_t blocks_behind(const slots_run &r, const lowered_op &op, const lowered_span *span, int listed, int i)
{
	int block;
	if (!span)
		return i;
	lowered_together(r.call, &op, span, i, &block);
	return block - listed;
}

/* Copies of blocks of which few lie together: all at once, 16 bytes of one a thread. */
__device__ static void scatter_blocks(const slots_run &r, const lowered_op &op, uint32_t bytes)
{
	const slots_state *s = r.s;
	const lowered_span *from = s->local == 0 ? &op.src : nullptr, *to = op.dst.space ? &op.dst : nullptr;
	const uint32_t vectors = (bytes + 15) / 16;
	for (uint32_t v = threadIdx.x; v < vectors * (uint32_t)op.blocks; v += blockDim.x) {
		const int i = (int)(v / vectors);
		const uint32_t in = v % vectors * 16, n = bytes - in < 16 ? bytes - in : 16;
		const vector data = load_user<true>(s->sources[0] + blocks_behind(r, op, from, s->read, i) * bytes + in, n);
		for (int k = 0; k < s->ntargets; k++)
			store_user<true>(s->targets[k] + blocks_behind(r, op, k ? nullptr : to, s->written, i) * bytes + in, data, n);
	}
}

/* Bytes of a block where blocks are copied so; else 0. */
template <int TYPE> __device__ static inline uint32_t scattered_bytes(const slots_run &r, const lowered_op &op)
{
	const slots_state *s = r.s;
	if (!(op.flags & LOWERED_BLOCKS) || s->listed == op.blocks || computes<TYPE>(r, op))
		return 0;
	const uint64_t bytes = r.call->count * element_bytes<TYPE>(r);
	return (uint64_t)s->listed * bytes < blockDim.x * 16 ? (uint32_t)bytes : 0;
}

template <int TYPE> __device__ static void move_blocks(const slots_run &r, const lowered_op &op)
{
	const uint32_t scattered = scattered_bytes<TYPE>(r, op);
	if (scattered)
		return scatter_blocks(r, op, scattered);
	do
		move_data<TYPE>(r, op, r.s->together);
	while (next_blocks<TYPE>(r, op));
}

/* ---- Operations --------------------------------------------------------------------------------------------- */

/* All threads; false if the call has failed. */
template <int TYPE> __device__ static bool execute(const slots_run &r, const prepared &p, int trip)
{
	const lowered_op &op = p.op;
	size_t src, dst;
	const ptrdiff_t in = lowered_piece(r.call, &op.src, &p.src, trip, &src),
			out = lowered_piece(r.call, &op.dst, &p.dst, trip, &dst);
	if (in < 0 || out < 0) /* the same for all threads */
		return true;
	const size_t count = (size_t)(op.src.space ? in : out), all = count * lowered_blocks(&op);
	const bool moves = op.op == PLAN_MOVE && count;
	const few f = few_of(r, op, moves ? all * element_bytes<TYPE>(r) : 0);
	const duty d = duty_of(r, op);
	const bool good = await_peer(r, op, d, f);
	if (moves && threadIdx.x == blockDim.x / 2 - 1)
		list_data<TYPE>(r, op, src, dst, count, f);
	__syncwarp();
	if (!__syncthreads_and(take_few(r, op, f) && good))
		return false;
	if (are_few_apart(r, op, f))
		bring_few(r, op, f.bytes);
	count_message(r, op, d);
	if (moves)
		move_blocks<TYPE>(r, op);
	__syncthreads();
	signal_peer(r, op, d, f);
	send_few(r, op, f);
	return true;
}

/* All threads, behind AGAIN: its operations go on to the next turn, or back to the first one. The operation that comes next. */
__device__ static int turn_all(const slots_run &r, int pc)
{
	slots_state *s = r.s;
	const int end = pc - 1, begin = end - s->ops[end].op.body;
	__syncthreads();
	const int turn = s->turn + 1, times = s->ops[begin - 1].op.times;
	for (int i = begin + (int)threadIdx.x; i < end; i += (int)blockDim.x) {
		prepared *p = &s->ops[i];
		const int src = p->op.src.block, dst = p->op.dst.block;
		if (p->op.op == PLAN_LOOP)
			continue;
		lowered_step(r.call, &p->op, turn < times ? 1 : 1 - times);
		p->src.at += (size_t)(p->op.src.block - src) * r.call->count;
		p->dst.at += (size_t)(p->op.dst.block - dst) * r.call->count;
	}
	__syncthreads();
	if (threadIdx.x == 0)
		s->turn = turn < times ? turn : 0;
	return turn < times ? begin : pc;
}

/* Loops over chunks do not nest. A loop starts `ahead` trips early, at most its own trip count, for the operations that run ahead. */
template <int TYPE> __device__ static bool execute_all(const slots_run &r, int nops)
{
	int trip = 0, trips = 0, body = 0, ahead = 0;
	for (int pc = 0; pc < nops;) {
		const prepared &p = r.s->ops[pc++];
		if (p.op.op == PLAN_LOOP) {
			trips = lowered_count_trips(r.call, &p.op);
			ahead = trips < (int)p.op.ahead ? trips : (int)p.op.ahead;
			trip = trips > 0 ? -ahead : 0;
			body = pc;
			while (trips <= 0 && r.s->ops[pc].op.op != PLAN_END)
				pc++;
		} else if (p.op.op == PLAN_END) {
			if (++trip < trips)
				pc = body;
			else
				trip = body = 0;
		} else if (p.op.op == LOWERED_AGAIN) {
			pc = turn_all(r, pc);
		} else if (p.op.op != LOWERED_REPEAT) {
			const int at = p.op.ahead ? trip + ahead : trip;
			if (at >= 0 && (!body || at < trips) && !execute<TYPE>(r, p, at))
				return false;
		}
	}
	return true;
}

/* The list of this block's program into shared memory; how many operations it has. */
__device__ static int prepare(const codelet_lowered &a, const lowered_call &call, slots_state *s, uint32_t program, uint32_t channel)
{
	const int first = a.first[program], n = a.first[program + 1] - first;
	for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
		s->ops[i].op = a.ops[first + i];
		lowered_cut(&call, &s->ops[i].op.src, (int)channel, &s->ops[i].src);
		lowered_cut(&call, &s->ops[i].op.dst, (int)channel, &s->ops[i].dst);
	}
	for (int i = (int)threadIdx.x; i < a.npeers; i += (int)blockDim.x)
		s->peers[i] = a.peers[i];
	if (threadIdx.x == 0)
		s->turn = 0;
	for (int i = (int)threadIdx.x; i < (int)(PLAN_MAX_QUEUES * CODELET_MAX_RANKS); i += (int)blockDim.x)
		(&s->sent[0][0])[i] = (&s->received[0][0])[i] = 0;
	return n;
}

/* announce and agree, of an epoch: what ranks say beside their headers; whether that of all has arrived and is as it must be. */
template <int TYPE, class Announce, class Agree>
__device__ static void run_list(const codelet_lowered &a, const lowered_call &call, Announce announce, Agree agree)
{
	slots_state *s = shared_object<slots_state>();
	const uint32_t program = blockIdx.x / a.channels, channel = blockIdx.x % a.channels;
	const int nops = prepare(a, call, s, program, channel);
	sync_previous_kernel();
	if (gridDim.x == 1 && blockDim.x <= LOWERED_FEW_THREADS) /* more would keep out what this one waits for */
		sync_next_kernel();
	const uint64_t epoch = call_epoch(a.args);
	connection first = { epoch, blockIdx.x, gridDim.x, CODELET_FIRST };
	send_headers(a.args, epoch);
	announce(epoch);
	bool good = !a.remote.counts || remote_begin(a, channel, &s->before);
	/* No slot is filled before its owner has made the call, because it may still use it for another one. */
	good = good && ((a.args.ranks == 1 && a.remote.counts) || wait_headers(a.args, whole_block(), &first)) && agree(epoch);
	good = good && execute_all<TYPE>({ &a, &call, s, epoch, channel }, nops);
	if (!__syncthreads_and(good))
		return;
	if (a.remote.counts)
		remote_end(a, channel, &s->before, s->sent, s->received);
	call_end(a.args, epoch + a.epochs - 1);
}

template <int TYPE>
__global__ __launch_bounds__(LOWERED_THREADS, 1) void lowered_slots(const __grid_constant__ codelet_lowered a)
{
	run_list<TYPE>(a, a.call, [](uint64_t) {}, [](uint64_t) { return true; });
}

/* ---- Counts of edges ---------------------------------------------------------------------------------------- */

__device__ static inline uint32_t *count_of_edge(const codelet_args &a, int sender, int receiver, uint64_t epoch)
{
	return &header_of(a, sender, receiver, epoch & 1)->edge_low;
}

__device__ static inline uint64_t typed_bytes_of_edge(const codelet_lowered_all_to_all_v &e, uint64_t bytes)
{
	return (uint64_t)codelet_typed_bytes_high(e.type, bytes) << 32 | (uint32_t)bytes;
}

/* The first block: what each other rank gets from this one. */
__device__ static void announce_counts(const codelet_lowered_all_to_all_v &e, uint64_t epoch)
{
	const codelet_args &a = e.plan.args;
	for (int r = (int)threadIdx.x; !blockIdx.x && r < a.ranks; r += (int)blockDim.x) {
		const uint64_t typed_bytes = typed_bytes_of_edge(e, e.send_counts[r]);
		const vector packet =
			make_uint4((uint32_t)typed_bytes, (uint32_t)epoch, (uint32_t)(typed_bytes >> 32), (uint32_t)(epoch ^ epoch >> 32));
		if (r != a.rank)
			sync_store_packet(count_of_edge(a, a.rank, r, epoch), packet);
	}
}

/* One thread: whether a rank sends as much as is awaited. */
__device__ static bool count_agrees(const codelet_lowered_all_to_all_v &e, int from, uint64_t epoch)
{
	const codelet_args &a = e.plan.args;
	const uint64_t expected = typed_bytes_of_edge(e, e.recv_counts[from]);
	connection conn = { epoch, 0, 1, CODELET_FIRST };
	vector packet;
	auto ready = [&] {
		packet = sync_load_packet(count_of_edge(a, from, a.rank, epoch));
		return header_is_of(packet, epoch);
	};
	if (!wait_ready(a, &conn, from, ready))
		return false;
	if (word_of(packet) != expected)
		call_fail<true>(a, CORALE_EMISMATCH, from, epoch, expected, word_of(packet));
	return word_of(packet) == expected;
}

/* All threads of each block, so that none stores what a peer does not await. */
__device__ static bool counts_agree(const codelet_lowered_all_to_all_v &e, uint64_t epoch)
{
	bool good = true;
	for (int r = (int)threadIdx.x; good && r < e.plan.args.ranks; r += (int)blockDim.x)
		good = r == e.plan.args.rank || count_agrees(e, r, epoch);
	return __syncthreads_and(good);
}

/* An all_to_all_v of any type: bytes are moved. */
__global__ __launch_bounds__(LOWERED_THREADS, 1) void lowered_all_to_all_v(const __grid_constant__ codelet_lowered_all_to_all_v e)
{
	lowered_call call = e.plan.call;
	call.send_counts = e.send_counts;
	call.send_displs = e.send_displs;
	call.recv_counts = e.recv_counts;
	call.recv_displs = e.recv_displs;
	run_list<CORALE_UINT8>(
		e.plan, call, [&](uint64_t epoch) { announce_counts(e, epoch); }, [&](uint64_t epoch) { return counts_agree(e, epoch); });
}

/* ---- Launches ----------------------------------------------------------------------------------------------- */

typedef void (*kernel)(codelet_lowered);

static constexpr auto rows = vector_table_of<kernel>([](auto type) -> kernel { return lowered_slots<type.value>; });

static const kernel other = lowered_slots<VECTOR_OTHER>; /* what no codelet folds */

int codelets_lowered(const codelet_lowered *args, int blocks, int type, void *stream)
{
	if (args->form != LOWERED_FIFO)
		return codelets_lowered_packets(args, blocks, type, stream);
	const kernel k = args->element ? other : rows[type];
	return launch((const void *)k, { blocks, (int)args->threads }, args, stream);
}

int codelets_lowered_all_to_all_v(const codelet_lowered_all_to_all_v *args, int blocks, void *stream)
{
	return launch((const void *)lowered_all_to_all_v, { blocks, LOWERED_THREADS }, args, stream);
}

int codelets_load_lowered(void)
{
	int error = lowered_load_packets();
	error = error ? error : load((const void *)lowered_all_to_all_v);
	error = error ? error : load((const void *)other);
	return error ? error : load_all(rows);
}
