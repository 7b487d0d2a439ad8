/* SPDX-License-Identifier: BSD-3-Clause */
/* A message of one direction between two ranks, as one of its channels has it: where it goes, and what both ends say of its bytes. */
#ifndef EDGES_CUH
#define EDGES_CUH

#include "grants.cuh"

/* A channel's slots. */
struct place {
	unsigned char *begin;
	uint32_t slot_bytes, slots;
};

struct edge {
	const codelet_args *a;
	const codelet_message *m;
	connection path;
	range piece; /* of the message, for this channel */
	place to;
};

__device__ static inline unsigned char *slot_of_edge(const edge &e, uint32_t c)
{
	return e.to.begin + (uint64_t)(c % e.to.slots) * e.to.slot_bytes;
}

/* Through this channel; 1 at least. */
__device__ static inline uint32_t messages_of_edge(const edge &e)
{
	uint64_t n = (e.piece.bytes + e.to.slot_bytes - 1) / e.to.slot_bytes;
	return n ? (uint32_t)n : 1;
}

/* ---- Counts ---------------------------------------------------------------------------------------------- */

/* The second packet of a header line says what one edge holds; its epoch is the channel's. One thread, of the first channel. */
__device__ static inline void store_count(const edge &e)
{
	const codelet_args &a = *e.a;
	if (e.path.number)
		return;
	vector packet = make_uint4((uint32_t)e.m->bytes, (uint32_t)e.path.epoch, e.m->typed_bytes_high, (uint32_t)e.path.epoch);
	sync_store_packet((unsigned char *)header_of(a, a.rank, e.m->peer, e.path.ring == CODELET_PAIRS) + 16, packet);
}

/* What the header line said when it was loaded, and how many epochs ahead of the channel's it was. */
struct edge_count {
	vector packet;
	int32_t ahead;
};

/* One thread of the receiver: whether the line has come as far as this message. */
__device__ static inline bool count_is_here(const edge &e, edge_count *c)
{
	const codelet_args &a = *e.a;
	const bool pairs = e.path.ring == CODELET_PAIRS;
	c->packet = sync_load_packet((unsigned char *)header_of(a, e.m->peer, a.rank, pairs) + 16);
	c->ahead = (int32_t)(c->packet.y - (uint32_t)e.path.epoch);
	if (c->ahead && !pairs) /* a collective's count may be any number of epochs old, but never ahead */
		c->ahead = -1;
	return c->ahead >= 0 && (c->packet.w == c->packet.y || (c->ahead && e.path.number));
}

/* Of one that is here. False: that fails the call. */
__device__ static inline bool count_agrees(const edge &e, const edge_count &c)
{
	if (c.ahead && e.path.number) /* the first channel has checked this one, and the sender went on */
		return true;
	bool same = c.ahead == 0 && word_of(c.packet) == codelet_typed_bytes(e.m); /* ahead: it was sent in lines, as fewer bytes */
	if (!same)
		call_fail<true>(*e.a, CORALE_EMISMATCH, e.m->peer, e.path.epoch, codelet_typed_bytes(e.m), word_of(c.packet));
	return same;
}

/* ---- Places ---------------------------------------------------------------------------------------------- */

/* What the host said of a message that is received here. */
__device__ static inline uint64_t offer_of_message(const codelet_p2p &all, const codelet_message *m)
{
	return all.places[m - all.messages];
}

/* Where a granted target begins; receiver: whose it is. */
__device__ static inline unsigned char *target_of(const codelet_p2p &all, uint64_t granted, int receiver)
{
	const uint32_t region = (uint32_t)(granted >> CODELET_TARGET_SHIFT);
	/* regions may be younger than this kernel */
	const uint64_t *memory = (const uint64_t *)(all.regions + ((region - 1) * (uint32_t)all.group.args.ranks + (uint32_t)receiver));
	return (unsigned char *)sync_load_relaxed(memory) + (granted - ((uint64_t)region << CODELET_TARGET_SHIFT));
}

__device__ static inline place slots_of_grant(const codelet_args &a, uint64_t granted, int receiver)
{
	return { window_of(a, receiver) + a.area + (uint64_t)(uint32_t)granted * CODELET_LINE, (uint32_t)(granted >> 32) * CODELET_LINE, a.depth };
}

/* Of a channel: as granted; in an all_to_all_v each sender has slots of its own. */
__device__ static inline place slots_of_channel(const edge &e, uint64_t granted)
{
	const codelet_args &a = *e.a;
	const int sender = e.m->sending ? a.rank : e.m->peer, receiver = e.m->sending ? e.m->peer : a.rank;
	if (e.path.ring == CODELET_PAIRS)
		return slots_of_grant(a, granted, receiver);
	return { slot_of(a, e.path, sender, receiver, 0), a.slot_bytes, a.depth };
}

/* The counter of a pair and direction, as this channel keeps it. */
__device__ static inline uint64_t *pair_counter(const codelet_args &a, const codelet_message &m, uint32_t channel)
{
	codelet_state *s = a.state;
	return m.sending ? &s->pair_sent[channel][m.peer] : &s->pair_received[channel][m.peer];
}

/* For all channels of block `number` of so many, from lane `first` of so many on. */
__device__ static inline void count_pair(const codelet_args &a, const codelet_message &m, uint32_t number, uint32_t blocks, uint32_t first, uint32_t lanes, uint64_t count)
{
	for (uint32_t channel = number + first * blocks; channel < CODELET_CHANNELS; channel += lanes * blocks)
		*pair_counter(a, m, channel) = count;
}

#endif
