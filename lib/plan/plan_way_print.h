/* What plan_way_choose answers, in words. Pure. */
#ifndef PLAN_WAY_PRINT_H
#define PLAN_WAY_PRINT_H

#include <stddef.h>

#include "plan_way.h"

enum { PLAN_WAYS_TEXT = 160 };

/* Which codelet runs calls of which bytes (of a block or vector, in powers of 2), as "packets to 128K, two_shot to 4M, then
 * slots_two_shot". memory as in plan_way_choose. */
void plan_ways_print(const struct plan_node *node, corale_coll coll, int memory, char text[PLAN_WAYS_TEXT]);

#endif
