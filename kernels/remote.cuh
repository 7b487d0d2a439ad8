/* A kernel's end of the lanes to ranks of other nodes (remote.h). What struct remote_port does is one thread's. */
#ifndef REMOTE_CUH
#define REMOTE_CUH

#include "slot.cuh"

/* Of a block: its channel's lanes, by ring and peer (as the block numbers them: those of other nodes come last). */
struct remote_counts {
	uint64_t sent[PLAN_MAX_RINGS][CODELET_MAX_RANKS], received[PLAN_MAX_RINGS][CODELET_MAX_RANKS];
};

/* One lane of one peer. message: of all that the lane has ever had. */
struct remote_port {
	const remote *r;
	int peer;
	uint32_t lane;

	__device__ unsigned char *data(remote_direction direction, uint64_t message) const
	{
		return remote_data_at(r, peer, direction, lane, message);
	}

	/* The message is here, and of the same call. False if the call has failed. */
	__device__ bool arrived(const codelet_args &a, ::lane *l, int place, uint64_t message) const
	{
		const remote_header *h = remote_header_at(r, peer, REMOTE_IN, lane, message);
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
		const uint64_t got = sync_load_relaxed(&remote_header_at(r, peer, REMOTE_IN, lane, message)->what);
		if (got != what)
			call_fail<true>(a, CORALE_EMISMATCH, place, l.epoch, what, got);
		return got == what;
	}

	__device__ bool has_room(const codelet_args &a, ::lane *l, int place, uint64_t message) const
	{
		return message < REMOTE_DEPTH ||
		       wait_flag(a, l, &remote_words_of(r, peer)->free[lane], message + 1 - REMOTE_DEPTH, place);
	}

	/* After all loads of the block, and its barrier. */
	__device__ void take(uint64_t message) const
	{
		sync_store_release(&remote_words_of(r, peer)->taken[lane], message + 1);
	}

	/* After all stores of the block, and its barrier. */
	__device__ void post(remote_header header) const
	{
		*remote_header_at(r, peer, REMOTE_OUT, lane, header.number - 1) = header;
		sync_store_release(&remote_words_of(r, peer)->posted[lane], header.number);
	}
};

/* ---- A call ------------------------------------------------------------------------------------------------ */

/* How many messages a lane has had, in GPU memory. */
__device__ static inline uint64_t *remote_count(const remote_calls &c, int peer, remote_direction direction, uint32_t lane)
{
	return &c.counts->messages[peer][direction][lane];
}

/* All threads: tells the proxy. False, of all of them, if the communicator has failed: a replay ends at once, and a call that was never made says
 * so. */
__device__ static inline bool remote_begin_call(const codelet_args &a, const remote_calls &c)
{
	const uint64_t told = threadIdx.x == 0 ? told_abort(a) : 0; /* not the host's word: that takes a microsecond */
	const bool ended = told != 0;
	if (ended)
		call_fail(a, -(int)(uint32_t)told, (int)(told >> 32) - 1, call_epoch(a), 0, 0);
	if (blockIdx.x == 0 && threadIdx.x == 0)
		sync_store_relaxed(&remote_progress_of(&c.remote)->begun, ++c.counts->calls);
	return __syncthreads_and(!ended);
}

/* All threads of every block. */
__device__ static inline void remote_end_call(const remote_calls &c)
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
	sync_store_relaxed(&remote_progress_of(&c.remote)->ended, c.counts->calls);
}

/* ---- Of a lowered plan ------------------------------------------------------------------------------------- */

/* Peer and ring of a thread's turn. */
__device__ static inline int remote_turns(const codelet_lowered &a)
{
	return a.remote.remote.peers * (int)PLAN_MAX_RINGS;
}

/* All threads: what earlier calls have sent and received; the block of another program may be counting what this one does not use. False if the
 * communicator has failed. */
__device__ static inline bool remote_begin(const codelet_lowered &a, uint32_t channel, remote_counts *before)
{
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const int peer = i / (int)PLAN_MAX_RINGS, ring = i % (int)PLAN_MAX_RINGS, place = a.args.ranks + peer;
		before->sent[ring][place] = sync_load_relaxed(remote_count(a.remote, peer, REMOTE_OUT, remote_lane(channel, ring)));
		before->received[ring][place] = sync_load_relaxed(remote_count(a.remote, peer, REMOTE_IN, remote_lane(channel, ring)));
	}
	return remote_begin_call(a.args, a.remote);
}

/* All threads, after the block's last barrier. A lane's two directions may be those of two programs. */
__device__ static inline void remote_end(const codelet_lowered &a, uint32_t channel, const remote_counts *before,
					 const uint32_t (*sent)[CODELET_MAX_RANKS], const uint32_t (*received)[CODELET_MAX_RANKS])
{
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const int peer = i / (int)PLAN_MAX_RINGS, ring = i % (int)PLAN_MAX_RINGS, place = a.args.ranks + peer;
		const uint32_t lane = remote_lane(channel, ring);
		if (sent[ring][place])
			sync_store_relaxed(remote_count(a.remote, peer, REMOTE_OUT, lane), before->sent[ring][place] + sent[ring][place]);
		if (received[ring][place])
			sync_store_relaxed(remote_count(a.remote, peer, REMOTE_IN, lane), before->received[ring][place] + received[ring][place]);
	}
	remote_end_call(a.remote);
}

#endif
