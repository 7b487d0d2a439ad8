/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives in lines that carry their own readiness, as in packet.cuh, through rings of slots: a message's slots of four lines
 * go to the pair's rings in turn. Where a link tears lines (CODELET_WORD_PAIRS) a slot holds words of 8 bytes instead, half of each data and half the number; the first two
 * hold the message's bytes and type. A warp of each end looks after a ring by itself, so that nothing waits for a block. Lines say a
 * number of their slot in its ring, and the message's bytes and type. A sender may be as far ahead as the ring has slots; the receiver
 * signals what it has taken out, not for every slot, but before half of them are unsignalled. A send of no more than half of what the rings
 * hold therefore ends without its receive, if those before it have had theirs.
 */
#ifndef PAIR_LINES_CUH
#define PAIR_LINES_CUH

#include "packet.cuh"
#include "fifo.cuh"

struct pair_lines {
	const codelet_group *g;
	const codelet_message *m;
	connection path; /* its epoch: the pair's count of messages */
	uint32_t aborted; /* messages_aborted */
};

/* A ring at this end, and what of the message is this thread's in it. */
struct line_ring {
	uint32_t number;
	unsigned char *slots; /* this thread's packet of the first one, at the receiver */
	uint64_t count; /* slots of the ring, of all messages */
	uint32_t at; /* the next one's place */
	uint32_t unsignalled; /* of a receiver: taken out, and not yet signalled */
	uint32_t packets; /* of the message */
};

enum { AT_ONCE = CODELET_RING_DEPTH }; /* slots under way of a warp, where no room is short */

/* What a slot holds. WHOLE_LINES: it is filled, and the data lies at a multiple of 16. */
enum slot_form { LINES, WHOLE_LINES, WORDS };

__device__ static inline codelet_ring_end *ring_end_of(const pair_lines &p, uint32_t ring)
{
	return (codelet_ring_end *)(p.g->args.state + 1) + (uint32_t)p.m->peer * p.g->rings + ring;
}

/* What its receiver has taken out, in the sender's window. */
__device__ static inline uint64_t *taken_of(const pair_lines &p, int sender, int receiver, uint32_t ring)
{
	codelet_ring_taken *taken = (codelet_ring_taken *)(window_of(p.g->args, sender) + p.g->rings_taken);
	return &taken[(uint32_t)receiver * p.g->rings + ring].slots;
}

/* In lines whole ones. Of words each slot has one that holds no data. */
__device__ static inline uint32_t packets_of(const codelet_message &m, const codelet_group &g)
{
	if (g.pairs == CODELET_WORD_PAIRS)
		return ((uint32_t)m.bytes + 7) / 8 + (uint32_t)codelet_line_slots(&g, m.bytes);
	return (uint32_t)codelet_lines(m.bytes) * 8;
}

__device__ static inline line_ring ring_of(const pair_lines &p, uint32_t number)
{
	const codelet_group &g = *p.g;
	const int sender = p.m->sending ? g.args.rank : p.m->peer, receiver = p.m->sending ? p.m->peer : g.args.rank;
	const uint64_t slots = ((uint64_t)codelet_index(sender, receiver) * g.rings + number) * g.depth;
	const codelet_ring_end *end = ring_end_of(p, number);
	return { number,
		 window_of(g.args, receiver) + g.ring_slots + slots * CODELET_LINE_SLOT + threadIdx.x % 32 * 16,
		 p.m->sending ? end->sent : end->received,
		 p.m->sending ? end->send_at : end->receive_at,
		 p.m->sending ? 0u : end->unsignalled,
		 packets_of(*p.m, g) };
}

__device__ static inline uint32_t slot_after(const pair_lines &p, uint32_t at, uint32_t slots)
{
	return at + slots < p.g->depth ? at + slots : at + slots - p.g->depth;
}

/* What the lines of the slot say that comes u behind the next one. It is odd: small messages leave the last lines of their slots as they
 * were, and a line that was never stored says 0, which would be a slot's number after 2^32 of them. */
__device__ static inline uint32_t slot_number(const line_ring &r, uint32_t u)
{
	return 2 * (uint32_t)r.count + (2 * u + 1);
}

/* How many of the ring's slots from slot s of the message on come before slot `end`; so many at most. */
__device__ static inline uint32_t slots_until(const pair_lines &p, uint32_t s, uint32_t end, uint32_t most)
{
	uint32_t n = 1;
	while (n < most && s + n * p.g->rings < end)
		n++;
	return n;
}

/* ---- A thread's packet of slot s ---------------------------------------------------------------------------- */

__device__ static inline bool in_words(const pair_lines &p)
{
	return p.g->pairs == CODELET_WORD_PAIRS;
}

__device__ static inline uint32_t lane_of_slot(void)
{
	return threadIdx.x % 32;
}

__device__ static inline uint32_t packet_of(uint32_t s)
{
	return s * 32 + lane_of_slot();
}

/* What of the message lies in it: where that begins, and how many bytes. */
template <slot_form FORM> __device__ static inline uint32_t data_at(uint32_t s)
{
	return FORM == WORDS ? s * CODELET_WORD_SLOT_DATA + lane_of_slot() * 8 - 8 : lines::at(packet_of(s));
}

template <slot_form FORM> __device__ static inline uint32_t data_bytes(const pair_lines &p, uint32_t s)
{
	const uint32_t at = data_at<FORM>(s), bytes = (uint32_t)p.m->bytes, left = lane_of_slot() && at < bytes ? bytes - at : 0;
	if (FORM != WORDS)
		return filled<lines>(packet_of(s), bytes);
	return left < 8 ? left : 8;
}

template <slot_form FORM> __device__ static inline vector load_packet(const pair_lines &p, uint32_t s)
{
	const unsigned char *from = p.m->data + data_at<FORM>(s);
	if (FORM != WHOLE_LINES)
		return load_user<true>(from, data_bytes<FORM>(p, s));
	if (threadIdx.x % 8 < 7)
		return *(const vector *)from;
	uint2 half = *(const uint2 *)from;
	return make_uint4(half.x, half.y, 0, 0);
}

template <slot_form FORM> __device__ static inline void store_packet(const pair_lines &p, uint32_t s, vector v)
{
	unsigned char *to = p.m->data + data_at<FORM>(s);
	if (FORM != WHOLE_LINES)
		store_user<true>(to, FORM == WORDS ? make_uint4(v.x, v.z, 0, 0) : v, data_bytes<FORM>(p, s));
	else if (threadIdx.x % 8 < 7)
		*(vector *)to = v;
	else
		*(uint2 *)to = make_uint2(v.x, v.y);
}

template <slot_form FORM> __device__ static inline bool has_packet(const line_ring &r, uint32_t s)
{
	return FORM == WHOLE_LINES || packet_of(s) < r.packets;
}

template <slot_form FORM> __device__ static inline vector pack(vector v, uint32_t number, uint32_t typed_bytes)
{
	if (FORM == WORDS)
		return make_uint4(lane_of_slot() ? v.x : typed_bytes, number, v.y, number);
	return lines::pack<CORALE_UINT8>(v, threadIdx.x, number, typed_bytes);
}

template <slot_form FORM> __device__ static inline bool has_come(vector v, uint32_t number)
{
	if (FORM == WORDS)
		return v.y == number && v.w == number;
	return threadIdx.x % 8 != 7 || v.z == number;
}

/* What a packet that has come says of type and bytes, if it does; else those that are expected. */
template <slot_form FORM> __device__ static inline uint32_t typed_bytes_of(vector v, uint32_t expected)
{
	if (FORM == WORDS)
		return lane_of_slot() ? expected : v.x;
	return threadIdx.x % 8 == 7 ? v.w : expected;
}

/* ---- Waits -------------------------------------------------------------------------------------------------- */

/* False if the sender announced another count or type for this message: that fails the call. */
__device__ static inline bool announced_agrees(const pair_lines &p)
{
	const codelet_args &a = p.g->args;
	vector h = sync_load_packet((unsigned char *)header_of(a, p.m->peer, a.rank, 1) + 16);
	uint64_t expected = codelet_typed_bytes(p.m), got = word_of(h);
	bool agrees = h.y != (uint32_t)p.path.epoch || h.w != h.y || got == expected;
	if (!agrees)
		call_fail<true>(a, CORALE_EMISMATCH, p.m->peer, p.path.epoch, expected, got);
	return agrees;
}

/* The whole warp waits until all its threads are ready. A receiver looks for what the other end announced, too, which fails the call. */
template <class Ready> __device__ static inline bool await_pair(const pair_lines &p, Ready ready)
{
	return wait_until<one_warp_one_peer>(
		p.g->args, p.path.epoch, false, ready, [&] { return (int)p.m->peer; }, [&] { return p.m->sending || __all_sync(~0u, announced_agrees(p)); });
}

/* ---- Of a message, the slots of a ring from `first` on that come before `end`, N at once -------------------------- */

/* The data is loaded before there is room for it. */
template <int N, slot_form FORM> __device__ static inline bool send_slots(const pair_lines &p, line_ring *r, uint32_t first, uint32_t end)
{
	const uint32_t typed_bytes = codelet_typed_bytes_in_line(p.m), depth = p.g->depth, step = p.g->rings;
	const uint64_t *from = taken_of(p, p.g->args.rank, p.m->peer, r->number);
	uint64_t taken = sync_load_relaxed(from);
	for (uint32_t s = first, n; s < end; s += n * step, r->count += n, r->at = slot_after(p, r->at, n)) {
		vector v[N];
		n = slots_until(p, s, end, N);
#pragma unroll
		for (uint32_t u = 0; u < N; u++)
			if (u < n)
				v[u] = load_packet<FORM>(p, s + u * step);
		auto has_room = [&] { return taken + depth >= r->count + n && !p.aborted; };
		if (!__all_sync(~0u, has_room()) && !await_pair(p, [&] {
			    taken = sync_load_relaxed(from);
			    return has_room();
		    }))
			return false;
#pragma unroll
		for (uint32_t u = 0; u < N; u++)
			if (u < n && has_packet<FORM>(*r, s + u * step))
				sync_store_packet(r->slots + slot_after(p, r->at, u) * CODELET_LINE_SLOT, pack<FORM>(v[u], slot_number(*r, u), typed_bytes));
	}
	return true;
}

/* After all loads of the warp. What is not signalled leaves the sender room for as much as it sends at once. */
__device__ static inline void signal_taken(const pair_lines &p, line_ring *r, uint32_t slots)
{
	const uint32_t half = p.g->depth / 2, spare = p.g->depth - AT_ONCE + 1;
	r->unsignalled += slots;
	if (r->unsignalled < (half < spare ? half : spare))
		return;
	r->unsignalled = 0;
	if (threadIdx.x % 32 == 0)
		sync_store_relaxed(taken_of(p, p.m->peer, p.g->args.rank, r->number), r->count + slots);
}

template <int N, slot_form FORM> __device__ static inline bool receive_slots(const pair_lines &p, line_ring *r, uint32_t first, uint32_t end)
{
	const uint32_t typed_bytes = codelet_typed_bytes_in_line(p.m), step = p.g->rings;
	for (uint32_t s = first, n; s < end; s += n * step, r->count += n, r->at = slot_after(p, r->at, n)) {
		vector v[N];
		n = slots_until(p, s, end, N);
		auto is_ours = [&](uint32_t u) { return u < n && has_packet<FORM>(*r, s + u * step); };
		bool good = await_pair(p, [&] {
			bool ready = !p.aborted;
#pragma unroll
			for (uint32_t u = 0; u < N; u++)
				if (is_ours(u))
					v[u] = sync_load_packet(r->slots + slot_after(p, r->at, u) * CODELET_LINE_SLOT);
#pragma unroll
			for (uint32_t u = 0; u < N; u++)
				ready = ready && (!is_ours(u) || has_come<FORM>(v[u], slot_number(*r, u)));
			return ready;
		});
#pragma unroll
		for (uint32_t u = 0; u < N; u++)
			if (good && is_ours(u) && typed_bytes_of<FORM>(v[u], typed_bytes) != typed_bytes) {
				const uint64_t got = codelet_typed_bytes_of_line(typed_bytes_of<FORM>(v[u], typed_bytes));
				call_fail<true>(p.g->args, CORALE_EMISMATCH, p.m->peer, p.path.epoch, codelet_typed_bytes(p.m), got);
				good = false;
			}
		if (!__all_sync(~0u, good))
			return false;
		signal_taken(p, r, n);
#pragma unroll
		for (uint32_t u = 0; u < N; u++)
			if (is_ours(u))
				store_packet<FORM>(p, s + u * step, v[u]);
	}
	return true;
}

/* ---- Messages ----------------------------------------------------------------------------------------------- */

template <int N, slot_form FORM> __device__ static inline bool pass_slots(const pair_lines &p, line_ring *r, uint32_t first, uint32_t end)
{
	return p.m->sending ? send_slots<N, FORM>(p, r, first, end) : receive_slots<N, FORM>(p, r, first, end);
}

__device__ static inline void keep_ring(const pair_lines &p, const line_ring &r)
{
	__syncwarp(); /* all lanes have read it */
	if (threadIdx.x % 32)
		return;
	codelet_ring_end *end = ring_end_of(p, r.number);
	if (p.m->sending) {
		end->sent = r.count;
		end->send_at = (uint16_t)r.at;
	} else {
		end->received = r.count;
		end->receive_at = (uint16_t)r.at;
		end->unsignalled = (uint16_t)r.unsignalled;
	}
}

/* A ring of a message in words. */
__device__ static inline bool run_words(const pair_lines &p, uint32_t number, uint32_t slots)
{
	line_ring r = ring_of(p, number);
	if (!pass_slots<1, WORDS>(p, &r, number, slots))
		return false;
	keep_ring(p, r);
	return true;
}

/*
 * The whole block: the rings of its channels of the message. Of a LONG one that is aligned all slots but the last one are whole; it goes in no words. HAS_WORDS: others may.
 */
template <bool LONG, bool HAS_WORDS = !LONG> __device__ static inline bool run_lines(const pair_lines &p, uint32_t channels, uint32_t blocks)
{
	const uint32_t slots = (uint32_t)codelet_line_slots(p.g, p.m->bytes), rings = p.g->rings, most = slots < rings ? slots : rings;
	const bool aligned = LONG && (uintptr_t)p.m->data % 16 == 0;
	const uint32_t whole = aligned ? slots - 1 : 0;
	bool good = true;
	for (uint32_t channel = p.path.number; channel < channels; channel += blocks) {
		const uint32_t first = channel * CODELET_CHANNEL_RINGS, end = most < first + CODELET_CHANNEL_RINGS ? most : first + CODELET_CHANNEL_RINGS;
		for (uint32_t number = first + threadIdx.x / 32; good && number < end; number += blockDim.x / 32) {
			if (HAS_WORDS && in_words(p)) {
				good = run_words(p, number, slots);
				continue;
			}
			line_ring r = ring_of(p, number);
			if (aligned)
				good = pass_slots<AT_ONCE, WHOLE_LINES>(p, &r, number, whole);
			if (good && (!aligned || whole % rings == number))
				good = pass_slots<1, LINES>(p, &r, aligned ? whole : number, slots);
			if (good)
				keep_ring(p, r);
		}
	}
	__syncwarp(); /* what comes next reads the rings' ends */
	return warp_group_agrees(whole_block(), good);
}

#endif
