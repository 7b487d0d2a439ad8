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
#include "shared.cuh"

/* An edge of a collective that its receiver may read goes as a message of a pair does, with the pair's count of messages. */
__device__ static inline bool is_pair_of_call(const codelet_group &g, const codelet_message &m)
{
	return !m.from && codelet_may_be_read(&g, m.bytes);
}

/* A channel's acknowledgement that its receiver has read all: this number no other one has before data were sent. */
enum { READ_NUMBER = 1 };

/* Between this rank and a peer: words that lie in the window of the one and are set by the other. */
__device__ static inline codelet_channel_words *channel_words(const codelet_args &a, uint64_t area, int window, int peer, uint32_t channel)
{
	const uint32_t at = polled_at<CODELET_CHANNELS, sizeof(codelet_channel_words)>(a, channel);
	return (codelet_channel_words *)(window_of(a, window) + area) + (uint32_t)peer * CODELET_CHANNELS + at;
}

__device__ static inline const codelet_channel_words *grant_here(const codelet_p2p &e, const codelet_message &m, uint32_t channel)
{
	return channel_words(e.group.args, e.grants, e.group.args.rank, m.peer, channel);
}

/* One thread: what this rank says of a channel. */
__device__ static inline void say_words(const codelet_p2p &e, const codelet_message &m, uint32_t channel, const connection &conn, uint64_t first, uint64_t second)
{
	const codelet_args &a = e.group.args;
	codelet_channel_words *words = channel_words(a, m.sending ? e.message_refs : e.grants, m.peer, a.rank, channel);
	sync_store_packet(words->first, epoch_packet(first, conn.epoch));
	sync_store_packet(words->second, epoch_packet(second, conn.epoch));
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
	const bool first = &m == e.messages || !(&m)[-1].more;
	if (!first)
		sync_fence(); /* others of the block have read these slots */
	say_words(e, m, channel, conn, grant_of_channel(e, m, place, channel), codelet_typed_bytes(&m));
}

/* One thread of the sender, before its call has failed: where a channel's message lies, as long as its export may be named. */
__device__ static inline void store_ref(const codelet_p2p &e, const codelet_message &m, uint32_t channel, const connection &conn)
{
	const codelet_args &a = e.group.args;
	const uint64_t named = e.places[&m - e.messages], number = is_usable(a, named) ? named : 0;
	const uint64_t offset = number ? (uint64_t)(m.data - export_at(a, a.rank, number % EXPORTS_ROOM)) : 0;
	say_words(e, m, channel, conn, ref_word({ number, offset }), number);
}

/* All channels of block `number` of the list's. */
template <class Say> __device__ static inline void say_channels(uint32_t channels, uint32_t number, uint32_t blocks, Say say)
{
	for (uint32_t channel = number + threadIdx.x * blocks; channel < channels; channel += blockDim.x * blocks)
		say(channel);
}

/*
 * One thread of the receiver: whether the sender has said where a channel's message lies, and has not given up since. Then *from is where it lies here, NULL: in no export that
 * is open.
 */
__device__ static inline bool ref_is_here(const codelet_p2p &e, const codelet_message &m, const connection &conn, const unsigned char **from)
{
	const codelet_args &a = e.group.args;
	const codelet_channel_words *r = channel_words(a, e.message_refs, a.rank, m.peer, conn.number);
	const vector at = sync_load_packet(r->first), number = sync_load_packet(r->second);
	if (!header_is_of(at, conn.epoch) || !header_is_of(number, conn.epoch))
		return false;
	sync_fence();
	const bool open = word_of(number) && opened_up_to(a, m.peer) >= word_of(number);
	*from = open ? open_at(a, m.peer, word_of(at)) : nullptr;
	return abort_word(a) == 0;
}

/* One thread: whether a channel is granted, and then the place. A grant of another count or type is none: the receiver ends the call. Both words are loaded at one time. */
__device__ static inline bool is_granted(const codelet_args &a, const codelet_message &m, const connection &conn, const codelet_channel_words *g, uint64_t *place)
{
	const vector first = sync_load_packet(g->first), typed_bytes = sync_load_packet(g->second);
	if (kernel_aborted(a) || !header_is_of(first, conn.epoch) || !header_is_of(typed_bytes, conn.epoch) ||
	    word_of(typed_bytes) != codelet_typed_bytes(&m))
		return false;
	sync_fence();
	*place = word_of(first);
	return true;
}

enum { CHANNEL_IS_READ = 1 /* a place that is none: its receiver has read the channel */ };

/* The whole block, whose first thread waits for the grant of a channel, or until its receiver has read it. */
__device__ static inline bool await_grant(const codelet_p2p &e, const codelet_message &m, connection *conn, uint64_t *place)
{
	const codelet_args &a = e.group.args;
	const codelet_channel_words *g = grant_here(e, m, conn->number);
	const uint64_t *ack = codelet_may_be_read(&e.group, m.bytes) ? ack_of(a, *conn, a.rank, m.peer) : nullptr;
	uint64_t *found = shared_object<uint64_t>();
	auto ready = [&] {
		if (!ack || sync_load_acquire(ack) < flag_value(*conn, READ_NUMBER))
			return is_granted(a, m, *conn, g, found);
		*found = CHANNEL_IS_READ;
		return true;
	};
	if (!warp_group_agrees(whole_block(), threadIdx.x || wait_ready(a, conn, m.peer, ready)))
		return false;
	*place = *found;
	__syncthreads(); /* the next message's may be found */
	return true;
}

#endif
