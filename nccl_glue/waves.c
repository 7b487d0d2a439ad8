/*
 * Corale starts a limited number of sends and receives of a rank at a time, NCCL any number. So those of a group go in waves, one behind
 * the other. Both ends of a message put it at the same place of one order of all messages of the communicator: by how many of the same
 * pair and direction come before it, then by the distance from sender to receiver. A wave takes the next ones of this order, and never
 * divides those of equal place, which are a send and a receive of each rank. Then no wave waits for a later one: of all messages that have
 * not ended, the first in the order has both of its ends in waves that have started. Ranks of one thread share their waves, because a
 * thread that waits for the end of a wave waits for all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "door.h"

struct place {
	uint32_t before, distance;
};

static struct place place_of(const struct door_call *c)
{
	const int rank = c->comm->rank, distance = c->coll == DOOR_SEND ? c->root - rank : rank - c->root;
	return (struct place){ c->before, (uint32_t)(distance < 0 ? distance + c->comm->size : distance) };
}

struct sorted {
	struct door_call call;
	struct place place;
};

static int compare(const void *x, const void *y)
{
	const struct sorted *a = x, *b = y;
	if (a->place.before != b->place.before)
		return a->place.before < b->place.before ? -1 : 1;
	if (a->place.distance != b->place.distance)
		return a->place.distance < b->place.distance ? -1 : 1;
	if (a->call.comm->rank != b->call.comm->rank)
		return a->call.comm->rank - b->call.comm->rank;
	return (a->call.coll == DOOR_RECV) - (b->call.coll == DOOR_RECV);
}

/* counts: [rank][direction][peer]. */
static void count_before(struct door_call *pairs, size_t n, int size, uint32_t *counts)
{
	for (size_t i = 0; i < n; i++) {
		const int row = 2 * pairs[i].comm->rank + (pairs[i].coll == DOOR_RECV);
		pairs[i].before = counts[row * size + pairs[i].root]++;
	}
}

static int same_place(const struct sorted *a, const struct sorted *b)
{
	return a->place.before == b->place.before && a->place.distance == b->place.distance;
}

/* How many of the first ones have the same place. */
static size_t count_equal(const struct sorted *s, size_t n)
{
	size_t equal = 1;
	while (equal < n && same_place(&s[0], &s[equal]))
		equal++;
	return equal;
}

/* Adds them to what the wave has of each rank; false if one has more than `most` then. */
static int add(const struct sorted *s, size_t n, uint32_t *used, uint32_t most)
{
	int fits = 1;
	for (size_t i = 0; i < n; i++)
		fits &= ++used[s[i].call.comm->rank] <= most;
	return fits;
}

uint32_t door_cut_waves(struct door_call *pairs, size_t n, uint32_t most)
{
	const size_t size = n ? (size_t)pairs->comm->size : 1;
	uint32_t *counts = calloc(2 * size * size, sizeof *counts), *used = calloc(size, sizeof *used),
		 wave = 0;
	struct sorted *sorted = malloc((n ? n : 1) * sizeof *sorted);
	if (!counts || !used || !sorted)
		goto free_all;
	count_before(pairs, n, (int)size, counts);
	for (size_t i = 0; i < n; i++)
		sorted[i] = (struct sorted){ pairs[i], place_of(&pairs[i]) };
	qsort(sorted, n, sizeof *sorted, compare);
	wave = 1;
	for (size_t i = 0, equal; i < n; i += equal) {
		equal = count_equal(&sorted[i], n - i);
		if (!add(&sorted[i], equal, used, most)) {
			wave++;
			memset(used, 0, size * sizeof *used);
			add(&sorted[i], equal, used, most);
		}
		for (size_t k = i; k < i + equal; k++) {
			pairs[k] = sorted[k].call;
			pairs[k].wave = wave - 1;
		}
	}
free_all:
	free(counts);
	free(used);
	free(sorted);
	return wave;
}
