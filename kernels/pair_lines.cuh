/*
 * Sends and receives of few bytes: lines that carry their own readiness, as in packet.cuh, but counted between two ranks. Lane l
 * takes groups l, l + lanes, ... of a message's lines; both ends count the messages of each lane, whose lines
 * say that number and the message's bytes. Two may be under way: the half of message q is free when q - 2 has been taken out, which
 * the receiver tells. A send therefore ends without its receive.
 */
#ifndef PAIR_LINES_CUH
#define PAIR_LINES_CUH

#include "packet.cuh"
#include "slot.cuh"

struct pair_lines {
	const codelet_group *g;
	const codelet_message *m;
	lane path; /* its epoch: the pair's count of messages */
	uint32_t lanes;
	uint64_t number; /* of this lane's message; lines carry the low half */
};

/* Packet 0 of a message, at the receiver. */
__device__ static inline unsigned char *lines_of(const pair_lines &p, int sender, int receiver)
{
	const codelet_args &a = p.g->args;
	uint64_t half = (p.number & 1) * (uint32_t)(a.ranks - 1);
	return window_of(a, receiver) + p.g->lines + (half + codelet_index(sender, receiver)) * p.g->lines_bytes;
}

/* The lane's words of messages taken out: its own ring. */
__device__ static inline uint64_t *taken_of(const pair_lines &p, int sender, int receiver)
{
	lane l = p.path;
	l.ring = CODELET_PAIR_LINES;
	return ack_of(p.g->args, l, sender, receiver);
}

/* What the other end announced for this message, if it has: another number of bytes? */
__device__ static inline bool announced_other(const pair_lines &p)
{
	const codelet_args &a = p.g->args;
	vector h = sync_load_packet((unsigned char *)header_of(a, p.m->peer, a.rank, 1) + 16);
	uint64_t bytes = (uint64_t)h.z << 32 | h.x;
	bool other = h.y == (uint32_t)p.path.epoch && h.w == h.y && bytes != p.m->bytes;
	if (other)
		call_fail(a, CORALE_EMISMATCH, p.m->peer, p.path.epoch, p.m->bytes, bytes);
	return other;
}

/* The whole warp waits until all its threads are ready. */
template <class Ready> __device__ static inline bool await_pair(const pair_lines &p, Ready ready)
{
	const codelet_args &a = p.g->args;
	uint64_t start = 0;
	for (uint32_t spins = 1; !__all_sync(~0u, ready()); spins++) {
		if (spins % CALL_SPINS_PER_LOOK)
			continue;
		if (__any_sync(~0u, !p.m->sending && announced_other(p)))
			return false;
		if (!__any_sync(~0u, call_look(a, spins, &start, p.path.epoch, false)))
			continue;
		if (threadIdx.x % 32 == 0)
			call_explain(a, p.m->peer, p.path.epoch, false);
		return false;
	}
	return true;
}

/* Calls act(i) for this thread's packets of the message, whole warps together, until one fails. */
template <class Act> __device__ static inline bool each_packet(const pair_lines &p, Act act)
{
	const uint32_t packets = (uint32_t)codelet_lines(p.m->bytes) * 8, group = CODELET_GROUP * 8;
	for (uint32_t first = p.path.number * group; first < packets; first += p.lanes * group)
		for (uint32_t v = threadIdx.x; v < group && first + v / 32 * 32 < packets; v += blockDim.x)
			if (!act(first + v))
				return false;
	return true;
}

__device__ static inline bool send_lines(const pair_lines &p)
{
	const codelet_args &a = p.g->args;
	const uint32_t bytes = (uint32_t)p.m->bytes, slots = (uint32_t)codelet_lines(bytes) * 8;
	const uint64_t *taken = taken_of(p, a.rank, p.m->peer);
	unsigned char *to = lines_of(p, a.rank, p.m->peer);
	if (!await_pair(p, [&] { return sync_load_relaxed(taken) + 2 >= p.number; }))
		return false;
	return each_packet(p, [&](uint32_t i) {
		vector v = load_user<true>(p.m->data + lines::at(i), filled<lines>(i, bytes));
		if (i < slots)
			sync_store_packet(to + (uint64_t)i * 16, lines::pack<CORALE_UINT8>(v, i, (uint32_t)p.number, bytes));
		return true;
	});
}

__device__ static inline bool receive_lines(const pair_lines &p)
{
	const codelet_args &a = p.g->args;
	const uint32_t bytes = (uint32_t)p.m->bytes, slots = (uint32_t)codelet_lines(bytes) * 8;
	const unsigned char *from = lines_of(p, p.m->peer, a.rank);
	return each_packet(p, [&](uint32_t i) {
		vector v = make_uint4(0, 0, (uint32_t)p.number, bytes);
		bool good = await_pair(p, [&] {
			if (i < slots)
				v = sync_load_packet(from + (uint64_t)i * 16);
			return i % 8 != 7 || i >= slots || v.z == (uint32_t)p.number;
		});
		if (good && i < slots && i % 8 == 7 && v.w != bytes) {
			call_fail(a, CORALE_EMISMATCH, p.m->peer, p.path.epoch, bytes, v.w);
			good = false;
		}
		if (__all_sync(~0u, good))
			store_user<true>(p.m->data + lines::at(i), v, filled<lines>(i, bytes));
		return __all_sync(~0u, good) != 0;
	});
}

/* The whole block. */
__device__ static inline bool run_lines(pair_lines p)
{
	const codelet_args &a = p.g->args;
	codelet_state *s = a.state;
	uint64_t *count = p.m->sending ? &s->lines_sent[p.path.number][p.m->peer] : &s->lines_received[p.path.number][p.m->peer];
	p.number = *count + 1;
	if (!crew_agrees(whole_block(), p.m->sending ? send_lines(p) : receive_lines(p)))
		return false;
	if (threadIdx.x == 0) {
		*count = p.number;
		if (!p.m->sending)
			sync_store_relaxed(taken_of(p, p.m->peer, a.rank), p.number);
	}
	__syncthreads(); /* the next message's threads read the count */
	return true;
}

#endif
