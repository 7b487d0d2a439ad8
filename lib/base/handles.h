/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles that callers have of things of one kind. Whether a pointer is one is found without reading where it points to, and handles outlive what they stand
 * for, so a wrong one, or use after the end, is an error and not a crash: some words of each one ever made are the price.
 */
#ifndef HANDLES_H
#define HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HANDLE_BYTES = 64, /* a cache line: threads that are ranks write to theirs */
	HANDLES_FIRST = 64 /* in the first block; each further one has twice as many */,
	HANDLES_BLOCKS = 26
};

struct handles {
	_Atomic(char *) blocks[HANDLES_BLOCKS];
	pthread_mutex_t lock;
	size_t used; /* of the last block */
};

/* HANDLE_BYTES that are zero, aligned to as many, for good; NULL: no memory. */
void *handles_make(struct handles *handles);

/* Each in turn from index 0, with some that are not made yet and zero behind them; NULL: there are no more. Any thread. */
void *handles_at(struct handles *handles, size_t index);

/* 1: it came from handles_make. Any thread. */
static inline int handles_has(struct handles *handles, const void *handle)
{
	for (int b = 0; b < HANDLES_BLOCKS; b++) {
		const char *block = atomic_load_explicit(&handles->blocks[b], memory_order_acquire);
		const uintptr_t at = (uintptr_t)handle - (uintptr_t)block;
		if (!block || at < (uintptr_t)HANDLE_BYTES * HANDLES_FIRST << b)
			return block && at % HANDLE_BYTES == 0;
	}
	return 0;
}

#endif
