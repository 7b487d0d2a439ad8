/* SPDX-License-Identifier: BSD-3-Clause */
/* One action of one program: are its messages there and its targets free, and what it does then. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "check_internal.h"

static const struct plan *plan_of(const struct world *world, const struct context *c)
{
	return world->ranks[c->rank].plan;
}

/* A rank reads no messages of its own to ALL. */
static struct queue *find_queue(struct world *world, const struct context *c, int from, int to, int number)
{
	const struct plan *plan = plan_of(world, c);
	struct queue *queue = queue_find(&world->queues, plan, &c->env, from, to, number, c->action.rail);
	if (queue && plan->queues[number].all && !queue->sent)
		queue->read[plan_group_index(world->map, plan_all_group(plan, number), from)] = LONG_MAX;
	return queue;
}

/* The first peer whose message is missing; PLAN_NONE: all are there. */
static int missing_sender(struct world *world, const struct context *c)
{
	const struct plan_action *a = &c->action;
	int index = a->from == PLAN_NONE ? 0 : queue_reader(plan_of(world, c), &c->env, a->from_queue);
	for (int i = 0; i < queue_peers(&c->env, a->from, a->from_group); i++) {
		int from = queue_peer_at(&c->env, a->rail, a->from, a->from_group, i);
		if (from == PLAN_NONE)
			continue;
		const struct queue *queue = find_queue(world, c, from, c->rank, a->from_queue);
		if (queue->read[index] >= queue->sent)
			return from;
	}
	return PLAN_NONE;
}

static int sends(const struct world *world, const struct context *c)
{
	const struct plan_action *a = &c->action;
	return a->to != PLAN_NONE && (a->to != PLAN_ALL || queue_peers(&c->env, a->to, a->to_group) > 1);
}

static int has_room(struct world *world, const struct context *c)
{
	if (!sends(world, c))
		return 1;
	const struct plan_queue *kind = &plan_of(world, c)->queues[c->action.to_queue];
	const struct queue *queue = find_queue(world, c, c->rank, c->action.to, c->action.to_queue);
	return kind->sync == PLAN_PARITY || queue->sent - queue_slowest(queue) < kind->depth;
}

static int claim(struct world *world, const struct context *c, int *user, const char *what, int peer)
{
	int me = world->ranks[c->rank].call << 8 | c->program;
	if (*user >= 0 && *user >> 8 == me >> 8 && *user != me)
		return world_fail(world, c, "%s rank %d on a queue that program %d uses too", what, peer,
				  *user & 255);
	*user = me;
	return 0;
}

static int check_message(struct world *world, const struct context *c, const struct message *m, int from)
{
	const struct plan_action *a = &c->action;
	if (a->op == PLAN_WAIT)
		return 0;
	if (!m->payload)
		return world_fail(world, c, "expects elements of rank %d, which sent a signal", from);
	if (m->count != a->count)
		return world_fail(world, c, "expects %zu elements of rank %d, which sent %zu", a->count, from,
				  m->count);
	return 0;
}

static int receive_from(struct world *world, struct context *c, int from, uint64_t *values)
{
	const struct plan_action *a = &c->action;
	int index = queue_reader(plan_of(world, c), &c->env, a->from_queue);
	struct queue *queue = find_queue(world, c, from, c->rank, a->from_queue);
	struct message *m = queue->slots[queue->read[index] & queue->slot_mask];
	int ret = claim(world, c, &queue->reader_program[index], "receives from", from);
	if (!ret)
		ret = check_message(world, c, m, from);
	if (ret)
		return ret;
	queue->read[index]++;
	m->unread--;
	m->reads[index] = (struct stamp){ c->index, c->time };
	for (int i = 0; i < world->nclock; i++)
		c->clock[i] = m->clock[i] > c->clock[i] ? m->clock[i] : c->clock[i];
	if (a->op == PLAN_MOVE)
		memcpy(values, m->values, a->count * sizeof(*values));
	return 0;
}

static int reserve_values(struct world *world, size_t count)
{
	return array_grow(&world->values, &world->values_capacity, count, sizeof(*world->values));
}

/* The cells that an action folds, one source behind the other. */
static int gather_cells(struct world *world, struct context *c, int *n)
{
	const struct plan_action *a = &c->action;
	int ret = 0;
	if (!reserve_values(world, (size_t)a->cells * (a->count + 1)))
		return world_fail(world, c, "out of memory");
	for (*n = 0; *n < a->cells && !ret; ++*n) {
		const struct plan_location cell = plan_cell_at(plan_of(world, c), &c->env, a, *n);
		ret = memory_read(world, c, &cell, a->count, world->values + (size_t)*n * a->count);
	}
	return ret;
}

/* Sources in the order in which they are folded, count values each, into world->values; *n of them. */
static int gather(struct world *world, struct context *c, int *n)
{
	const struct plan_action *a = &c->action;
	int total = queue_peers(&c->env, a->from, a->from_group), ret = 0;
	if (a->cells)
		return gather_cells(world, c, n);
	if (!reserve_values(world, ((size_t)total + 2) * (a->count + 1)))
		return world_fail(world, c, "out of memory");
	*n = 0;
	for (int i = 0; i < total && !ret; i++) {
		int from = queue_peer_at(&c->env, a->rail, a->from, a->from_group, i);
		uint64_t *values = world->values + (size_t)*n * a->count;
		if (from == PLAN_NONE && !a->src.space)
			continue;
		ret = from == PLAN_NONE ? memory_read(world, c, &a->src, a->count, values)
					: receive_from(world, c, from, values);
		(*n)++;
	}
	if (!ret && a->src.space && a->from != PLAN_ALL)
		ret = memory_read(world, c, &a->src, a->count, world->values + (size_t)(*n)++ * a->count);
	return ret;
}

static int fold_element(struct world *world, struct context *c, int n, size_t e, int *operands, int *node)
{
	size_t count = c->action.count;
	int same = e > 0;
	for (int i = 0; i < n; i++) {
		uint64_t value = world->values[(size_t)i * count + e];
		if (value_element(value) != value_element(world->values[e]))
			return world_fail(world, c, "folds element %zu with element %zu",
					  value_element(world->values[e]), value_element(value));
		same &= operands[i] == value_node(value);
		operands[i] = value_node(value);
	}
	if (!same)
		*node = fold_make(&world->folds, operands, n, !!(c->action.flags & PLAN_FINAL));
	if (*node < 0)
		return world_fail(world, c,
				  *node == FOLD_TWICE      ? "folds a contribution twice"
				  : *node == FOLD_FINISHED ? "folds a finished result"
							   : "out of memory");
	return 0;
}

/* Folds the gathered sources into the first of them. */
static int fold(struct world *world, struct context *c, int n)
{
	if (!(c->action.flags & PLAN_REDUCE))
		return n == 1 ? 0 : world_fail(world, c, "has %d sources but does not fold", n);
	int *operands = malloc((size_t)n * sizeof(*operands)), node = -1, ret = 0;
	if (!operands)
		return world_fail(world, c, "out of memory");
	for (size_t e = 0; e < c->action.count && !ret; e++) {
		ret = fold_element(world, c, n, e, operands, &node);
		world->values[e] = value_make(node, value_element(world->values[e]));
	}
	free(operands);
	return ret;
}

/* A message without credit overwrites the one `depth` before it: everybody must be known to have read that. */
static int check_parity(struct world *world, const struct context *c, const struct queue *queue, int depth)
{
	long before = queue->sent - depth;
	if (before < 0)
		return 0;
	const struct message *m = queue->slots[before & queue->slot_mask];
	for (int i = 0; i < queue->readers; i++) {
		struct stamp read = m->reads[i];
		if (queue->read[i] == LONG_MAX)
			continue;
		if (queue->read[i] <= before || (world->nclock && read.time > c->clock[read.context]))
			return world_fail(
			    world, c, "overwrites a parity slot that reader %d need not have read yet", i);
	}
	return 0;
}

static int hold_spans(struct world *world, struct context *c, struct message *m)
{
	const struct plan_action *a = &c->action;
	if (!world->options->references || !(a->flags & PLAN_STABLE) || !a->count)
		return 0;
	int ret = 0;
	if (a->src.space && a->from == PLAN_NONE && !(a->flags & PLAN_REDUCE))
		ret = memory_hold(world, c, &a->src, a->count, m);
	if (!ret && a->dst.space)
		ret = memory_hold(world, c, &a->dst, a->count, m);
	return ret;
}

static int send(struct world *world, struct context *c)
{
	const struct plan_action *a = &c->action;
	const struct plan_queue *kind = &plan_of(world, c)->queues[a->to_queue];
	struct rank *rank = &world->ranks[c->rank];
	struct queue *queue = find_queue(world, c, c->rank, a->to, a->to_queue);
	int ret = claim(world, c, &queue->writer, "sends to", a->to);
	if (!ret && kind->sync == PLAN_PARITY)
		ret = check_parity(world, c, queue, kind->depth);
	if (ret)
		return ret;
	if (a->to == c->rank && a->op == PLAN_MOVE)
		return world_fail(world, c, "sends elements to itself");
	struct message *m =
	    message_create(a->op == PLAN_MOVE ? a->count : 0, queue->readers, world->nclock, c->clock);
	if (!m)
		return world_fail(world, c, "out of memory");
	m->unread -= a->to == PLAN_ALL;
	m->payload = a->op == PLAN_MOVE;
	memcpy(m->values, world->values, m->count * sizeof(*m->values));
	queue_put(queue, m);
	rank->elements_sent += (long)m->count * m->unread;
	return hold_spans(world, c, m);
}

int action_run(struct world *world, struct context *c)
{
	const struct plan_action *a = &c->action;
	int sources = 0;
	if (missing_sender(world, c) != PLAN_NONE || !has_room(world, c))
		return 0;
	if (a->src.space && a->dst.space) {
		const struct plan *plan = plan_of(world, c);
		const struct plan_step *step = &plan->steps[c->cursor.pc - 1];
		struct plan_location place;
		ptrdiff_t dst = plan_locate(plan, &c->env, c->cursor.var, &step->dst, &place);
		dst *= step->blocks ? plan_value(plan, &c->env, c->cursor.var, step->blocks) : 1;
		if (dst != (ptrdiff_t)a->count)
			return world_fail(world, c, "moves %zu elements into a place of %td", a->count, dst);
	}
	c->time++;
	if (world->nclock)
		c->clock[c->index] = c->time;
	world->ranks[c->rank].steps++;
	int ret = gather(world, c, &sources);
	if (!ret && a->op == PLAN_MOVE)
		ret = fold(world, c, sources);
	if (!ret && a->dst.space)
		ret = memory_write(world, c, &a->dst, a->count, world->values);
	if (!ret && sends(world, c))
		ret = send(world, c);
	return ret ? ret : 1;
}

void action_describe(struct world *world, const struct context *c, char *text, size_t bytes)
{
	int from = missing_sender(world, c);
	if (from != PLAN_NONE)
		snprintf(text, bytes, "waits for rank %d on queue %d", from, c->action.from_queue);
	else if (c->action.to == PLAN_ALL)
		snprintf(text, bytes, "waits for room to ALL on queue %d", c->action.to_queue);
	else
		snprintf(text, bytes, "waits for room to rank %d on queue %d", c->action.to,
			 c->action.to_queue);
}
