/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of a lowered list, operation by operation, as an engine runs it. */
#ifndef LOWERED_WALK_H
#define LOWERED_WALK_H

#include <stddef.h>

#include "plan/lower.h"

struct lowered_walk {
	const struct lowered *list;
	const struct lowered_call *call;
	int pc, end, channel; /* end: behind the program's last operation */
	int body, trip, trips; /* of the loop over chunks under way */
};

/* The next operation that neither begins nor ends a loop over chunks; NULL at the end. */
static inline const struct lowered_op *lowered_walk_next(struct lowered_walk *w)
{
	while (w->pc < w->end) {
		const struct lowered_op *o = &w->list->ops[w->pc++];
		if (o->op == PLAN_LOOP) {
			w->trips = lowered_count_trips(w->call, o);
			w->body = w->pc;
			w->trip = 0;
			while (w->trips <= 0 && w->list->ops[w->pc].op != PLAN_END)
				w->pc++;
		} else if (o->op != PLAN_END) {
			return o;
		} else if (++w->trip < w->trips) {
			w->pc = w->body;
		}
	}
	return NULL;
}

#endif
