/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is used again: blocks that were given back are kept for later ones of up to their size. So who takes and gives back the same
 * sizes as before allocates nothing. By one thread at a time.
 */
#ifndef FREE_LIST_H
#define FREE_LIST_H

#include <stdatomic.h>
#include <stddef.h>

/* Memory that is handed out in pieces: each begins at a cache line, which is also aligned for any type. */
enum { ALIGN_LINE = 64 };
#define ALIGN_ROUND(bytes) (((bytes) + ALIGN_LINE - 1) / ALIGN_LINE * ALIGN_LINE)

struct free_block;

/* All zero but for most: an empty list. */
struct free_list {
	struct free_block *first; /* the smallest */
	size_t most; /* bytes: while there are more, blocks that are given back are freed */
	_Atomic size_t bytes; /* of all blocks, those that are taken included; any thread may read it */
};

/* The smallest kept block that suffices, else a new one in place of the smallest; aligned for any type and a cache line. NULL: no memory;
 * nothing is logged. */
void *free_list_take(struct free_list *list, size_t bytes);

/* NULL is nothing. */
void free_list_give(struct free_list *list, void *memory);

/* Frees what is kept. */
void free_list_close(struct free_list *list);

#endif
