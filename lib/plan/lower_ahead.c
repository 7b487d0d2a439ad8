/* Sends that go ahead of their loop (lower.h). */
#include "lower.h"

/* Whether two operations send to one rank along one ring. */
static int share_lane(const struct lowered *list, const struct lowered_op *a, const struct lowered_op *b)
{
	for (int i = 0; a->to_ring == b->to_ring && i < a->to_count; i++)
		for (int k = 0; k < b->to_count; k++)
			if (list->peers[a->to_first + i].rank == list->peers[b->to_first + k].rank)
				return 1;
	return 0;
}

/* Its lanes have no other messages of its program, from first to end, and what it sends is the user's. */
static int may_go_ahead(const struct lowered *list, int first, int end, int at, int first_far)
{
	const struct lowered_op *op = &list->ops[at];
	if (op->op != PLAN_MOVE || op->from_count || op->dst.space || op->src.space != PLAN_SEND ||
	    op->src.chunk || !op->to_count)
		return 0;
	for (int i = 0; i < op->to_count; i++)
		if (list->peers[op->to_first + i].rank < first_far)
			return 0;
	for (int i = first; i < end; i++)
		if (i != at && share_lane(list, op, &list->ops[i]))
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
