/*
 * Pinned host memory between the kernels of a GPU and the proxy of their process (lib/net/proxy.h), which carries messages to and from
 * ranks of other nodes. Compiles as C and as CUDA.
 *
 * A lane is one ring of one channel, in one direction, between this rank and one peer: REMOTE_DEPTH slots and words that only grow. All
 * count the lane's messages since the communicator was made, so they need no epoch and nothing is reset between calls; message n, from 0,
 * lies in slot n mod REMOTE_DEPTH. A kernel fills slot n when n < free + REMOTE_DEPTH, then raises posted to n + 1; the proxy sends the
 * message. The peer's proxy writes n + 1 into the number of its slot when the message is whole there; the peer's kernel raises taken when
 * it has read it; then the proxy here raises free.
 *
 * A message of few bytes may lie in the line in front of its slot instead, in words that say themselves whether they are there (the LL of
 * NCCL): neither end waits for a fence, and the reader has the data with the word that it waits for. What arrives in few bytes lies in both
 * places.
 */
#ifndef REMOTE_H
#define REMOTE_H

#include <stdint.h>

#include "plan/plan_eval.h"

enum {
	REMOTE_CHANNELS = 8, /* of a plan at most */
	REMOTE_PAIRS = PLAN_MAX_RINGS, /* a ring of their own for sends, receives and all_to_all_v */
	REMOTE_RINGS,
	REMOTE_LANES = REMOTE_CHANNELS * REMOTE_RINGS,
	REMOTE_LANE_BYTES = 64 << 10, /* of such a message, from which it has another lane */
	REMOTE_DEPTH = 4,
	REMOTE_AHEAD =
	    REMOTE_DEPTH / 2, /* messages that a sender may be ahead of what it takes (lower_ahead) */
	REMOTE_SLOTS = 2 * REMOTE_LANES * REMOTE_DEPTH, /* of a peer, in both directions */
	REMOTE_LINE = 512 /* in front of a slot */
};

/* The words of a message of few bytes. */
enum remote_word {
	REMOTE_SIGNATURE,
	REMOTE_WHAT = REMOTE_SIGNATURE + 2,
	REMOTE_BYTES = REMOTE_WHAT + 2,
	REMOTE_FREE, /* the word `free` of the same lane, where the message arrives */
	REMOTE_DATA,
	REMOTE_WORDS = REMOTE_LINE / 8,
	REMOTE_FEW_BYTES = (REMOTE_WORDS - REMOTE_DATA) * 4
};

enum remote_direction { REMOTE_OUT, REMOTE_IN };

/* Written by kernels: posted, taken. Written by the proxy: free. */
struct remote_words {
	uint64_t posted[REMOTE_LANES], taken[REMOTE_LANES], free[REMOTE_LANES], pad[REMOTE_LANES];
};

/* Written by kernels: calls that have begun, and ended, on this GPU. */
struct remote_progress {
	uint64_t begun, ended;
};

/* In front of a message, in its slot and on the wire. */
struct remote_header {
	uint64_t
	    number; /* of the lane's messages, from 1; where one arrives it is written last: a kernel waits for it */
	uint64_t signature; /* of the collective that sends it */
	uint64_t what; /* of what has a count of its own: codelet_what, on which both ends agree */
	uint64_t bytes;
};

struct remote {
	unsigned char *memory; /* NULL: no rank is on another node */
	uint32_t slot_bytes; /* of a message at most; a multiple of REMOTE_LINE */
	int32_t peers; /* ranks of other nodes */
};

/* What stands beside each word of a message of few bytes: never the high half of a header's number. */
PLAN_FN uint32_t remote_flag(uint64_t number)
{
	return 1u << 31 | (uint32_t)number;
}

/* Words of a message of few bytes. */
PLAN_FN uint32_t remote_words_in(uint64_t bytes)
{
	return (uint32_t)REMOTE_DATA + ((uint32_t)bytes + 3) / 4;
}

PLAN_FN uint32_t remote_lane(uint32_t channel, uint32_t ring)
{
	return channel * (uint32_t)REMOTE_RINGS + ring;
}

/* Lanes that share a message of so many bytes, on both ends. */
PLAN_FN uint32_t remote_lanes_of(uint64_t bytes)
{
	const uint64_t lanes = bytes / REMOTE_LANE_BYTES + 1;
	return lanes < REMOTE_CHANNELS ? (uint32_t)lanes : (uint32_t)REMOTE_CHANNELS;
}

PLAN_FN struct remote_progress *remote_progress_of(const struct remote *r)
{
	return (struct remote_progress *)(void *)r->memory;
}

/* Of one peer: words, then all headers, then all slots. */
PLAN_FN uint64_t remote_peer_bytes(const struct remote *r)
{
	return sizeof(struct remote_words) + (uint64_t)REMOTE_SLOTS * (REMOTE_LINE + r->slot_bytes);
}

PLAN_FN uint64_t remote_bytes(const struct remote *r)
{
	return REMOTE_LINE + (uint64_t)(uint32_t)r->peers * remote_peer_bytes(r);
}

PLAN_FN struct remote_words *remote_words_of(const struct remote *r, int peer)
{
	return (struct remote_words *)(void *)(r->memory + REMOTE_LINE +
					       (uint64_t)(uint32_t)peer * remote_peer_bytes(r));
}

PLAN_FN uint32_t remote_slot(enum remote_direction direction, uint32_t lane, uint64_t message)
{
	return ((uint32_t)direction * REMOTE_LANES + lane) * REMOTE_DEPTH +
	       (uint32_t)(message % REMOTE_DEPTH);
}

PLAN_FN struct remote_header *remote_header_at(const struct remote *r, int peer,
					       enum remote_direction direction, uint32_t lane,
					       uint64_t message)
{
	return (struct remote_header *)(void *)((unsigned char *)(remote_words_of(r, peer) + 1) +
						(uint64_t)remote_slot(direction, lane, message) *
						    REMOTE_LINE);
}

PLAN_FN unsigned char *remote_data_at(const struct remote *r, int peer, enum remote_direction direction,
				      uint32_t lane, uint64_t message)
{
	return (unsigned char *)(remote_words_of(r, peer) + 1) + (uint64_t)REMOTE_SLOTS * REMOTE_LINE +
	       (uint64_t)remote_slot(direction, lane, message) * r->slot_bytes;
}

#endif
