/* SPDX-License-Identifier: BSD-3-Clause */
#include "lower.h"

#include <string.h>

/* How far b is from a in a circle of n, in the direction in which that is less. */
static int distance(int a, int b, int n)
{
	const int forth = lowered_wrap(b - a, n);
	return forth > n / 2 ? forth - n : forth;
}

/* From one turn of an operation to the next; moves: enum lowered_moves. */
struct stride {
	int moves, by;
};

/* 0 if it moves by another stride than what moves already. */
static int add(struct stride *s, int moves, int by)
{
	if (!by)
		return 1;
	if (s->moves && s->by != by)
		return 0;
	s->moves |= moves;
	s->by = by;
	return 1;
}

/* A cell of scratch stays where it is. */
static int add_span(struct stride *s, int moves, const struct lowered_span *a, const struct lowered_span *b,
		    const struct plan *plan, int ranks)
{
	if (a->inner >= 0 && b->inner >= 0 && a->inner != b->inner)
		return add(s, moves | LOWERED_PIECES, distance(a->inner, b->inner, plan->inner));
	if (a->block >= 0 && b->block >= 0 && a->space != PLAN_SCRATCH)
		return add(s, moves, distance(a->block, b->block, ranks));
	return 1;
}

static int add_peers(struct stride *s, int moves, const struct lowered *list, int a, int b, int count,
		     int ranks)
{
	return !count || add(s, moves, distance(list->peers[a].rank, list->peers[b].rank, ranks));
}

static int find_stride(const struct lowered *list, const struct plan *plan, int ranks,
		       const struct lowered_op *a, const struct lowered_op *b, struct stride *s)
{
	*s = (struct stride){ 0 };
	return !((a->flags | b->flags) & LOWERED_BLOCKS) && a->from_count == b->from_count &&
	       a->to_count == b->to_count && add_span(s, LOWERED_SRC, &a->src, &b->src, plan, ranks) &&
	       add_span(s, LOWERED_DST, &a->dst, &b->dst, plan, ranks) &&
	       add_peers(s, LOWERED_FROM, list, a->from_first, b->from_first, a->from_count, ranks) &&
	       add_peers(s, LOWERED_TO, list, a->to_first, b->to_first, a->to_count, ranks);
}

int lower_roll_start(struct lowered *list, const struct plan *plan, const struct plan_map *map, int first,
		     int n)
{
	for (int i = 0; i < n; i++) {
		struct lowered_op *a = &list->ops[first + i];
		struct stride s;
		if (a->op == PLAN_LOOP || a->op == PLAN_END)
			continue;
		if (!find_stride(list, plan, map->ranks, a, &list->ops[list->nops - n + i], &s))
			return 0;
		a->moves = (uint8_t)s.moves;
		a->stride = (int16_t)s.by;
	}
	return 1;
}

/* a's ranks, each so much further in the circle, are b's. */
static int same_peers(const struct lowered *list, int a, int b, int count, int by, int ranks)
{
	for (int i = 0; i < count; i++)
		if (lowered_wrap(list->peers[a + i].rank + by, ranks) != list->peers[b + i].rank)
			return 0;
	return 1;
}

/* Spans have no padding. */
static int same_spans(const struct lowered_op *a, const struct lowered_op *b)
{
	return !memcmp(&a->src, &b->src, sizeof a->src) && !memcmp(&a->dst, &b->dst, sizeof a->dst);
}

static int follows(const struct lowered *list, const struct lowered_call *call, const struct lowered_op *a,
		   const struct lowered_op *b, int times)
{
	struct lowered_op at = *a;
	const int by = times * a->stride;
	if (a->op != b->op || a->flags != b->flags || a->from_queue != b->from_queue ||
	    a->to_queue != b->to_queue)
		return 0;
	if (a->op == PLAN_LOOP)
		return a->trips == b->trips && a->trips_peer == b->trips_peer && same_spans(a, b);
	lowered_step(call, &at, times);
	return a->from_count == b->from_count && a->to_count == b->to_count && same_spans(&at, b) &&
	       same_peers(list, a->from_first, b->from_first, a->from_count, a->moves & LOWERED_FROM ? by : 0,
			  call->ranks) &&
	       same_peers(list, a->to_first, b->to_first, a->to_count, a->moves & LOWERED_TO ? by : 0,
			  call->ranks);
}

int lower_roll_follows(const struct lowered *list, const struct plan *plan, const struct plan_map *map,
		       int first, int n, int times)
{
	const struct lowered_call call = { .inner = plan->inner, .ranks = map->ranks };
	for (int i = 0; i < n; i++)
		if (!follows(list, &call, &list->ops[first + i], &list->ops[list->nops - n + i], times))
			return 0;
	return 1;
}

int lowered_times(const struct lowered *list, int i)
{
	while (i >= 0 && list->ops[i].op != LOWERED_REPEAT && list->ops[i].op != LOWERED_AGAIN)
		i--;
	return i >= 0 && list->ops[i].op == LOWERED_REPEAT ? list->ops[i].times : 1;
}
