#include "plan_codelet_print.h"

#include <stdio.h>

enum { LARGEST = 36 /* a power of 2 */ };

/* The power of 2 as it is said: 512, 128K, 4M, 2G. */
static void print_bytes(int power, char *text, size_t room)
{
	static const char *const units[] = { "", "K", "M", "G" };
	snprintf(text, room, "%d%s", 1 << power % 10, units[power / 10]);
}

void plan_codelet_print(const struct plan_node *node, corale_coll coll, int memory,
			char text[PLAN_CODELET_TEXT])
{
	size_t used = 0;
	enum plan_codelet now = plan_codelet_choose(node, coll, 1, 1, memory);
	text[0] = '\0';
	for (int power = 1; power <= LARGEST && used < PLAN_CODELET_TEXT; power++) {
		enum plan_codelet next = plan_codelet_choose(node, coll, (uint64_t)1 << power, 1, memory);
		char bytes[16];
		if (next == now)
			continue;
		print_bytes(power - 1, bytes, sizeof bytes);
		used += (size_t)snprintf(text + used, PLAN_CODELET_TEXT - used, "%s to %s, ",
					 plan_codelet_name(now), bytes);
		now = next;
	}
	if (used < PLAN_CODELET_TEXT)
		snprintf(text + used, PLAN_CODELET_TEXT - used, "%s%s", used ? "then " : "",
			 plan_codelet_name(now));
}
