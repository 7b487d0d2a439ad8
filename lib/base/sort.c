/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort.h"

#include <string.h>

struct heap {
	char *items;
	size_t bytes;
	int (*compare)(const void *, const void *);
};

static char *item(const struct heap *h, size_t i)
{
	return h->items + i * h->bytes;
}

static void swap(const struct heap *h, size_t i, size_t j)
{
	char held[SORT_MOST_BYTES];
	memcpy(held, item(h, i), h->bytes);
	memcpy(item(h, i), item(h, j), h->bytes);
	memcpy(item(h, j), held, h->bytes);
}

/* Item i goes down to its place in a heap of n. */
static void sift(const struct heap *h, size_t i, size_t n)
{
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && h->compare(item(h, child), item(h, child + 1)) < 0)
			child++;
		if (h->compare(item(h, i), item(h, child)) >= 0)
			return;
		swap(h, i, child);
	}
}

void sort_items(void *items, size_t n, size_t bytes, int (*compare)(const void *, const void *))
{
	const struct heap h = { items, bytes, compare };
	for (size_t i = n / 2; i > 0; i--)
		sift(&h, i - 1, n);
	for (size_t end = n; end > 1; end--) {
		swap(&h, 0, end - 1);
		sift(&h, 0, end - 1);
	}
}

int sort_by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double sort_median(double *values, size_t n)
{
	sort_items(values, n, sizeof *values, sort_by_value);
	return values[n / 2];
}
