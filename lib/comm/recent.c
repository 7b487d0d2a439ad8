#include "recent.h"

#include <stdlib.h>

enum { RECENT_CALLS = 1024 }; /* as many as a stream holds, and more than a group may have */

struct kept {
	struct call call;
	uint32_t number, first; /* first: of those that started with it */
};

struct recent {
	uint32_t last;
	struct kept kept[RECENT_CALLS];
};

struct recent *recent_create(void)
{
	return calloc(1, sizeof(struct recent));
}

uint32_t recent_add(struct recent *recent, const struct call *calls, int n)
{
	uint32_t first = recent->last + 1;
	for (int i = 0; i < n; i++) {
		uint32_t number = ++recent->last;
		recent->kept[number % RECENT_CALLS] = (struct kept){ calls[i], number, first };
	}
	return first;
}

uint32_t recent_last(const struct recent *recent)
{
	return recent->last;
}

static const struct kept *kept_of(const struct recent *recent, uint32_t number)
{
	const struct kept *k = &recent->kept[number % RECENT_CALLS];
	return number && k->number == number ? k : NULL;
}

struct call recent_find(const struct recent *recent, uint32_t number, int peer)
{
	const struct kept *named = kept_of(recent, number);
	for (const struct kept *k = named; k && k->first == number; k = kept_of(recent, k->number + 1))
		if (k->call.root == peer)
			return k->call;
	return named ? named->call : (struct call){ .coll = CORALE_NUM_COLLS };
}

int recent_concerns(const struct recent *recent, int rank)
{
	const struct kept *last = kept_of(recent, recent->last);
	if (!last || !call_is_pair(&last->call))
		return 1;
	const struct call call = recent_find(recent, last->first, rank);
	return call.root == rank;
}
