/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends that go ahead of their loop (lower.h). */
#include "lower.h"

/* Entries among the peers that an operation sends to, all of its turns together. */
static int count_targets(const struct lowered *list, int i)
{
	const struct lowered_op *op = &list->ops[i];
	return op->moves & LOWERED_TO ? op->to_count * lowered_times(list, i) : op->to_count;
}

/* Whether two operations send to one rank along one queue. */
static int share_connection(const struct lowered *list, int one, int other)
{
	const struct lowered_op *a = &list->ops[one], *b = &list->ops[other];
	if (a->to_queue != b->to_queue || !a->to_count || !b->to_count)
		return 0;
	const int n = count_targets(list, one), m = count_targets(list, other);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < m; k++)
			if ((one != other || i != k) &&
			    list->peers[a->to_first + i].rank == list->peers[b->to_first + k].rank)
				return 1;
	return 0;
}

/* Its connections have no other messages of its program, from first to end, and what it sends is the user's. */
static int may_go_ahead(const struct lowered *list, int first, int end, int at, int first_far)
{
	const struct lowered_op *op = &list->ops[at];
	if (op->op != PLAN_MOVE || op->from_count || op->dst.space || op->src.space != PLAN_SEND ||
	    op->src.chunk || !op->to_count)
		return 0;
	if (lowered_times(list, at) > 1 && !(op->moves & LOWERED_TO))
		return 0;
	for (int i = 0; i < count_targets(list, at); i++)
		if (list->peers[op->to_first + i].rank < first_far)
			return 0;
	for (int i = first; i < end; i++)
		if (share_connection(list, at, i))
			return 0;
	return 1;
}

void lower_ahead(struct lowered *l, int first_far, int ahead)
{
	for (int p = 0; p < l->nprograms; p++) {
		struct lowered_op *loop = NULL;
		for (int i = l->first[p]; i < l->first[p + 1]; i++) {
			struct lowered_op *op = &l->ops[i];
			if (op->op == PLAN_LOOP || op->op == PLAN_END)
				loop = op->op == PLAN_LOOP ? op : NULL;
			else if (loop && may_go_ahead(l, l->first[p], l->first[p + 1], i, first_far))
				loop->ahead = op->ahead = (uint8_t)ahead;
		}
	}
}
