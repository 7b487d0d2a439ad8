#include "recent.h"

#include <stdlib.h>

enum { RECENT_CALLS = 1024 }; /* as many as a stream holds, and more than a group may have */

/* Written by the thread that calls, read by any thread meanwhile: a record that changes while it is read counts as gone. */
struct kept {
	_Atomic uint64_t
	    numbers; /* number << 32 | the first number of those that started with it; 0: being written */
	_Atomic uint64_t count, target, in_order; /* in_order: struct call's number */
	_Atomic uint64_t what; /* op << 48 | coll << 40 | type << 32 | root */
};

struct recent {
	_Atomic uint32_t last;
	struct kept kept[RECENT_CALLS];
};

struct recent *recent_create(void)
{
	return calloc(1, sizeof(struct recent));
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint64_t load(_Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void keep(struct kept *k, const struct call *call, uint32_t number, uint32_t first)
{
	store(&k->numbers, 0);
	atomic_thread_fence(memory_order_release);
	store(&k->count, call->count);
	store(&k->target, call->target);
	store(&k->in_order, call->number);
	store(&k->what, (uint64_t)call->op << 48 | (uint64_t)call->coll << 40 | (uint64_t)call->type << 32 |
			    (uint32_t)call->root);
	atomic_store_explicit(&k->numbers, (uint64_t)number << 32 | first, memory_order_release);
}

uint32_t recent_add(struct recent *recent, const struct call *calls, int n)
{
	const uint32_t last = recent_last(recent);
	for (uint32_t i = 1; i <= (uint32_t)n; i++)
		keep(&recent->kept[(last + i) % RECENT_CALLS], &calls[i - 1], last + i, last + 1);
	atomic_store_explicit(&recent->last, last + (uint32_t)n, memory_order_release);
	return last + 1;
}

uint32_t recent_last(const struct recent *recent)
{
	return atomic_load_explicit(&((struct recent *)(uintptr_t)recent)->last, memory_order_acquire);
}

/* The call of a number, and the first of those that started with it; false if it is not kept. */
static int read_kept(const struct recent *recent, uint32_t number, struct call *call, uint32_t *first)
{
	struct kept *k = &((struct recent *)(uintptr_t)recent)->kept[number % RECENT_CALLS];
	const uint64_t numbers = atomic_load_explicit(&k->numbers, memory_order_acquire),
		       what = load(&k->what);
	*call = (struct call){ .coll = (corale_coll)(what >> 40 & 0xff),
			       .type = (corale_type)(what >> 32 & 0xff),
			       .op = (corale_op)(what >> 48),
			       .root = (int)(uint32_t)what,
			       .count = load(&k->count),
			       .target = load(&k->target),
			       .number = load(&k->in_order) };
	*first = (uint32_t)numbers;
	atomic_thread_fence(memory_order_acquire);
	return number && numbers >> 32 == number && load(&k->numbers) == numbers;
}

struct call recent_find(const struct recent *recent, uint32_t number, int peer)
{
	struct call named, call;
	uint32_t first;
	if (!read_kept(recent, number, &named, &first))
		return (struct call){ .coll = CORALE_NUM_COLLS };
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
	struct call call;
	uint32_t first;
	if (!read_kept(recent, recent_last(recent), &call, &first) || !call_is_pair(&call))
		return 1;
	return recent_find(recent, first, rank).root == rank;
}
