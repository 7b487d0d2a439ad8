/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include "base/log.h"

static size_t used(const struct transport_slots *slots)
{
	return slots->used ? atomic_load(slots->used) : 0;
}

int link_reserve(const struct transport_slots *slots, int rank)
{
	enum { LEAST = 2 };
	const size_t before = used(slots);
	int depth = slots->depth;
	if (depth / 2 >= LEAST && before + (size_t)depth * slots->bytes > slots->cap / 4)
		depth /= 2;
	if (depth > LEAST && before + (size_t)depth * slots->bytes > slots->cap / 8 * 3)
		depth = LEAST;
	if (slots->used)
		atomic_fetch_add(slots->used, (size_t)depth * slots->bytes);
	if (before <= slots->cap && before + (size_t)depth * slots->bytes > slots->cap)
		log_line(LOG_WARN, rank,
			 "CORALE_MEMORY_CAP leaves %zu bytes for messages between nodes; %d slots for each "
			 "peer of another node, queue "
			 "and direction take more, from here on: raise it, or lower CORALE_SLOT_BYTES (%zu)",
			 slots->cap, LEAST, slots->bytes);
	return depth;
}

void link_unreserve(const struct transport_slots *slots, int depth)
{
	if (slots->used)
		atomic_fetch_sub(slots->used, (size_t)depth * slots->bytes);
}
