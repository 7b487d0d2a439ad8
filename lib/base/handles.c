/* SPDX-License-Identifier: BSD-3-Clause */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

void *handles_make(struct handles *h)
{
	char *made = NULL;
	int b = -1;
	pthread_mutex_lock(&h->lock);
	while (b + 1 < HANDLES_BLOCKS && atomic_load(&h->blocks[b + 1]))
		b++;
	if (b < 0 || (h->used == (size_t)HANDLES_FIRST << b && b + 1 < HANDLES_BLOCKS)) {
		const size_t bytes = (size_t)HANDLE_BYTES * HANDLES_FIRST << (b + 1);
		char *block = aligned_alloc(HANDLE_BYTES, bytes);
		if (block) {
			atomic_store(&h->blocks[++b], memset(block, 0, bytes));
			h->used = 0;
		}
	}
	if (b >= 0 && h->used < (size_t)HANDLES_FIRST << b)
		made = atomic_load(&h->blocks[b]) + HANDLE_BYTES * h->used++;
	pthread_mutex_unlock(&h->lock);
	return made;
}

void *handles_at(struct handles *h, size_t index)
{
	int b = 0;
	for (; b < HANDLES_BLOCKS && index >= (size_t)HANDLES_FIRST << b; b++)
		index -= (size_t)HANDLES_FIRST << b;
	char *block = b < HANDLES_BLOCKS ? atomic_load(&h->blocks[b]) : NULL;
	return block ? block + HANDLE_BYTES * index : NULL;
}
