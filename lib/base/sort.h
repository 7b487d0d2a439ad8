/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting in place: qsort allocates memory for more than a kilobyte, which the path of a call must not. */
#ifndef SORT_H
#define SORT_H

#include <stddef.h>
#include <stdint.h>

enum { SORT_MOST_BYTES = 256 }; /* of an item */

/* As compare of qsort. */
static inline int sort_differ(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Heapsort. compare as for qsort; items that it finds equal get any order. */
void sort_items(void *items, size_t n, size_t bytes, int (*compare)(const void *, const void *));
/* compare of doubles. */
int sort_by_value(const void *a, const void *b);
/* The middle one of n > 0 values, which are sorted. */
double sort_median(double *values, size_t n);

#endif
