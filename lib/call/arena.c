/* SPDX-License-Identifier: BSD-3-Clause */
#include "arena.h"

#include <pthread.h>
#include <stdlib.h>

enum { FIRST_BYTES = 4 << 10, KEPT_BYTES = 64 << 20 /* a thread keeps no more than that */ };

struct arena_block {
	_Alignas(ALIGN_LINE) struct arena_block *below;
	size_t bytes, used; /* behind this header */
};

static _Thread_local struct arena_block *top;
static _Thread_local size_t held, peak; /* bytes of all blocks; the most so far */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int has_key;

static void pop_until(const struct arena_block *last)
{
	while (top != last) {
		struct arena_block *below = top->below;
		held -= top->bytes;
		free(top);
		top = below;
	}
}

static void free_all(void *unused)
{
	(void)unused;
	pop_until(NULL);
}

static void make_key(void)
{
	has_key = !pthread_key_create(&key, free_all);
}

static struct arena_block *push(size_t bytes)
{
	pthread_once(&once, make_key);
	struct arena_block *block = NULL;
	if (!has_key || pthread_setspecific(key, &top) ||
	    posix_memalign((void **)&block, ALIGN_LINE, sizeof *block + bytes))
		return NULL;
	*block = (struct arena_block){ top, bytes, 0 };
	top = block;
	held += bytes;
	peak = held > peak ? held : peak;
	return block;
}

struct arena_mark arena_mark(void)
{
	return (struct arena_mark){ top, top ? top->used : 0 };
}

void *arena_take(size_t bytes)
{
	bytes = ALIGN_ROUND(bytes);
	if (!top || bytes > top->bytes - top->used) {
		const size_t doubled = top ? 2 * top->bytes : FIRST_BYTES;
		if (!push(bytes > doubled ? bytes : doubled))
			return NULL;
	}
	void *taken = (char *)(top + 1) + top->used;
	top->used += bytes;
	return taken;
}

void arena_release(struct arena_mark mark)
{
	pop_until(mark.block);
	if (top)
		top->used = mark.used;
	if (held == peak || (top && (top->used || top->below)))
		return;
	const size_t bytes = peak; /* nothing is taken: one block for as much again */
	pop_until(NULL);
	peak = 0;
	if (bytes <= KEPT_BYTES)
		push(bytes);
}
