/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_health.h"

#include <stdlib.h>

enum { GPU_JOURNAL_CALLS = 1024 }; /* as many as a stream holds, and more than a group may have */

struct gpu_journal {
	_Atomic uint32_t last;
	struct journal_entry calls[GPU_JOURNAL_CALLS];
};

struct gpu_journal *gpu_journal_create(void)
{
	return calloc(1, sizeof(struct gpu_journal));
}

uint32_t gpu_journal_add(struct gpu_journal *journal, const struct call *calls, int n)
{
	const uint32_t last =
	    atomic_load_explicit(&journal->last, memory_order_relaxed); /* this thread alone adds */
	for (uint32_t i = 1; i <= (uint32_t)n; i++)
		journal_write(journal->calls, GPU_JOURNAL_CALLS, last + i, last + 1, &calls[i - 1].record);
	atomic_store_explicit(&journal->last, last + (uint32_t)n, memory_order_release);
	return last + 1;
}

uint32_t gpu_journal_last(const struct gpu_journal *journal)
{
	return atomic_load_explicit(&((struct gpu_journal *)(uintptr_t)journal)->last, memory_order_acquire);
}

/* The call of a number; *first: the first of those that started with it. False if it is not kept. */
static int read_kept(const struct gpu_journal *journal, uint32_t number, struct record *call, uint64_t *first)
{
	*first =
	    journal_read(((struct gpu_journal *)(uintptr_t)journal)->calls, GPU_JOURNAL_CALLS, number, call);
	return *first != 0;
}

struct record gpu_journal_find(const struct gpu_journal *journal, uint32_t number, int peer)
{
	struct record named, call;
	uint64_t first;
	if (!read_kept(journal, number, &named, &first))
		return (struct record){ .coll = CORALE_NUM_COLLS };
	call = named;
	for (uint32_t next = number; first == number; next++) {
		if (call.root == peer)
			return call;
		if (!read_kept(journal, next + 1, &call, &first))
			break;
	}
	return named;
}

int gpu_journal_concerns(const struct gpu_journal *journal, int rank)
{
	struct record call;
	uint64_t first;
	if (!read_kept(journal, gpu_journal_last(journal), &call, &first) || !coll_is_pair(call.coll))
		return 1;
	return gpu_journal_find(journal, (uint32_t)first, rank).root == rank;
}
