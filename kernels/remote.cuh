/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel's end of the connections to ranks of other nodes (remote.h). What struct remote_port does is one thread's. */
#ifndef REMOTE_CUH
#define REMOTE_CUH

#include "fifo.cuh"

/* Of a block: its channel's connections, by ring and peer (as the list numbers them: those of other nodes come last). */
struct remote_counts {
	uint64_t sent[PLAN_MAX_QUEUES][CODELET_MAX_RANKS], received[PLAN_MAX_QUEUES][CODELET_MAX_RANKS];
	uint64_t free[PLAN_MAX_QUEUES][CODELET_MAX_RANKS]; /* the proxy's word, as it was last seen */
	int16_t peer[CODELET_MAX_RANKS]; /* of the list's ranks of other nodes, their number among all */
	remote_offset out[PLAN_MAX_QUEUES][CODELET_MAX_RANKS], in[PLAN_MAX_QUEUES][CODELET_MAX_RANKS];
};

static_assert(REMOTE_DATA % 2 == 0 && REMOTE_WORDS / 2 <= 32, "a pair of words a thread of a warp, the data in pairs of their own");

/* One end of a connection. message: of all that it has ever had. peer: among all of other nodes. */
struct remote_port {
	const remote_calls *c;
	remote_offset at;
	int peer;
	uint32_t index;

	__device__ const remote_slots *slots(void) const
	{
		return remote_slots_of(&c->remote, index);
	}

	__device__ unsigned char *data(uint64_t message) const
	{
		return remote_data_at(&c->remote, index, at, message);
	}

	__device__ remote_header *header(uint64_t message) const
	{
		return remote_header_at(&c->remote, at, slots(), message);
	}

	__device__ remote_words *words(void) const
	{
		return remote_words_at(&c->remote, at);
	}

	/* The message is here, and of the same call. False if the call has failed. */
	__device__ bool arrived(const codelet_args &a, connection *conn, int seat, uint64_t message) const
	{
		const uint32_t flag = remote_flag(message + 1);
		uint64_t number, got;
		auto ready = [&] {
			sync_acquire_pair(&header(message)->number, &number, &got);
			return number == message + 1 || (number >> 32 == flag && got >> 32 == flag);
		};
		if (!wait_ready(a, conn, seat, ready))
			return false;
		if (number != message + 1)
			got = got << 32 | (uint32_t)number;
		if (got != a.signature)
			call_fail(a, CORALE_EMISMATCH, seat, conn->epoch, a.signature, got);
		return got == a.signature;
	}

	/* Of a message that has arrived: both ends agree on type and bytes. */
	__device__ bool agrees(const codelet_args &a, const connection &conn, int seat, uint64_t message, uint64_t typed_bytes) const
	{
		uint64_t got, high;
		sync_acquire_pair(&header(message)->typed_bytes, &got, &high);
		if (high >> 32 == remote_flag(message + 1))
			got = high << 32 | (uint32_t)got;
		if (got != typed_bytes)
			call_fail<true>(a, CORALE_EMISMATCH, seat, conn.epoch, typed_bytes, got);
		return got == typed_bytes;
	}

	/* seen: what earlier calls have learnt of free, or this one. */
	__device__ bool has_room(const codelet_args &a, connection *conn, int seat, uint64_t message, uint64_t *seen) const
	{
		uint64_t now;
		auto ready = [&] {
			now = sync_load_acquire(&words()->free);
			return message < now + slots()->depth;
		};
		if (message < *seen + slots()->depth)
			return true;
		if (!wait_ready(a, conn, seat, ready))
			return false;
		*seen = now;
		sync_store_relaxed(&c->counts->peers[peer].free[index], now); /* for the calls to come */
		return true;
	}

	/* After all loads of the block, and its barrier. */
	__device__ void take(uint64_t message) const
	{
		sync_store_release(&words()->taken, message + 1);
	}

	/* Of few bytes, which no thread loads any more; after the message before it was taken. */
	__device__ void take_few(uint64_t message) const
	{
		sync_store_relaxed(&words()->taken, message + 1);
	}

	/* After all stores of the block, and its barrier. */
	__device__ void post(remote_header h) const
	{
		*header(h.number - 1) = h;
		sync_store_release(&words()->posted, h.number);
	}
};

/* ---- A message of few bytes: the threads of a warp --------------------------------------------------------- */

/* This thread's pair of words. */
__device__ static inline uint4 *remote_pair(const remote_port &port, uint64_t message)
{
	return (uint4 *)port.header(message) + threadIdx.x % 32;
}

/* Its words of data, 4 bytes in the low half of each. */
__device__ static inline const uint64_t *remote_few_data(const remote_port &port, uint64_t message)
{
	return (const uint64_t *)port.header(message) + REMOTE_DATA;
}

/* There is room. data: this thread's, where it has some (remote_data_of). */
__device__ static inline void remote_send_few(const remote_port &port, uint64_t message, uint64_t signature, uint64_t typed_bytes, uint32_t bytes,
					      uint64_t data)
{
	const uint32_t pair = threadIdx.x % 32, flag = remote_flag(message + 1);
	const uint64_t two = pair == REMOTE_SIGNATURE / 2 ? signature :
			     pair == REMOTE_TYPED_BYTES / 2	  ? typed_bytes :
			     pair == REMOTE_BYTES / 2	  ? bytes :
							    data;
	if (2 * pair < remote_words_in(bytes))
		sync_store_packet(remote_pair(port, message), make_uint4((uint32_t)two, flag, (uint32_t)(two >> 32), flag));
	if (pair == 0)
		sync_store_relaxed(&port.words()->posted, message + 1); /* perhaps before the words */
}

/* Where in a message this thread's 8 bytes lie; negative: it has none. */
__device__ static inline int remote_data_of(void)
{
	return ((int)(threadIdx.x % 32) - (int)REMOTE_DATA / 2) * 8;
}

/* Waits for a message of few bytes, or what comes in its stead. False if the call has failed. */
__device__ static inline bool remote_await_few(const codelet_args &a, connection *conn, const remote_port &port, int seat, uint64_t message,
					       uint32_t bytes, uint4 *v)
{
	const uint32_t pair = threadIdx.x % 32, words = remote_words_in(bytes), flag = remote_flag(message + 1);
	const uint4 *at = remote_pair(port, message);
	*v = make_uint4(0, 0, 0, 0);
	auto ready = [&] {
		if (2 * pair < words)
			*v = sync_load_packet(at);
		const bool here = 2 * pair >= words || (v->y == flag && (v->w == flag || 2 * pair + 1 >= words)),
			   is_long = pair == 0 && ((uint64_t)v->y << 32 | v->x) == message + 1;
		return __any_sync(~0u, is_long) || here;
	};
	return wait_until<one_warp_one_peer>(a, conn->epoch, false, ready, [&] { return seat; });
}

/* Whether the message is of the same call and length; the first thread says so if not. */
__device__ static inline bool remote_few_agrees(const codelet_args &a, connection *conn, const remote_port &port, int seat, uint64_t message,
						uint64_t typed_bytes, uint4 v)
{
	const uint64_t two = (uint64_t)v.z << 32 | v.x, got = __shfl_sync(~0u, two, REMOTE_SIGNATURE / 2),
		       got_typed_bytes = __shfl_sync(~0u, two, REMOTE_TYPED_BYTES / 2);
	const bool few = __shfl_sync(~0u, v.y, 0) == remote_flag(message + 1);
	if (few && got == a.signature && got_typed_bytes == typed_bytes)
		return true;
	if (threadIdx.x % 32)
		return false;
	if (!few && port.arrived(a, conn, seat, message))
		port.agrees(a, *conn, seat, message, typed_bytes);
	else if (got != a.signature)
		call_fail(a, CORALE_EMISMATCH, seat, conn->epoch, a.signature, got);
	else
		call_fail<true>(a, CORALE_EMISMATCH, seat, conn->epoch, typed_bytes, got_typed_bytes);
	return false;
}

/* *data is this thread's, where it has some (remote_data_of). Not taken yet. */
__device__ static inline bool remote_receive_few(const codelet_args &a, connection *conn, const remote_port &port, int seat, uint64_t message,
						 uint64_t typed_bytes, uint32_t bytes, uint64_t *data)
{
	uint4 v;
	if (!remote_await_few(a, conn, port, seat, message, bytes, &v) || !remote_few_agrees(a, conn, port, seat, message, typed_bytes, v))
		return false;
	*data = (uint64_t)v.z << 32 | v.x;
	return true;
}

/* ---- A call ------------------------------------------------------------------------------------------------ */

__device__ static inline remote_offset remote_offset_of(const remote_calls &c, int peer, remote_direction direction, uint32_t index)
{
	return sync_load_host(&c.offsets[remote_end_index(peer, direction, index)]);
}

/* How many messages a connection has had, in GPU memory. */
__device__ static inline uint64_t *remote_count(const remote_calls &c, int peer, remote_direction direction, uint32_t index)
{
	return &c.counts->peers[peer].messages[direction][index];
}

/* What ends a call before it begins: not the host's word, which takes a microsecond. Loaded beside what else a call needs first. */
__device__ static inline uint64_t remote_abort_word(const codelet_args &a)
{
	return threadIdx.x == 0 ? abort_word(a) : 0;
}

/* All threads: signals the proxy. False, of all of them, if the communicator has failed: a replay ends at once, and a call that was never made says
 * so. first: of the launches of a call. */
__device__ static inline bool remote_begin_call(const codelet_args &a, const remote_calls &c, uint64_t abort, bool first = true)
{
	const bool ended = abort != 0;
	if (ended)
		call_fail(a, -(int)(uint32_t)abort, (int)(abort >> 32) - 1, call_epoch(a), 0, 0);
	if (first && blockIdx.x == 0 && threadIdx.x == 0)
		sync_store_relaxed(&remote_progress_of(&c.remote)->begun, ++c.counts->calls);
	return __syncthreads_and(!ended);
}

/* All threads of every block. last: of the launches of a call. */
__device__ static inline void remote_end_call(const remote_calls &c, bool last = true)
{
	__syncthreads();
	if (threadIdx.x)
		return;
	if (gridDim.x > 1) {
		sync_fence();
		if (atomicAdd(&c.counts->blocks, 1u) + 1 < gridDim.x)
			return;
	}
	c.counts->blocks = 0; /* the last block */
	if (last)
		sync_store_relaxed(&remote_progress_of(&c.remote)->ended, c.counts->calls);
}

/* ---- Of a lowered plan ------------------------------------------------------------------------------------- */

/* What a thread's turn is about: a ring and a peer of the list. */
struct remote_turn {
	int ring, seat, peer; /* seat: as the list numbers it; peer: among all of other nodes */
	uint32_t index;
};

__device__ static inline int remote_turns(const codelet_lowered &a)
{
	return a.nfar * (int)PLAN_MAX_QUEUES;
}

__device__ static inline int remote_far_peer(const codelet_lowered &a, int k)
{
	return a.nfar <= CODELET_FEW_FAR ? a.few_far[k] : a.far_peers[k];
}

/* The last threads come first: the first ones bring the list. */
__device__ static inline int remote_first_turn(void)
{
	return (int)(blockDim.x - 1 - threadIdx.x);
}

__device__ static inline remote_turn remote_turn_of(const codelet_lowered &a, uint32_t channel, int i)
{
	const int ring = i % (int)PLAN_MAX_QUEUES, k = i / (int)PLAN_MAX_QUEUES;
	return { ring, a.args.ranks + k, remote_far_peer(a, k), remote_index(a.first_channel + channel, (uint32_t)ring) };
}

/* All threads: what earlier calls have sent and received, and where; the block of another program may be counting what this one does not use. False if
 * the communicator has failed. */
__device__ static inline bool remote_begin(const codelet_lowered &a, uint32_t channel, remote_counts *before)
{
	const remote_calls &c = a.remote;
	const uint64_t abort = remote_abort_word(a.args);
	for (int i = remote_first_turn(); i < remote_turns(a); i += (int)blockDim.x) {
		const remote_turn t = remote_turn_of(a, channel, i);
		/* all under way before the first is used */
		const uint64_t sent = sync_load_relaxed(remote_count(c, t.peer, REMOTE_OUT, t.index)),
			       received = sync_load_relaxed(remote_count(c, t.peer, REMOTE_IN, t.index)),
			       free = sync_load_relaxed(&c.counts->peers[t.peer].free[t.index]);
		const remote_offset out = remote_offset_of(c, t.peer, REMOTE_OUT, t.index), in = remote_offset_of(c, t.peer, REMOTE_IN, t.index);
		if (t.ring == 0)
			before->peer[t.seat - a.args.ranks] = (int16_t)t.peer;
		before->sent[t.ring][t.seat] = sent;
		before->received[t.ring][t.seat] = received;
		before->free[t.ring][t.seat] = free;
		before->out[t.ring][t.seat] = out;
		before->in[t.ring][t.seat] = in;
	}
	return remote_begin_call(a.args, c, abort);
}

/* All threads, after the block's last barrier. A connection's two directions may be those of two programs. */
__device__ static inline void remote_end(const codelet_lowered &a, uint32_t channel, const remote_counts *before,
					 const uint32_t (*sent)[CODELET_MAX_RANKS], const uint32_t (*received)[CODELET_MAX_RANKS])
{
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const remote_turn t = remote_turn_of(a, channel, i);
		if (sent[t.ring][t.seat])
			sync_store_relaxed(remote_count(a.remote, t.peer, REMOTE_OUT, t.index),
					   before->sent[t.ring][t.seat] + sent[t.ring][t.seat]);
		if (received[t.ring][t.seat])
			sync_store_relaxed(remote_count(a.remote, t.peer, REMOTE_IN, t.index),
					   before->received[t.ring][t.seat] + received[t.ring][t.seat]);
	}
	remote_end_call(a.remote);
}

#endif
