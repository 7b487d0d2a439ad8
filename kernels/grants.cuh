/*
 * Rendezvous of messages longer than the rings of lines hold. When a receiver comes to such a message it grants each channel a place to store:
 * its registered buffer; the rings; or slots where these are faster, all of which then belong to such messages. Its slots are empty when its
 * kernel begins, because every call takes out what came in its slots, and no sender stores for the next call before the receiver grants it.
 */
#ifndef GRANTS_CUH
#define GRANTS_CUH

#include "fifo.cuh"

/* Set by the receiver in the sender's window. */
__device__ static inline codelet_grant *grant_of(const codelet_p2p &e, uint32_t channel, int sender, int receiver)
{
	codelet_grant *all = (codelet_grant *)(window_of(e.group.args, sender) + e.grants);
	return all + (uint32_t)receiver * CODELET_CHANNELS + channel;
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

/* All channels of block `number` of the list's. */
__device__ static inline void grant_channels(const codelet_p2p &e, const codelet_message &m, uint64_t place, uint32_t channels, uint32_t number,
					  uint32_t blocks, const connection &conn)
{
	for (uint32_t channel = number + threadIdx.x * blocks; channel < channels; channel += blockDim.x * blocks)
		grant_channel(e, m, place, channel, conn);
}

__device__ static inline bool is_here(const connection &conn, vector packet)
{
	return packet.y == (uint32_t)conn.epoch && packet.w == packet.y;
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

/* The whole block: waits for the grant of a channel. */
__device__ static inline bool await_grant(const codelet_p2p &e, const codelet_message &m, connection *conn, uint64_t *place)
{
	const codelet_args &a = e.group.args;
	const codelet_grant *g = grant_of(e, conn->number, a.rank, m.peer);
	if (!warp_group_agrees(whole_block(), threadIdx.x || wait_ready(a, conn, m.peer, [&] { return is_granted(a, m, *conn, g); })))
		return false;
	*place = word_of(sync_load_packet(&g->place_low)); /* it stays until this channel has stored all */
	return true;
}

#endif
