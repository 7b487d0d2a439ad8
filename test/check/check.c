/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker's schedule: which program advances next, and when everything has ended. */
#include <string.h>

#include "check_internal.h"

static uint64_t next_random(struct world *world)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return world->random;
}

/* Lets a context do up to so many actions; returns how many it did, or a violation. */
static int advance(struct world *world, struct context *c, int most)
{
	const struct plan *plan = world->ranks[c->rank].plan;
	for (int n = 0; n < most; n++) {
		if (!c->has_action && !plan_cursor_next(&c->cursor, plan, &c->env, &c->action)) {
			c->done = 1;
			return n + 1;
		}
		c->has_action = 1;
		int ret = action_run(world, c);
		if (ret <= 0)
			return ret < 0 ? ret : n;
		c->has_action = 0;
	}
	return most;
}

static int channel_is_done(const struct rank *rank, int channel)
{
	for (int i = 0; i < rank->ncontexts; i++)
		if (rank->contexts[i].channel == channel && !rank->contexts[i].done)
			return 0;
	return 1;
}

/* With fewer resident than all, a channel starts when an earlier one has ended. */
static int is_resident(const struct world *world, const struct rank *rank, int channel)
{
	int resident = world->options->resident, running = 0;
	if (!resident)
		return 1;
	for (int i = 0; i < channel; i++)
		running += !channel_is_done(rank, i);
	return running < resident;
}

static int has_unread_references(const struct rank *rank)
{
	for (int i = 0; i < rank->nstable; i++)
		if (rank->stable[i].message->unread)
			return 1;
	return 0;
}

/* Ends the rank's call if all its programs have, and begins the next; 1 if anything happened. */
static int next_call(struct world *world, struct rank *rank)
{
	for (int i = 0; i < rank->ncontexts; i++)
		if (!rank->contexts[i].done)
			return 0;
	if (has_unread_references(rank))
		return 0;
	int ret = rank->call >= 0 ? world_verify(world, rank) : 0;
	if (!ret)
		ret = world_begin_call(world, rank);
	return ret ? ret : 1;
}

static int advance_rank(struct world *world, struct rank *rank)
{
	int moved = 0;
	for (int i = 0; i < rank->ncontexts; i++) {
		struct context *c = &rank->contexts[i];
		if (c->done || !is_resident(world, rank, c->channel))
			continue;
		int most = world->options->seed ? (int)(next_random(world) % 4) + 1 : 1 << 20;
		int n = advance(world, c, most);
		if (n < 0)
			return n;
		moved |= n > 0;
	}
	int ret = next_call(world, rank);
	return ret < 0 ? ret : moved | ret;
}

static int report_deadlock(struct world *world)
{
	char text[128];
	for (int r = 0; r < world->map->ranks; r++) {
		struct rank *rank = &world->ranks[r];
		for (int i = 0; i < rank->ncontexts; i++) {
			struct context *c = &rank->contexts[i];
			if (!c->has_action)
				continue;
			action_describe(world, c, text, sizeof(text));
			return world_fail(world, c, "deadlock: %s", text);
		}
	}
	return world_fail(world, NULL, "deadlock: a message sent by reference is never read");
}

static int check_all_read(struct world *world)
{
	for (int i = 0; i < world->queues.nbuckets; i++) {
		const struct queue *s = world->queues.buckets[i];
		if (s && queue_slowest(s) < s->sent)
			return world_fail(world, NULL, "%ld messages of rank %d on queue %d are never read",
					  s->sent - queue_slowest(s), (int)(s->key >> 40 & 0x7fffff),
					  (int)(s->key >> 1 & 7));
	}
	return 0;
}

/* In each round every rank gets a turn, in rank order from a rank that is random if asked. */
static int run(struct world *world)
{
	int ranks = world->map->ranks, moved = 1, left = ranks;
	while (left && moved) {
		int first = world->options->seed ? (int)(next_random(world) % (unsigned)ranks) : 0;
		moved = left = 0;
		for (int i = 0; i < ranks; i++) {
			struct rank *rank = &world->ranks[(first + i) % ranks];
			if (rank->done)
				continue;
			int ret = advance_rank(world, rank);
			if (ret < 0)
				return ret;
			moved |= ret;
			left += !rank->done;
		}
	}
	return left ? report_deadlock(world) : check_all_read(world);
}

static void fill_report(const struct world *world, struct check_report *report)
{
	memset(report, 0, sizeof(*report));
	report->in_rank_order = world->in_rank_order;
	for (int r = 0; r < world->map->ranks; r++) {
		const struct rank *rank = &world->ranks[r];
		report->steps += rank->steps;
		if (rank->elements_sent > report->elements_sent)
			report->elements_sent = rank->elements_sent;
		if (rank->steps > report->deepest_rank_steps)
			report->deepest_rank_steps = (int)rank->steps;
	}
}

static int check(struct world *world, struct check_report *report)
{
	int ret = world_open(world);
	if (!ret)
		ret = run(world);
	if (!ret && report)
		fill_report(world, report);
	world_close(world);
	return ret;
}

int check_sequence(const struct plan *const *plans, int calls, const struct plan_map *map,
		   const struct check_options *options, struct check_report *report, char *error,
		   size_t error_bytes)
{
	struct world world = { .map = map,
			       .options = options,
			       .plans = plans,
			       .calls = calls,
			       .error = error,
			       .error_bytes = error_bytes };
	return check(&world, report);
}

int check_plan(const struct plan *plan, const struct plan_map *map, const struct check_options *options,
	       struct check_report *report, char *error, size_t error_bytes)
{
	enum { MOST_CALLS = 16 };
	const struct plan *plans[MOST_CALLS];
	int calls = options->calls < 1 ? 1 : options->calls > MOST_CALLS ? MOST_CALLS : options->calls;
	for (int i = 0; i < calls; i++)
		plans[i] = plan;
	return check_sequence(plans, calls, map, options, report, error, error_bytes);
}

int check_edge(const struct plan *send, const struct plan *recv, const struct plan_map *map, int from, int to,
	       const struct check_options *options, struct check_report *report, char *error,
	       size_t error_bytes)
{
	struct world world = { .map = map,
			       .options = options,
			       .send = send,
			       .recv = recv,
			       .from = from,
			       .to = to,
			       .calls = options->calls < 1 ? 1 : options->calls,
			       .error = error,
			       .error_bytes = error_bytes };
	return check(&world, report);
}
