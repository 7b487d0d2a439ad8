/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous of messages longer than the rings of lines hold. When a receiver comes to such a message it grants each channel a place to store:
 * its registered buffer; the rings; or slots where these are faster, all of which then belong to such messages. Its slots are empty when its
 * kernel begins, because every call takes out what came in its slots, and no sender stores for the next call before the receiver grants it.
 *
 * Of a message that its receiver may read where it lies (codelet_may_be_read) the sender says where that is (a ref), for each channel. If the export is open there the receiver reads
 * the channel's data and acknowledges that, without a grant; if not it grants slots. So each channel is decided for itself, by its receiver, and the sender waits for either word.
 */
#ifndef GRANTS_CUH
#define GRANTS_CUH

#include "fifo.cuh"
#include "exports.cuh"

/* An edge of a collective that its receiver may read goes as a message of a pair does, with the pair's count of messages. */
__device__ static inline bool is_pair_of_call(const codelet_group &g, const codelet_message &m)
{
	return !m.from && codelet_may_be_read(&g, m.bytes);
}

/* A channel's acknowledgement that its receiver has read all: this number no other one has before data were sent. */
enum { READ_NUMBER = 1 };

/* Set by the receiver in the sender's window. */
__device__ static inline codelet_grant *grant_of(const codelet_p2p &e, uint32_t channel, int sender, int receiver)
{
	codelet_grant *all = (codelet_grant *)(window_of(e.group.args, sender) + e.grants);
	return all + (uint32_t)receiver * CODELET_CHANNELS + channel;
}

/* What a sender says of a channel, in the receiver's window. */
__device__ static inline codelet_message_ref *ref_of(const codelet_p2p &e, uint32_t channel, int sender, int receiver)
{
	codelet_message_ref *all = (codelet_message_ref *)(window_of(e.group.args, receiver) + e.message_refs);
	return all + (uint32_t)sender * CODELET_CHANNELS + channel;
}

/* Of what is received: the place that a channel is granted; 0: the rings. */
__device__ static inline uint64_t grant_of_channel(const codelet_p2p &e, const codelet_message &m, uint64_t place, uint32_t channel)
{
	const codelet_args &a = e.group.args;
	if (codelet_is_target(place))
		return place;
	if (codelet_in_long_lines(&e.group, m.bytes))
		return 0;
	uint64_t at = (uint64_t)(uint32_t)place * a.area_bytes + (uint64_t)channel * a.depth * a.slot_bytes;
	return (place >> 32) << 32 | at / CODELET_LINE;
}

/* One thread: a channel of a message, after its block's loads for the message before. */
__device__ static inline void grant_channel(const codelet_p2p &e, const codelet_message &m, uint64_t place, uint32_t channel, const connection &conn)
{
	const uint32_t epoch = (uint32_t)conn.epoch;
	const bool first = &m == e.messages || !(&m)[-1].more;
	uint64_t granted = grant_of_channel(e, m, place, channel);
	codelet_grant *g = grant_of(e, channel, m.peer, e.group.args.rank);
	if (!first)
		sync_fence(); /* others of the block have read these slots */
	sync_store_packet(&g->place_low, make_uint4((uint32_t)granted, epoch, (uint32_t)(granted >> 32), epoch));
	sync_store_packet(&g->typed_bytes_low, make_uint4((uint32_t)m.bytes, epoch, m.typed_bytes_high, epoch));
}

/* One thread of the sender, before its call has failed: where a channel's message lies, as long as its export may be named. */
__device__ static inline void store_ref(const codelet_p2p &e, const codelet_message &m, uint32_t channel, const connection &conn)
{
	const codelet_args &a = e.group.args;
	const uint32_t epoch = (uint32_t)conn.epoch;
	const uint64_t named = e.places[&m - e.messages], number = is_usable(a, named) ? named : 0;
	const uint64_t offset = number ? (uint64_t)(m.data - export_at(a, a.rank, number % EXPORTS_ROOM)) : 0, at = ref_word({ number, offset });
	codelet_message_ref *r = ref_of(e, channel, a.rank, m.peer);
	sync_store_packet(&r->at_low, make_uint4((uint32_t)at, epoch, (uint32_t)(at >> 32), epoch));
	sync_store_packet(&r->number_low, make_uint4((uint32_t)number, epoch, (uint32_t)(number >> 32), epoch));
}

/* All channels of block `number` of the list's. */
template <class Say> __device__ static inline void say_channels(uint32_t channels, uint32_t number, uint32_t blocks, Say say)
{
	for (uint32_t channel = number + threadIdx.x * blocks; channel < channels; channel += blockDim.x * blocks)
		say(channel);
}

__device__ static inline bool is_here(const connection &conn, vector packet)
{
	return packet.y == (uint32_t)conn.epoch && packet.w == packet.y;
}

/*
 * One thread of the receiver: whether the sender has said where a channel's message lies, and has not given up since. Then *from is where it lies here, NULL: in no export that
 * is open.
 */
__device__ static inline bool ref_is_here(const codelet_p2p &e, const codelet_message &m, const connection &conn, const unsigned char **from)
{
	const codelet_args &a = e.group.args;
	const codelet_message_ref *r = ref_of(e, conn.number, m.peer, a.rank);
	const vector at = sync_load_packet(&r->at_low), number = sync_load_packet(&r->number_low);
	if (!is_here(conn, at) || !is_here(conn, number))
		return false;
	sync_fence();
	const bool open = word_of(number) && opened_up_to(a, m.peer) >= word_of(number);
	*from = open ? open_at(a, m.peer, word_of(at)) : nullptr;
	return abort_word(a) == 0;
}

/* One thread: whether a channel is granted. A grant of another count or type is none: the receiver ends the call. */
__device__ static inline bool is_granted(const codelet_args &a, const codelet_message &m, const connection &conn, const codelet_grant *g)
{
	vector packet = sync_load_packet(&g->typed_bytes_low);
	if (call_aborted(a) || !is_here(conn, packet) || word_of(packet) != codelet_typed_bytes(&m) || !is_here(conn, sync_load_packet(&g->place_low)))
		return false;
	sync_fence();
	return true;
}

enum { CHANNEL_IS_READ = 1 /* a place that is none: its receiver has read the channel */ };

/* The whole block: waits for the grant of a channel, or until its receiver has read it. */
__device__ static inline bool await_grant(const codelet_p2p &e, const codelet_message &m, connection *conn, uint64_t *place)
{
	const codelet_args &a = e.group.args;
	const codelet_grant *g = grant_of(e, conn->number, a.rank, m.peer);
	const uint64_t *ack = codelet_may_be_read(&e.group, m.bytes) ? ack_of(a, *conn, a.rank, m.peer) : nullptr;
	bool good = true, read = false;
	if (threadIdx.x == 0)
		good = wait_ready(a, conn, m.peer, [&] {
			read = ack && sync_load_acquire(ack) >= flag_value(*conn, READ_NUMBER);
			return read || is_granted(a, m, *conn, g);
		});
	if (!warp_group_agrees(whole_block(), good))
		return false;
	if (ack && !warp_group_agrees(whole_block(), threadIdx.x || !read))
		*place = CHANNEL_IS_READ;
	else
		*place = word_of(sync_load_packet(&g->place_low)); /* it stays until this channel has stored all */
	return true;
}

#endif
