/*
 * Corale starts a limited number of sends and receives at a time, NCCL any number. So those of a group go in waves, one behind the other
 * on the stream. Both ends of a message put it at the same place of one order of all messages of the communicator: by how many of
 * the same pair and direction come before it, then by the distance from sender to receiver. A wave takes the next ones of this
 * order, and never divides those of equal place, which are a send and a receive. Then no wave waits for a later one: of all messages
 * that have not ended, the first in the order has both of its ends in waves that have started.
 */
#include <stdlib.h>

#include "door.h"

struct place {
	uint32_t before, distance;
};

static struct place place_of(const struct door_call *c, int rank, int size)
{
	int distance = c->coll == DOOR_SEND ? c->root - rank : rank - c->root;
	return (struct place){ c->before, (uint32_t)(distance < 0 ? distance + size : distance) };
}

/* rank and size for the comparison. */
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
	return (a->call.coll == DOOR_RECV) - (b->call.coll == DOOR_RECV);
}

/* counts: [2 x size], by direction and peer. */
static void count_before(struct door_call *pairs, size_t n, int size, uint32_t *counts)
{
	for (size_t i = 0; i < n; i++)
		pairs[i].before = counts[(pairs[i].coll == DOOR_RECV) * size + pairs[i].root]++;
}

static int same_place(const struct sorted *a, const struct sorted *b)
{
	return a->place.before == b->place.before && a->place.distance == b->place.distance;
}

uint32_t door_cut_waves(struct door_call *pairs, size_t n, int rank, int size, uint32_t most)
{
	uint32_t *counts = calloc(2 * (size_t)size, sizeof *counts), wave = 0, used = 0;
	struct sorted *sorted = malloc((n ? n : 1) * sizeof *sorted);
	if (!counts || !sorted) {
		free(counts);
		free(sorted);
		return 0;
	}
	count_before(pairs, n, size, counts);
	for (size_t i = 0; i < n; i++)
		sorted[i] = (struct sorted){ pairs[i], place_of(&pairs[i], rank, size) };
	qsort(sorted, n, sizeof *sorted, compare);
	for (size_t i = 0, equal; i < n; i += equal) {
		equal = i + 1 < n && same_place(&sorted[i], &sorted[i + 1]) ? 2 : 1;
		if (used + equal > most) {
			wave++;
			used = 0;
		}
		for (size_t k = i; k < i + equal; k++) {
			pairs[k] = sorted[k].call;
			pairs[k].wave = wave;
		}
		used += (uint32_t)equal;
	}
	free(counts);
	free(sorted);
	return wave + 1;
}
