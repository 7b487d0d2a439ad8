/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <string.h>

#include "base/sort.h"

static int by_pair(const void *x, const void *y)
{
	const struct wave_call *a = x, *b = y;
	int ret = sort_differ(a->rank, b->rank);
	ret = ret ? ret : sort_differ(a->receives, b->receives);
	return ret ? ret : sort_differ(a->peer, b->peer);
}

static int by_pair_as_made(const void *x, const void *y)
{
	const struct wave_call *a = x, *b = y;
	const int ret = by_pair(a, b);
	return ret ? ret : sort_differ(a->order, b->order);
}

static int by_place(const struct wave_call *a, const struct wave_call *b)
{
	const int ret = sort_differ(a->before, b->before);
	return ret ? ret : sort_differ(a->distance, b->distance);
}

static int in_order(const void *x, const void *y)
{
	const struct wave_call *a = x, *b = y;
	int ret = by_place(a, b);
	ret = ret ? ret : sort_differ(a->rank, b->rank);
	return ret ? ret : sort_differ(a->receives, b->receives);
}

static void find_places(struct wave_call *calls, size_t n, int size)
{
	sort_items(calls, n, sizeof *calls, by_pair_as_made);
	for (size_t i = 0; i < n; i++) {
		struct wave_call *c = &calls[i];
		const int distance = c->receives ? c->rank - c->peer : c->peer - c->rank;
		c->before = i && !by_pair(c - 1, c) ? c[-1].before + 1 : 0;
		c->distance = (uint32_t)(distance < 0 ? distance + size : distance);
	}
	sort_items(calls, n, sizeof *calls, in_order);
}

/* How many of the first ones have the same place. */
static size_t count_equal(const struct wave_call *calls, size_t n)
{
	size_t equal = 1;
	while (equal < n && !by_place(&calls[0], &calls[equal]))
		equal++;
	return equal;
}

/* Adds them to what the wave has of each rank; false if one has more than `most` then. */
static int add(const struct wave_call *calls, size_t n, uint32_t *used, uint32_t most)
{
	int fits = 1;
	for (size_t i = 0; i < n; i++)
		fits &= ++used[calls[i].rank] <= most;
	return fits;
}

uint32_t waves_cut(struct wave_call *calls, size_t n, int size, uint32_t most, uint32_t *used)
{
	uint32_t wave = 0;
	find_places(calls, n, size);
	memset(used, 0, (size_t)size * sizeof *used);
	for (size_t i = 0, equal; i < n; i += equal) {
		equal = count_equal(&calls[i], n - i);
		if (!add(&calls[i], equal, used, most)) {
			wave++;
			memset(used, 0, (size_t)size * sizeof *used);
			add(&calls[i], equal, used, most);
		}
		for (size_t k = i; k < i + equal; k++)
			calls[k].wave = wave;
	}
	return wave + 1;
}
