#include "recent.h"

#include <stdlib.h>

enum { RECENT_CALLS = 1024 }; /* as many as a stream holds, and more than a group may have */

struct recent {
	_Atomic uint32_t last;
	struct journal_entry calls[RECENT_CALLS];
};

struct recent *recent_create(void)
{
	return calloc(1, sizeof(struct recent));
}

uint32_t recent_add(struct recent *recent, const struct call *calls, int n)
{
	const uint32_t last = recent_last(recent);
	for (uint32_t i = 1; i <= (uint32_t)n; i++)
		journal_write(recent->calls, RECENT_CALLS, last + i, last + 1, &calls[i - 1].record);
	atomic_store_explicit(&recent->last, last + (uint32_t)n, memory_order_release);
	return last + 1;
}

uint32_t recent_last(const struct recent *recent)
{
	return atomic_load_explicit(&((struct recent *)(uintptr_t)recent)->last, memory_order_acquire);
}

/* The call of a number; *first: the first of those that started with it. False if it is not kept. */
static int read_kept(const struct recent *recent, uint32_t number, struct record *call, uint64_t *first)
{
	*first = journal_read(((struct recent *)(uintptr_t)recent)->calls, RECENT_CALLS, number, call);
	return *first != 0;
}

struct record recent_find(const struct recent *recent, uint32_t number, int peer)
{
	struct record named, call;
	uint64_t first;
	if (!read_kept(recent, number, &named, &first))
		return (struct record){ .coll = CORALE_NUM_COLLS };
	call = named;
	for (uint32_t next = number; first == number; next++) {
		if (call.root == peer)
			return call;
		if (!read_kept(recent, next + 1, &call, &first))
			break;
	}
	return named;
}

int recent_concerns(const struct recent *recent, int rank)
{
	struct record call;
	uint64_t first;
	if (!read_kept(recent, recent_last(recent), &call, &first) || !coll_is_pair(call.coll))
		return 1;
	return recent_find(recent, (uint32_t)first, rank).root == rank;
}
