/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps and compares the bytes that ranks send each other in a call, whatever carries them. */
#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PRINTED = 4 };

static size_t index_of(const struct traffic *t, int exchange, int from, int to, size_t at)
{
	size_t ranks = (size_t)t->ranks;
	return (((size_t)exchange * ranks + (size_t)from) * ranks + (size_t)to) * t->bytes + at;
}

struct traffic *traffic_new(int ranks, size_t bytes)
{
	struct traffic *t = malloc(sizeof(*t));
	size_t all = TRAFFIC_EXCHANGES * (size_t)(ranks * ranks) * bytes;
	if (!t)
		abort();
	*t = (struct traffic){ ranks, bytes, calloc(all + 1, 1), calloc(all + 1, 1) };
	if (!t->data || !t->times)
		abort();
	return t;
}

void traffic_free(struct traffic *t)
{
	free(t->data);
	free(t->times);
	free(t);
}

size_t traffic_sent(const struct traffic *t, int from, int to)
{
	size_t sum = 0;
	for (int exchange = 0; exchange < TRAFFIC_EXCHANGES; exchange++)
		for (size_t at = 0; at < t->bytes; at++)
			sum += t->times[index_of(t, exchange, from, to, at)] != 0;
	return sum;
}

int traffic_add(struct traffic *t, int exchange, int from, int to, size_t at, const void *data, size_t bytes)
{
	if (at > t->bytes || bytes > t->bytes - at)
		return -1;
	size_t first = index_of(t, exchange, from, to, at);
	if (bytes)
		memcpy(t->data + first, data, bytes);
	for (size_t i = first; i < first + bytes; i++)
		t->times[i] = (unsigned char)(t->times[i] < 255 ? t->times[i] + 1 : 255);
	return 0;
}

const unsigned char *traffic_data(const struct traffic *t, int exchange, int from, int to, size_t at)
{
	return t->data + index_of(t, exchange, from, to, at);
}

static int compare_pair(const struct traffic *seen, const struct traffic *planned, int exchange, int from,
			int to, int *printed)
{
	int faults = 0;
	for (size_t at = 0; at < seen->bytes; at++) {
		size_t i = index_of(seen, exchange, from, to, at);
		int same_times = seen->times[i] == planned->times[i];
		if (same_times && seen->data[i] == planned->data[i])
			continue;
		faults++;
		if ((*printed)++ >= MOST_PRINTED)
			continue;
		printf("# rank %d to rank %d, exchange %d, byte %zu: sent %d times, last as 0x%02x; "
		       "planned %d times, 0x%02x\n",
		       from, to, exchange + 1, at, seen->times[i], seen->data[i], planned->times[i],
		       planned->data[i]);
	}
	return faults;
}

int traffic_compare(const struct traffic *seen, const struct traffic *planned)
{
	int faults = 0, printed = 0;
	for (int exchange = 0; exchange < TRAFFIC_EXCHANGES; exchange++)
		for (int from = 0; from < seen->ranks; from++)
			for (int to = 0; to < seen->ranks; to++)
				faults += compare_pair(seen, planned, exchange, from, to, &printed);
	return faults;
}

int traffic_equal(const struct traffic *a, const struct traffic *b)
{
	size_t all = index_of(a, TRAFFIC_EXCHANGES, 0, 0, 0);
	return !memcmp(a->times, b->times, all) && !memcmp(a->data, b->data, all);
}

/* Whom the root sends a byte in the first exchange; -1: nobody, or several. */
static int owner_of(const struct traffic *t, int root, size_t at)
{
	int owner = -1, times = 0;
	for (int r = 0; r < t->ranks; r++) {
		if (!t->times[index_of(t, 0, root, r, at)])
			continue;
		owner = r;
		times++;
	}
	return times == 1 ? owner : -1;
}

/* Behind the root the owner comes first, then who comes behind it but for the root. */
static int renamed(int rank, int owner, int root, int ranks)
{
	if (rank == root)
		return root;
	int place = (rank - root + ranks) % ranks - 1, first = (owner - root + ranks) % ranks - 1;
	return (root + 1 + (place - first + ranks - 1) % (ranks - 1)) % ranks;
}

void traffic_forget_owners(struct traffic *t, int root)
{
	struct traffic *old = traffic_new(t->ranks, t->bytes);
	size_t all = index_of(t, TRAFFIC_EXCHANGES, 0, 0, 0);
	memcpy(old->data, t->data, all);
	memcpy(old->times, t->times, all);
	for (size_t at = 0; at < t->bytes; at++) {
		int owner = owner_of(old, root, at);
		for (int i = 0; owner >= 0 && i < TRAFFIC_EXCHANGES * t->ranks * t->ranks; i++) {
			int exchange = i / t->ranks / t->ranks, from = i / t->ranks % t->ranks,
			    to = i % t->ranks;
			size_t then = index_of(old, exchange, from, to, at);
			size_t now = index_of(t, exchange, renamed(from, owner, root, t->ranks),
					      renamed(to, owner, root, t->ranks), at);
			t->data[now] = old->data[then];
			t->times[now] = old->times[then];
		}
	}
	traffic_free(old);
}
