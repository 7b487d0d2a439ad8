/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a thread for what lives no longer than a group: taken piece by piece, given back all at once. The thread keeps it, so a group
 * like an earlier one allocates nothing.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>

#include "base/free_list.h"

struct arena_block;

/* How much the thread has taken. */
struct arena_mark {
	struct arena_block *block;
	size_t used;
};

/* Take something next: while nothing is taken, arena_release may give a thread's blocks back, and with them the one of an outer mark. */
struct arena_mark arena_mark(void);

/* Of this thread, aligned for any type and a cache line. NULL: no memory; nothing is logged. */
void *arena_take(size_t bytes);

/* Gives back what was taken since the mark. */
void arena_release(struct arena_mark mark);

#endif
