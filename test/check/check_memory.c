/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of the checker: who wrote and read each element last, so that two programs of a rank that are not ordered
 * by messages may not touch the same element, and promises to other ranks are kept.
 */
#include "base/array.h"
#include "base/collectives.h"
#include "check_internal.h"

static const char *space_name(int space)
{
	return space == PLAN_SEND ? "SEND" : space == PLAN_RECV ? "RECV" : "SCRATCH";
}

/* Elements of an action's span that lie together: n from its element done on, in cells from `first` on. */
struct run {
	size_t done, n, first;
	struct plan_location at;
};

/* The run behind *run, which is all zero before the first. 1: there is one; 0: the span's end; or a violation. */
static int next_run(struct world *world, const struct context *c, const struct plan_location *place,
		    size_t count, struct run *run)
{
	const struct rank *rank = &world->ranks[c->rank];
	run->done += run->n;
	if (run->done == count)
		return 0;
	run->at = *place;
	run->n = plan_span_run(&c->env, &c->action, place, run->done, &run->at.offset);
	const size_t end = run->at.offset + run->n;
	const size_t limit = place->space == PLAN_SEND   ? rank->send_count
			     : place->space == PLAN_RECV ? rank->recv_count
							 : rank->scratch_per_channel;
	if (end > limit)
		return world_fail(world, c, "%s elements %zu to %zu, but it has %zu",
				  space_name(place->space), run->at.offset, end, limit);
	run->first =
	    run->at.offset + (place->space == PLAN_SEND   ? rank->send_at
			      : place->space == PLAN_RECV ? rank->recv_at
							  : rank->scratch_at + (size_t)c->channel * limit);
	return 1;
}

/* True if the event is in the past of the context. */
static int is_past(const struct world *world, const struct context *c, struct stamp event)
{
	return !world->nclock || event.context == c->index || event.time <= c->clock[event.context];
}

static int *read_time(const struct rank *rank, int context, size_t cell)
{
	return &rank->read_times[(size_t)context * rank->ncells + cell];
}

static int read_cell(struct world *world, struct context *c, const struct plan_location *place, size_t at,
		     uint64_t *value)
{
	struct rank *rank = &world->ranks[c->rank];
	struct cell *cell = &rank->cells[at];
	if (place->space == PLAN_SEND && cell->written)
		return world_fail(world, c, "reads SEND[%zu] after the result was written over it",
				  place->offset);
	if (place->space != PLAN_SEND && !cell->written)
		return world_fail(world, c, "reads %s[%zu], which nobody wrote in this call",
				  space_name(place->space), place->offset);
	if (cell->written && !is_past(world, c, cell->write))
		return world_fail(world, c,
				  "reads %s[%zu] without being ordered after its writer, program %d",
				  space_name(place->space), place->offset,
				  rank->contexts[cell->write.context % world->max_contexts].program);
	cell->touched = 1;
	if (rank->ncontexts > 1)
		*read_time(rank, c->index % world->max_contexts, at) = c->time;
	*value = cell->value;
	return 0;
}

int memory_read(struct world *world, struct context *c, const struct plan_location *place, size_t count,
		uint64_t *values)
{
	struct run run = { .done = 0 };
	int ret;
	while ((ret = next_run(world, c, place, count, &run)) > 0)
		for (size_t i = 0; i < run.n; i++, run.at.offset++)
			if (read_cell(world, c, &run.at, run.first + i, values++))
				return CORALE_EINTERNAL;
	return ret;
}

static int check_readers(struct world *world, const struct context *c, const struct plan_location *place,
			 size_t cell)
{
	const struct rank *rank = &world->ranks[c->rank];
	for (int other = 0; other < rank->ncontexts && rank->ncontexts > 1; other++) {
		struct stamp read = { rank->contexts[other].index, *read_time(rank, other, cell) };
		if (!is_past(world, c, read))
			return world_fail(
			    world, c, "writes %s[%zu] without being ordered after its reader, program %d",
			    space_name(place->space), cell - rank->recv_at, rank->contexts[other].program);
	}
	return 0;
}

static int check_span(struct world *world, const struct context *c, const struct stable_span *span)
{
	const struct message *m = span->message;
	if (m->unread)
		return world_fail(world, c,
				  "writes over a message that was promised to stay (STABLE) and is unread");
	for (const struct stamp *read = m->reads; read < m->reads + m->readers; read++)
		if (read->time && !is_past(world, c, *read))
			return world_fail(world, c,
					  "writes over a message that was promised to stay (STABLE) without "
					  "having heard that it was read");
	return 0;
}

/* A message sent by reference is in flight until its readers are done. */
static int check_held(struct world *world, const struct context *c, size_t first, size_t count)
{
	const struct rank *rank = &world->ranks[c->rank];
	int ret = 0, seen = 0;
	for (int i = 0; rank->tangled && i < rank->nstable && !ret; i++) {
		const struct stable_span *span = &rank->stable[i];
		if (first < span->first + span->count && span->first < first + count)
			ret = check_span(world, c, span);
	}
	for (size_t i = first; !rank->tangled && i < first + count && !ret; i++) {
		int held = rank->cells[i].held;
		for (int span = held == seen ? 0 : held; span && !ret; span = rank->stable[span - 1].older)
			ret = check_span(world, c, &rank->stable[span - 1]);
		seen = held;
	}
	return ret;
}

static int is_result(const struct world *world, const struct rank *rank, uint64_t value)
{
	return !coll_folds(rank->plan->key.coll) || fold_is_complete(&world->folds, value_node(value));
}

static int write_cell(struct world *world, struct context *c, const struct plan_location *place, size_t at,
		      uint64_t value)
{
	struct rank *rank = &world->ranks[c->rank];
	struct cell *cell = &rank->cells[at];
	if (c->action.flags & PLAN_FRESH && cell->touched)
		return world_fail(
		    world, c, "writes a place that was touched before in this call, against its FRESH flag");
	if (cell->written && !is_past(world, c, cell->write))
		return world_fail(world, c,
				  "writes a place without being ordered after its last writer, program %d",
				  rank->contexts[cell->write.context % world->max_contexts].program);
	int ret = check_readers(world, c, place, at);
	if (ret)
		return ret;
	if (place->space == PLAN_RECV && is_result(world, rank, value) && ++cell->completed > 1)
		return world_fail(world, c, "writes an element of the result a second time");
	cell->value = value;
	cell->write = (struct stamp){ c->index, c->time };
	cell->written = cell->touched = 1;
	return 0;
}

int memory_write(struct world *world, struct context *c, const struct plan_location *place, size_t count,
		 const uint64_t *values)
{
	struct run run = { .done = 0 };
	int ret;
	while ((ret = next_run(world, c, place, count, &run)) > 0) {
		ret = check_held(world, c, run.first, run.n);
		for (size_t i = 0; i < run.n && !ret; i++)
			ret = write_cell(world, c, place, run.first + i, *values++);
		if (ret)
			return ret;
	}
	return ret;
}

/* Adds a span of cells that must stay as they are until the message was read. */
static int hold_run(struct world *world, struct context *c, const struct run *run, struct message *message)
{
	struct rank *rank = &world->ranks[c->rank];
	if (!array_grow(&rank->stable, &rank->stable_capacity, (size_t)rank->nstable + 1,
			sizeof(*rank->stable)))
		return world_fail(world, c, "out of memory");
	struct cell *cells = &rank->cells[run->first];
	int older = cells->held;
	for (size_t i = 0; i < run->n; i++) {
		rank->tangled |= cells[i].held != older;
		cells[i].held = rank->nstable + 1;
	}
	rank->stable[rank->nstable++] = (struct stable_span){ run->first, run->n, message, older };
	message->references++;
	return 0;
}

int memory_hold(struct world *world, struct context *c, const struct plan_location *place, size_t count,
		struct message *message)
{
	struct run run = { .done = 0 };
	int ret;
	while ((ret = next_run(world, c, place, count, &run)) > 0)
		if (hold_run(world, c, &run, message))
			return CORALE_EINTERNAL;
	return ret;
}
