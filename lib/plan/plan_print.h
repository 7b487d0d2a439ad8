/* An action as text, beside plan_print of plan.h. */
#ifndef PLAN_PRINT_H
#define PLAN_PRINT_H

#include "plan_eval.h"

/* "fold rank 3 (ring 0) with send[0, 64) -> recv[0, 64) and rank 1 (ring 0)"; returns the length it needs, like
 * snprintf. Several blocks that wrap around a buffer are printed as if it went on. */
size_t plan_print_action(const struct plan_action *action, char *buf, size_t bytes);

#endif
