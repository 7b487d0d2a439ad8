/* A kernel's end of the lanes to ranks of other nodes (remote.h). All functions but the last two are one thread's. */
#ifndef REMOTE_CUH
#define REMOTE_CUH

#include "slot.cuh"

/* Of a block: its channel's lanes, by ring and peer (as the block numbers them: those of other nodes come last). */
struct remote_counts {
	uint64_t sent[PLAN_MAX_RINGS][CODELET_MAX_RANKS], received[PLAN_MAX_RINGS][CODELET_MAX_RANKS];
};

/* One lane of one peer. message: of all that the lane has ever had. */
struct remote_end {
	const remote *r;
	int peer;
	uint32_t lane;

	__device__ unsigned char *data(remote_direction direction, uint64_t message) const
	{
		return remote_data(remote_header_at(r, peer, direction, lane, message));
	}

	/* The message is here, and of the same call. False if the call has failed. */
	__device__ bool arrived(const codelet_args &a, ::lane *l, int place, uint64_t message) const
	{
		if (!wait_flag(a, l, &remote_words_of(r, peer)->arrived[lane], message + 1, place))
			return false;
		const uint64_t got = sync_load_relaxed(&remote_header_at(r, peer, REMOTE_IN, lane, message)->signature);
		if (got != a.signature)
			call_fail(a, CORALE_EMISMATCH, place, l->epoch, a.signature, got);
		return got == a.signature;
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
		*remote_header_at(r, peer, REMOTE_OUT, lane, header.number) = header;
		sync_store_release(&remote_words_of(r, peer)->posted[lane], header.number + 1);
	}
};

/* Of one peer and direction, in GPU memory. */
__device__ static inline uint64_t *remote_count(const codelet_lowered &a, int peer, remote_direction direction, uint32_t channel, uint32_t ring)
{
	return &a.remote_counts->messages[peer][direction][remote_lane(channel, ring)];
}

/* Peer and ring of a thread's turn. */
__device__ static inline int remote_turns(const codelet_lowered &a)
{
	return a.remote.peers * (int)PLAN_MAX_RINGS;
}

/* All threads: what earlier calls have sent and received. False, of this thread, if the communicator has failed: a replay ends at once. */
__device__ static inline bool remote_begin(const codelet_lowered &a, uint32_t channel, remote_counts *before)
{
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const int peer = i / (int)PLAN_MAX_RINGS, ring = i % (int)PLAN_MAX_RINGS, place = a.args.ranks + peer;
		before->sent[ring][place] = *remote_count(a, peer, REMOTE_OUT, channel, ring);
		before->received[ring][place] = *remote_count(a, peer, REMOTE_IN, channel, ring);
	}
	const bool ended = threadIdx.x == 0 && (told_abort(a.args) || sync_load_host(a.args.state->host_abort));
	if (blockIdx.x == 0 && threadIdx.x == 0)
		sync_store_relaxed(&remote_calls_of(&a.remote)->begun, ++a.remote_counts->calls);
	return __syncthreads_and(!ended);
}

/* All threads, after the block's last barrier. A lane's two directions may be those of two programs. */
__device__ static inline void remote_end_call(const codelet_lowered &a, uint32_t channel, const remote_counts *before,
					      const uint32_t (*sent)[CODELET_MAX_RANKS], const uint32_t (*received)[CODELET_MAX_RANKS])
{
	for (int i = (int)threadIdx.x; i < remote_turns(a); i += (int)blockDim.x) {
		const int peer = i / (int)PLAN_MAX_RINGS, ring = i % (int)PLAN_MAX_RINGS, place = a.args.ranks + peer;
		if (sent[ring][place])
			*remote_count(a, peer, REMOTE_OUT, channel, ring) = before->sent[ring][place] + sent[ring][place];
		if (received[ring][place])
			*remote_count(a, peer, REMOTE_IN, channel, ring) = before->received[ring][place] + received[ring][place];
	}
	__syncthreads();
	if (threadIdx.x || atomicAdd(&a.remote_counts->blocks, 1u) + 1 < gridDim.x)
		return;
	a.remote_counts->blocks = 0; /* the last block */
	sync_store_release(&remote_calls_of(&a.remote)->ended, a.remote_counts->calls);
}

#endif
