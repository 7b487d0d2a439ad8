/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans and actions as text. */
#ifndef PLAN_PRINT_H
#define PLAN_PRINT_H

#include "plan/plan_eval.h"

/* "fold rank 3 (queue 0) with send[0, 64) -> recv[0, 64) and rank 1 (queue 0)"; returns the length it needs, like
 * snprintf. Several blocks that wrap around a buffer are printed as if it went on. */
size_t plan_print_action(const struct plan_action *action, char *buf, size_t bytes);

/* Writes the plan as text (steps, expressions spelled out) into buf; returns the length it needs, like snprintf. */
size_t plan_print(const struct plan *plan, char *buf, size_t bytes);

#endif
