/* SPDX-License-Identifier: BSD-3-Clause */
/* The data that ranks send each other in a call, byte by byte, whatever carried it. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stddef.h>

enum { TRAFFIC_EXCHANGES = 2 /* of a call: parts are scattered, results gathered */ };

struct traffic {
	int ranks;
	size_t bytes; /* of a block or vector: places in it are where data goes */
	unsigned char *data,
	    *times; /* of each exchange and ordered pair: the bytes, and how often each was sent */
};

struct traffic *traffic_new(int ranks, size_t bytes);
void traffic_free(struct traffic *traffic);

/* Adds bytes that one rank sends another. 0, or -1: they do not lie in the block. */
int traffic_add(struct traffic *traffic, int exchange, int from, int to, size_t at, const void *data,
		size_t bytes);

/* Bytes that one rank sends another, in all exchanges. */
size_t traffic_sent(const struct traffic *traffic, int from, int to);

/* Place `at` of a pair's bytes. */
const unsigned char *traffic_data(const struct traffic *traffic, int exchange, int from, int to, size_t at);

/* Bytes that are not sent, sent besides, sent more often or with another value than planned. Prints the first ones. */
int traffic_compare(const struct traffic *seen, const struct traffic *planned);

/* Whether both are the same, without a word. */
int traffic_equal(const struct traffic *a, const struct traffic *b);

/*
 * Where the root deals out a vector that its receivers pass on, the plan and a codelet may deal it otherwise. Renames, for every
 * byte that the root sends but one rank in the first exchange, that rank to the first one behind the root, and the others by their
 * distance from it.
 */
void traffic_forget_owners(struct traffic *traffic, int root);

#endif
