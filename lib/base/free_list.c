/* SPDX-License-Identifier: BSD-3-Clause */
#include "free_list.h"

#include <stdlib.h>

struct free_block {
	_Alignas(ALIGN_LINE) struct free_block *next;
	size_t bytes; /* behind this header */
};

/* The first of at least so many bytes: where it is linked from. */
static struct free_block **find(struct free_list *list, size_t bytes)
{
	struct free_block **at = &list->first;
	while (*at && (*at)->bytes < bytes)
		at = &(*at)->next;
	return at;
}

static struct free_block *unlink_block(struct free_block **at)
{
	struct free_block *block = *at;
	*at = block->next;
	return block;
}

static void drop(struct free_list *list, struct free_block *block)
{
	atomic_fetch_sub_explicit(&list->bytes, block->bytes, memory_order_relaxed);
	free(block);
}

static struct free_block *make(struct free_list *list, size_t bytes)
{
	struct free_block *block = NULL;
	if (posix_memalign((void **)&block, ALIGN_LINE, sizeof *block + bytes))
		return NULL;
	block->bytes = bytes;
	atomic_fetch_add_explicit(&list->bytes, bytes, memory_order_relaxed);
	return block;
}

void *free_list_take(struct free_list *list, size_t bytes)
{
	bytes = ALIGN_ROUND(bytes);
	struct free_block **at = find(list, bytes);
	struct free_block *block = *at ? unlink_block(at) : NULL;
	if (!block) {
		if (list->first)
			drop(list, unlink_block(&list->first));
		block = make(list, bytes);
	}
	return block ? block + 1 : NULL;
}

void free_list_give(struct free_list *list, void *memory)
{
	if (!memory)
		return;
	struct free_block *block = (struct free_block *)memory - 1;
	if (atomic_load_explicit(&list->bytes, memory_order_relaxed) > list->most) {
		drop(list, block);
		return;
	}
	struct free_block **at = find(list, block->bytes);
	block->next = *at;
	*at = block;
}

void free_list_close(struct free_list *list)
{
	while (list->first)
		drop(list, unlink_block(&list->first));
}
