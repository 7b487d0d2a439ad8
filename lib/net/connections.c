/* SPDX-License-Identifier: BSD-3-Clause */
#include "connections.h"

enum {
	EIGHTHS_OF_PAIRS = 3,
	EIGHTHS_OF_SINGLE = 1,
	EIGHTHS_OF_PLANS = 4,
	QUEUES_OF_PLANS = 2, /* that a plan uses between nodes; few use more */
	/* Many slots that UCX sends without a handshake fill a network best. With fewer than four, each message costs a credit. */
	DEEPEST = 32,
	DEEP = 8,
	DEPTH = 4,
	SHALLOW = 2,
	LEAST_OF_SMALL = 3 << 10,
	LEAST_OF_LISTS = 2 << 10,
	MOST_SINGLES = 16, /* nodes of one rank */
	WANTED = 16 << 10,
	MOST = 64 << 10
};

static size_t share(enum remote_use use, size_t cap)
{
	const size_t eighths[] = { [REMOTE_OF_PLANS] = EIGHTHS_OF_PLANS,
				   [REMOTE_OF_SINGLE_CHANNEL] = EIGHTHS_OF_SINGLE,
				   [REMOTE_OF_PAIRS] = EIGHTHS_OF_PAIRS };
	return (cap - REMOTE_LINE) / 8 * eighths[use];
}

/* The largest slots with which so many ends have room, a grain at least. With that minimum not all ends can be open at a time. */
static struct remote_slots cut(size_t bytes, size_t ends, uint32_t depth, size_t grain)
{
	const size_t end = bytes / ends, heads = REMOTE_LINE + (size_t)depth * REMOTE_FRONT;
	size_t slot = end > heads ? (end - heads) / depth / grain * grain : 0;
	slot = slot > MOST ? MOST : slot;
	return (struct remote_slots){ (uint32_t)(slot > grain ? slot : grain), depth };
}

static int log2_up(int n)
{
	int bits = 0;
	while (1 << bits < n)
		bits++;
	return bits;
}

/*
 * With how many ranks of other nodes a rank exchanges large messages. Plans that know nodes have rings, trees and doubling among one rank of each node;
 * where nodes differ in size a rank may stand for several. Plans that ignore nodes, for nodes of one rank, have messages between all ranks: with more
 * than MOST_SINGLES nodes their slots would be too short.
 */
static size_t few_peers(int nodes, int most_each, int stands_for, int peers)
{
	const int doubling = 2 * log2_up(nodes), all = most_each == 1 && nodes <= MOST_SINGLES,
		  few = (nodes - 1 < doubling || all ? nodes - 1 : doubling) * stands_for;
	return (size_t)(few < peers ? few : peers);
}

static struct remote_slots deep_or_not(size_t bytes, size_t ends, size_t grain)
{
	const struct remote_slots deep = cut(bytes, ends, DEEP, grain);
	return deep.bytes == MOST ? deep : cut(bytes, ends, DEPTH, grain);
}

static struct remote_slots slots_of_lists(size_t bytes, size_t ends)
{
	const struct remote_slots slots = deep_or_not(bytes, ends, PLAN_CHUNK_GRAIN);
	return slots.bytes >= LEAST_OF_LISTS ? slots : cut(bytes, ends, SHALLOW, PLAN_CHUNK_GRAIN);
}

/* Small calls between nodes of one rank have as many slots as fit: in trees and rounds messages go one way, so credits are messages of their own. There is one
 * for each half of the slots, and it costs as much as a small message. */
static struct remote_slots slots_of_singles(size_t bytes, size_t ends)
{
	for (uint32_t depth = DEEPEST; depth > DEEP; depth /= 2) {
		const struct remote_slots slots = cut(bytes, ends, depth, PLAN_CHUNK_GRAIN);
		if (slots.bytes >= LEAST_OF_SMALL)
			return slots;
	}
	return slots_of_lists(bytes, ends);
}

static struct remote_slots slots_of_pairs(size_t bytes, size_t peers, uint32_t *channels)
{
	struct remote_slots slots;
	for (*channels = REMOTE_CHANNELS;; *channels /= 2) {
		slots = deep_or_not(bytes, 2 * peers * *channels, REMOTE_LINE);
		if (slots.bytes >= WANTED)
			return slots;
		if (*channels == 1)
			return cut(bytes, 2 * peers, SHALLOW, REMOTE_LINE);
	}
}

struct remote connections_shape(int ranks, int nodes, int most_each, int least_each, size_t cap)
{
	const int peers = ranks - least_each, stands_for = (most_each + least_each - 1) / least_each;
	struct remote r = { .peers = peers };
	const size_t all = (size_t)peers, far = all < CONNECTIONS_FAR ? all : CONNECTIONS_FAR,
		     single = share(REMOTE_OF_SINGLE_CHANNEL, cap), ends = 2 * far * PLAN_MAX_QUEUES;
	r.slots[REMOTE_OF_PLANS] =
	    slots_of_lists(share(REMOTE_OF_PLANS, cap), 2 * few_peers(nodes, most_each, stands_for, peers) *
							    REMOTE_CHANNELS * QUEUES_OF_PLANS);
	r.slots[REMOTE_OF_SINGLE_CHANNEL] =
	    most_each == 1 ? slots_of_singles(single, ends) : slots_of_lists(single, ends);
	r.slots[REMOTE_OF_PAIRS] = slots_of_pairs(share(REMOTE_OF_PAIRS, cap), all, &r.pair_channels);
	return r;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t connections_bytes(const struct remote *r, size_t cap)
{
	const size_t peers = 2 * (size_t)r->peers; /* in both directions */
	size_t bytes = REMOTE_LINE;
	bytes += smaller(share(REMOTE_OF_PLANS, cap), peers * REMOTE_CHANNELS * PLAN_MAX_QUEUES *
							  remote_end_bytes(&r->slots[REMOTE_OF_PLANS]));
	bytes += smaller(share(REMOTE_OF_SINGLE_CHANNEL, cap),
			 peers * PLAN_MAX_QUEUES * remote_end_bytes(&r->slots[REMOTE_OF_SINGLE_CHANNEL]));
	return bytes + peers * r->pair_channels * remote_end_bytes(&r->slots[REMOTE_OF_PAIRS]);
}

size_t connections_ends(const struct remote *r, enum remote_use use, size_t cap)
{
	return share(use, cap) / remote_end_bytes(&r->slots[use]);
}

size_t connections_least_cap(int peers)
{
	const struct remote_slots least = { REMOTE_LINE, SHALLOW };
	const size_t pairs = 2 * (size_t)peers * remote_end_bytes(&least);
	return (pairs + EIGHTHS_OF_PAIRS - 1) / EIGHTHS_OF_PAIRS * 8 + REMOTE_LINE;
}
