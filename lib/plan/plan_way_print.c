#include "plan_way_print.h"

#include <stdio.h>

enum { LARGEST = 36 /* a power of 2 */ };

/* The power of 2 as it is said: 512, 128K, 4M, 2G. */
static void print_bytes(int power, char *text, size_t room)
{
	static const char *const units[] = { "", "K", "M", "G" };
	snprintf(text, room, "%d%s", 1 << power % 10, units[power / 10]);
}

/* Of floats. */
static const char *name_of(const struct plan_node *node, corale_coll coll, uint64_t bytes, int memory)
{
	const struct plan_call call = { .coll = coll, .bytes = bytes, .words = 1, .memory = memory };
	const struct plan_way *way = plan_way_choose(node, &call);
	return plan_codelet_name(way ? way->codelet : CODELET_NONE);
}

void plan_ways_print(const struct plan_node *node, corale_coll coll, int memory, char text[PLAN_WAYS_TEXT])
{
	size_t used = 0;
	const char *now = name_of(node, coll, 1, memory);
	text[0] = '\0';
	for (int power = 1; power <= LARGEST && used < PLAN_WAYS_TEXT; power++) {
		const char *next = name_of(node, coll, (uint64_t)1 << power, memory);
		char bytes[16];
		if (next == now)
			continue;
		print_bytes(power - 1, bytes, sizeof bytes);
		used += (size_t)snprintf(text + used, PLAN_WAYS_TEXT - used, "%s to %s, ", now, bytes);
		now = next;
	}
	if (used < PLAN_WAYS_TEXT)
		snprintf(text + used, PLAN_WAYS_TEXT - used, "%s%s", used ? "then " : "", now);
}
