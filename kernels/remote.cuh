/* A kernel's end of the lanes to ranks of other nodes (remote.h). What struct remote_port does is one thread's. */
#ifndef REMOTE_CUH
#define REMOTE_CUH

#include "slot.cuh"

/* Of a block: its channel's lanes, by ring and peer (as the list numbers them: those of other nodes come last). */
struct remote_counts {
	uint64_t sent[PLAN_MAX_RINGS][CODELET_MAX_RANKS], received[PLAN_MAX_RINGS][CODELET_MAX_RANKS];
	remote_place out[PLAN_MAX_RINGS][CODELET_MAX_RANKS], in[PLAN_MAX_RINGS][CODELET_MAX_RANKS];
};

/* One end of a lane. message: of all that it has ever had. */
struct remote_port {
	const remote *r;
	remote_place at;
	uint32_t lane;

	__device__ unsigned char *data(uint64_t message) const
	{
		return remote_data_at(r, at, remote_slots_of(r, lane), message);
	}

	__device__ remote_header *header(uint64_t message) const
	{
		return remote_header_at(r, at, remote_slots_of(r, lane), message);
	}

	/* The message is here, and of the same call. False if the call has failed. */
	__device__ bool arrived(const codelet_args &a, ::lane *l, int place, uint64_t message) const
	{
		const remote_header *h = header(message);
		uint64_t number, got;
		auto ready = [&] {
			sync_acquire_pair(&h->number, &number, &got);
			return number == message + 1;
		};
		if (!wait_ready(a, l, place, ready))
			return false;
		if (got != a.signature)
			call_fail(a, CORALE_EMISMATCH, place, l->epoch, a.signature, got);
		return got == a.signature;
	}

	/* Of a message that has arrived: both ends agree on type and bytes. */
	__device__ bool agrees(const codelet_args &a, const ::lane &l, int place, uint64_t message, uint64_t what) const
	{
		const uint64_t got = sync_load_relaxed(&header(message)->what);
		if (got != what)
			call_fail<true>(a, CORALE_EMISMATCH, place, l.epoch, what, got);
		return got == what;
	}

	__device__ bool has_room(const codelet_args &a, ::lane *l, int place, uint64_t message) const
	{
		const uint32_t depth = remote_slots_of(r, lane)->depth;
		return message < depth || wait_flag(a, l, &remote_words_at(r, at)->free, message + 1 - depth, place);
	}

	/* After all loads of the block, and its barrier. */
	__device__ void take(uint64_t message) const
	{
		sync_store_release(&remote_words_at(r, at)->taken, message + 1);
	}

	/* After all stores of the block, and its barrier. */
	__device__ void post(remote_header h) const
	{
		*header(h.number - 1) = h;
		sync_store_release(&remote_words_at(r, at)->posted, h.number);
	}
};

/* ---- A call ------------------------------------------------------------------------------------------------ */

__device__ static inline remote_place remote_place_in(const remote_calls &c, int peer, remote_direction direction, uint32_t lane)
{
	return sync_load_host(&c.places[remote_place_of(peer, direction, lane)]);
}

/* How many messages a lane has had, in GPU memory. */
__device__ static inline uint64_t *remote_count(const remote_calls &c, int peer, remote_direction direction, uint32_t lane)
{
	return &c.counts->messages[peer][direction][lane];
}

/* All threads: tells the proxy. False, of all of them, if the communicator has failed: a replay ends at once, and a call that was never made says
 * so. first: of the launches of a call. */
__device__ static inline bool remote_begin_call(const codelet_args &a, const remote_calls &c, bool first = true)
{
	const uint64_t told = threadIdx.x == 0 ? told_abort(a) : 0; /* not the host's word: that takes a microsecond */
	const bool ended = told != 0;
	if (ended)
		call_fail(a, -(int)(uint32_t)told, (int)(told >> 32) - 1, call_epoch(a), 0, 0);
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
	uint32_t lane;
};

__device__ static inline int remote_turns(const codelet_lowered &a)
{
	return a.nfar * (int)PLAN_MAX_RINGS;
}

__device__ static inline remote_turn remote_turn_of(const codelet_lowered &a, uint32_t channel, const int16_t *far_peers, int i)
{
	const int ring = i % (int)PLAN_MAX_RINGS, k = i / (int)PLAN_MAX_RINGS;
	return { ring, a.args.ranks + k, far_peers[k], remote_lane(a.first_channel + channel, (uint32_t)ring) };
}

/* All threads: what earlier calls have sent and received, and where; the block of another program may be counting what this one does not use. False if
 * the communicator has failed. */
__device__ static inline bool remote_begin(const codelet_lowered &a, uint32_t channel, const int16_t *far_peers, remote_counts *before)
{
	const remote_calls &c = a.remote;
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const remote_turn t = remote_turn_of(a, channel, far_peers, i);
		before->sent[t.ring][t.seat] = sync_load_relaxed(remote_count(c, t.peer, REMOTE_OUT, t.lane));
		before->received[t.ring][t.seat] = sync_load_relaxed(remote_count(c, t.peer, REMOTE_IN, t.lane));
		before->out[t.ring][t.seat] = remote_place_in(c, t.peer, REMOTE_OUT, t.lane);
		before->in[t.ring][t.seat] = remote_place_in(c, t.peer, REMOTE_IN, t.lane);
	}
	return remote_begin_call(a.args, c);
}

/* All threads, after the block's last barrier. A lane's two directions may be those of two programs. */
__device__ static inline void remote_end(const codelet_lowered &a, uint32_t channel, const int16_t *far_peers, const remote_counts *before,
					 const uint32_t (*sent)[CODELET_MAX_RANKS], const uint32_t (*received)[CODELET_MAX_RANKS])
{
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const remote_turn t = remote_turn_of(a, channel, far_peers, i);
		if (sent[t.ring][t.seat])
			sync_store_relaxed(remote_count(a.remote, t.peer, REMOTE_OUT, t.lane),
					   before->sent[t.ring][t.seat] + sent[t.ring][t.seat]);
		if (received[t.ring][t.seat])
			sync_store_relaxed(remote_count(a.remote, t.peer, REMOTE_IN, t.lane),
					   before->received[t.ring][t.seat] + received[t.ring][t.seat]);
	}
	remote_end_call(a.remote);
}

#endif
