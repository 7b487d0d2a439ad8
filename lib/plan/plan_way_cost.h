/* What ways cost: functions of the table in plan_way.c. Pure. */
#ifndef PLAN_WAY_COST_H
#define PLAN_WAY_COST_H

#include "plan_way.h"

/* us of a call by one kernel, and by copy engines. */
double plan_kernel_us(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call);
double plan_copies_us(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call);

/* Whether copies go straight into receive buffers, where they move data. */
int plan_copies_direct(const struct plan_node *node, const struct plan_call *call);

#endif
