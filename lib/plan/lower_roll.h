/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of a loop that differ by a step along a circle alone (lower_plan_rolled). */
#ifndef LOWER_ROLL_H
#define LOWER_ROLL_H

#include "lower.h"

/* The last n operations of a list, against those from first on: sets what these step by, if all differ by one step along a circle: 1, else 0. */
int lower_roll_start(struct lowered *list, const struct plan *plan, const struct plan_map *map, int first,
		     int n);
/* Whether the last n operations are those from first on, stepped so many times. */
int lower_roll_follows(const struct lowered *list, const struct plan *plan, const struct plan_map *map,
		       int first, int n, int times);

#endif
