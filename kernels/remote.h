/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned host memory between the kernels of a GPU and the proxy of their process (lib/net/proxy.h), which carries messages to and from
 * ranks of other nodes. Compiles as C and as CUDA.
 *
 * A connection is one queue of one channel between this rank and one peer. Each of its two ends here, one a direction, is opened when a call first
 * needs it, and stays: words that only grow, headers and slots, in one piece. All count the end's messages since the communicator was made,
 * so they need no epoch and nothing is reset between calls; message n, from 0, lies in slot n mod depth. A kernel fills slot n when n < free
 * + depth, then raises posted to n + 1; the proxy sends the message. The peer's proxy writes n + 1 into the number of its slot when the
 * message is whole there; the peer's kernel raises taken when it has read it; then the proxy here raises free.
 *
 * A message of few bytes may lie in front of its slot instead, in words that say themselves whether they are there (the LL of NCCL): neither
 * end waits for a fence, and the reader has the data with the word that it waits for. What arrives in few bytes lies in both places,
 * unless slots lie in a GPU's memory: there in front alone.
 *
 * Where an open end lies kernels read in a table in GPU memory, by peer, direction and index.
 */
#ifndef REMOTE_H
#define REMOTE_H

#include <stdint.h>

#include "plan/plan_eval.h"

enum {
	REMOTE_CHANNELS = 8, /* of a plan at most */
	REMOTE_SINGLE =
	    REMOTE_CHANNELS, /* the one channel of plans for whose messages there is no room on those */
	REMOTE_PAIRS = PLAN_MAX_QUEUES, /* a ring of their own for sends, receives and all_to_all_v */
	REMOTE_RINGS,
	REMOTE_ALL_CHANNELS = REMOTE_SINGLE + 1,
	REMOTE_CONNECTIONS = REMOTE_ALL_CHANNELS * REMOTE_RINGS,
	REMOTE_CHANNEL_BYTES = 64 << 10, /* of a send, from which it has another channel */
	REMOTE_LINE = 128,
	REMOTE_FRONT = 512 /* in front of a slot: a header, or a message of few bytes */
};

enum remote_direction { REMOTE_OUT, REMOTE_IN };

/* What a connection is for decides how large its slots are. */
enum remote_use { REMOTE_OF_PLANS, REMOTE_OF_SINGLE_CHANNEL, REMOTE_OF_PAIRS, REMOTE_USES };

/* One line. Written by kernels: posted, taken. Written by the proxy: free. */
struct remote_words {
	uint64_t posted, taken, pad[6];
	uint64_t free, more_pad[7];
};

/* Written by kernels: calls that have begun, and ended, on this GPU. */
struct remote_progress {
	uint64_t begun, ended;
};

/* In front of a message, in its slot and on the wire. */
struct remote_header {
	uint64_t number; /* among the connection's messages, from 1; where one arrives it is written last */
	uint64_t signature; /* of the collective that sends it */
	uint64_t typed_bytes; /* codelet_typed_bytes, of a message that has a count of its own */
	uint64_t bytes;
};

/* The words of a message of few bytes. */
enum remote_word {
	REMOTE_SIGNATURE,
	REMOTE_TYPED_BYTES = REMOTE_SIGNATURE + 2,
	REMOTE_BYTES = REMOTE_TYPED_BYTES + 2,
	REMOTE_DATA = REMOTE_BYTES + 2, /* a word between is zero */
	REMOTE_WORDS = REMOTE_FRONT / 8,
	REMOTE_FEW_BYTES = (REMOTE_WORDS - REMOTE_DATA) * 4
};

struct remote_slots {
	uint32_t bytes; /* of a message at most; a multiple of REMOTE_LINE */
	uint32_t depth; /* slots of an end; a power of two */
};

/* Equal on all ranks but for memory and peers. */
struct remote {
	unsigned char *memory; /* the progress, then ends; NULL: no rank is on another node */
	/* By channel: slots lie at the same offsets from here. memory, or a GPU's: kernels and the network reach that, no CPU does. */
	unsigned char *data[REMOTE_ALL_CHANNELS];
	struct remote_slots slots[REMOTE_USES];
	uint32_t pair_channels; /* of REMOTE_PAIRS */
	int32_t peers; /* ranks of other nodes */
};

/* Where an end lies, in lines from memory; 0: it is not open. */
typedef uint32_t remote_offset;

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

/* Messages that a sender may be ahead of what it takes (lower_ahead). */
PLAN_FN int remote_ahead(const struct remote_slots *s)
{
	return (int)s->depth / 2;
}

PLAN_FN uint32_t remote_index(uint32_t channel, uint32_t ring)
{
	return channel * (uint32_t)REMOTE_RINGS + ring;
}

PLAN_FN enum remote_use remote_use_of(uint32_t index)
{
	if (index % REMOTE_RINGS == REMOTE_PAIRS)
		return REMOTE_OF_PAIRS;
	return index / REMOTE_RINGS == REMOTE_SINGLE ? REMOTE_OF_SINGLE_CHANNEL : REMOTE_OF_PLANS;
}

PLAN_FN const struct remote_slots *remote_slots_of(const struct remote *r, uint32_t index)
{
	return &r->slots[remote_use_of(index)];
}

/* Channels that share a send of so many bytes, on both ends. */
PLAN_FN uint32_t remote_channels_of(const struct remote *r, uint64_t bytes)
{
	const uint64_t channels = bytes / REMOTE_CHANNEL_BYTES + 1;
	return channels < r->pair_channels ? (uint32_t)channels : r->pair_channels;
}

PLAN_FN struct remote_progress *remote_progress_of(const struct remote *r)
{
	return (struct remote_progress *)(void *)r->memory;
}

/* Of an end. */
PLAN_FN uint64_t remote_end_bytes(const struct remote_slots *s)
{
	return REMOTE_LINE + (uint64_t)s->depth * (REMOTE_FRONT + s->bytes);
}

/* Of an end in a table of offsets. */
PLAN_FN uint64_t remote_end_index(int peer, enum remote_direction direction, uint32_t index)
{
	return ((uint64_t)(uint32_t)peer * 2 + (uint32_t)direction) * REMOTE_CONNECTIONS + index;
}

PLAN_FN struct remote_words *remote_words_at(const struct remote *r, remote_offset offset)
{
	return (struct remote_words *)(void *)(r->memory + (uint64_t)offset * REMOTE_LINE);
}

PLAN_FN struct remote_header *remote_header_at(const struct remote *r, remote_offset offset,
					       const struct remote_slots *s, uint64_t message)
{
	return (struct remote_header *)(void *)(r->memory + ((uint64_t)offset + 1) * REMOTE_LINE +
						(message & (s->depth - 1)) * REMOTE_FRONT);
}

PLAN_FN unsigned char *remote_data_at(const struct remote *r, uint32_t index, remote_offset offset,
				      uint64_t message)
{
	const struct remote_slots *s = remote_slots_of(r, index);
	return r->data[index / REMOTE_RINGS] + ((uint64_t)offset + 1) * REMOTE_LINE +
	       (uint64_t)s->depth * REMOTE_FRONT + (message & (s->depth - 1)) * s->bytes;
}

/* Then a message of few bytes lies in front of its slot alone. */
PLAN_FN int remote_slots_are_apart(const struct remote *r, uint32_t index)
{
	return r->data[index / REMOTE_RINGS] != r->memory;
}

/* All channels' slots lie in memory from `data` on. */
PLAN_FN void remote_set_data(struct remote *r, unsigned char *data)
{
	for (int channel = 0; channel < REMOTE_ALL_CHANNELS; channel++)
		r->data[channel] = data;
}

#endif
