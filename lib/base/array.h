/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that grow by doubling. */
#ifndef ARRAY_H
#define ARRAY_H

#include <stdlib.h>
#include <string.h>

/*
 * Makes an array, whose address array points to and which has *room items of so many bytes, large enough for n.
 * New items are not initialized. 0: there is no memory, and nothing has changed.
 */
static inline int array_grow(void *array, size_t *room, size_t n, size_t bytes)
{
	size_t wanted = *room ? *room : 64;
	void *items;
	if (n <= *room)
		return 1;
	while (wanted < n)
		wanted *= 2;
	memcpy(&items, array, sizeof(items));
	items = realloc(items, wanted * bytes);
	if (!items)
		return 0;
	memcpy(array, &items, sizeof(items));
	*room = wanted;
	return 1;
}

#endif
