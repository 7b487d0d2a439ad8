/* SPDX-License-Identifier: BSD-3-Clause */
/* The imaginary machine: ranks with buffers, the calls that they make, and what must come out. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_internal.h"
#include "base/collectives.h"

int world_fail(struct world *world, const struct context *c, const char *format, ...)
{
	char text[256];
	int rows;
	const struct row *algo = row_table(&rows);
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	const struct plan *plan = c              ? world->ranks[c->rank].plan
				  : world->plans ? world->plans[0]
						 : world->send;
	int length = snprintf(world->error, world->error_bytes, "%s by %s, %d ranks on %d nodes, count %zu: ",
			      corale_coll_name((corale_coll)plan->key.coll), algo[plan->algo % rows].name,
			      world->map->ranks, world->map->nodes, world->options->count);
	if (length < 0 || (size_t)length >= world->error_bytes)
		return CORALE_EINTERNAL;
	if (c)
		snprintf(world->error + length, world->error_bytes - (size_t)length,
			 "call %d, rank %d, channel %d, program %d, step %d: %s", world->ranks[c->rank].call,
			 c->rank, c->channel, c->program, c->cursor.pc - 1 - plan->programs[c->program].first,
			 text);
	else
		snprintf(world->error + length, world->error_bytes - (size_t)length, "%s", text);
	return CORALE_EINTERNAL;
}

static const struct plan *plan_of_call(const struct world *world, int rank, int call)
{
	if (world->plans)
		return world->plans[call];
	return rank == world->from ? world->send : rank == world->to ? world->recv : NULL;
}

/* Sets world->max_contexts and returns the depth of the deepest queue, both over all plans. */
static int measure_plans(struct world *world)
{
	int depth = 1;
	world->max_contexts = 1;
	for (int call = 0; call < (world->plans ? world->calls : 1); call++) {
		const struct plan *plan = world->plans ? world->plans[call] : world->send;
		const int contexts = plan->nprograms * plan->channels, deepest = queue_depth(plan);
		world->max_contexts = contexts > world->max_contexts ? contexts : world->max_contexts;
		depth = deepest > depth ? deepest : depth;
	}
	return depth;
}

static int open_rank(struct world *world, int r)
{
	struct rank *rank = &world->ranks[r];
	size_t nclock = (size_t)world->nclock, n = (size_t)world->max_contexts;
	rank->contexts = calloc(n, sizeof(*rank->contexts));
	rank->clock = calloc((n + 1) * nclock + 1, sizeof(int));
	rank->call = -1;
	if (!rank->contexts || !rank->clock)
		return 0;
	for (int i = 0; i < world->max_contexts; i++) {
		struct context *c = &rank->contexts[i];
		c->index = r * world->max_contexts + i;
		c->rank = r;
		c->clock = rank->clock + (size_t)(i + 1) * nclock;
	}
	return 1;
}

int world_open(struct world *world)
{
	enum { MAX_CLOCK = 4096 };
	const int ranks = world->map->ranks, depth = measure_plans(world);
	world->nclock = ranks * world->max_contexts <= MAX_CLOCK ? ranks * world->max_contexts : 0;
	world->random = world->options->seed;
	world->in_rank_order = 1;
	world->ranks = calloc((size_t)ranks, sizeof(*world->ranks));
	world->expected = calloc((size_t)world->calls, sizeof(*world->expected));
	if (!world->ranks || !world->expected || !fold_open(&world->folds, ranks) ||
	    !queues_open(&world->queues, depth))
		return world_fail(world, NULL, "out of memory");
	for (int r = 0; r < ranks; r++)
		if (!open_rank(world, r))
			return world_fail(world, NULL, "out of memory");
	return 0;
}

static void end_call(struct rank *rank)
{
	for (int i = 0; i < rank->nstable; i++)
		message_release(rank->stable[i].message);
	rank->nstable = rank->tangled = 0;
	free(rank->cells);
	free(rank->read_times);
	free(rank->counts);
	rank->cells = NULL;
	rank->read_times = NULL;
	rank->counts = NULL;
}

void world_close(struct world *world)
{
	for (int r = 0; world->ranks && r < world->map->ranks; r++) {
		end_call(&world->ranks[r]);
		free(world->ranks[r].stable);
		free(world->ranks[r].contexts);
		free(world->ranks[r].clock);
	}
	for (int call = 0; world->expected && call < world->calls; call++)
		free(world->expected[call]);
	free(world->expected);
	free(world->ranks);
	free(world->values);
	queues_close(&world->queues);
	fold_close(&world->folds);
}

/* Elements from a to b. Of other v-forms than all_to_all_v the block of one rank, whichever the other one is. */
size_t world_block(const struct world *world, int coll, int a, int b)
{
	const struct collective *c = &coll_table[coll];
	const int owner = c->recv == COLL_UNEVEN ? a : b, n = world->map->ranks;
	return world->options->v_counts[c->send == c->recv ? a * n + b : owner * n];
}

/* A side's counts and displacements, with a gap of one element before each block; the elements of its buffer. */
static size_t make_side(const struct world *world, int coll, int me, int sends, size_t *counts,
			size_t *displs)
{
	size_t end = 0;
	for (int r = 0; r < world->map->ranks; r++) {
		counts[r] = sends ? world_block(world, coll, me, r) : world_block(world, coll, r, me);
		displs[r] = ++end;
		end += counts[r];
	}
	return end;
}

/* The arrays of a v-form, of the sides on which the rank has some; on others it has a block of its own, or none. */
static int make_counts(struct world *world, struct rank *rank, int me)
{
	const int coll = rank->plan->key.coll, root = world->options->root;
	const struct collective *c = &coll_table[coll];
	const size_t n = (size_t)world->map->ranks;
	const int sends = me == root || !c->root_sends, receives = me == root || !c->root_receives;
	size_t *room = rank->counts = malloc(4 * n * sizeof(size_t));
	if (!room)
		return 0;
	rank->own = c->send == c->recv ? 0 : world_block(world, coll, me, me);
	rank->send_count = sends ? rank->own : 0;
	rank->recv_count = receives ? rank->own : 0;
	memset(rank->arrays, 0, sizeof rank->arrays);
	if (sends && c->send == COLL_UNEVEN) {
		rank->send_count = make_side(world, coll, me, 1, room, room + n);
		rank->arrays[0] = room;
		rank->arrays[1] = room + n;
	}
	if (receives && c->recv == COLL_UNEVEN) {
		rank->recv_count = make_side(world, coll, me, 0, room + 2 * n, room + 3 * n);
		rank->arrays[2] = room + 2 * n;
		rank->arrays[3] = room + 3 * n;
	}
	return 1;
}

/* The element of a rank's send (receive) buffer at which the other one begins in place. */
static size_t own_at(const struct world *world, const struct rank *rank, int me, int sends)
{
	const size_t *displs = rank->arrays[sends ? 1 : 3];
	const int coll = rank->plan->key.coll;
	if (coll_is_uneven(coll))
		return displs ? displs[me] : 0;
	return world->options->count * (sends ? coll_send_own(coll, me) : coll_recv_own(coll, me));
}

/* Sizes of the buffers, and where they lie in the rank's cells: SEND, RECV, SCRATCH, or one inside the other. */
static int lay_out(struct world *world, struct rank *rank, int me)
{
	const struct check_options *o = world->options;
	int coll = rank->plan->key.coll, n = world->map->ranks;
	rank->send_count = o->count * coll_send_blocks(coll, n, me, o->root);
	rank->recv_count = o->count * coll_recv_blocks(coll, n, me, o->root);
	if (coll_is_uneven(coll) && !make_counts(world, rank, me))
		return 0;
	rank->send_at = 0;
	rank->recv_at = rank->send_count;
	size_t end = rank->send_count + rank->recv_count;
	if (o->in_place && rank->send_count && rank->recv_count) { /* else there is nothing to be in place */
		rank->send_at = own_at(world, rank, me, 0);
		rank->recv_at = own_at(world, rank, me, 1);
		end = rank->send_count > rank->recv_count ? rank->send_count : rank->recv_count;
	}
	rank->scratch_at = end;
	rank->scratch_per_channel = rank->plan->scratch_cells * (rank->plan->spans ? o->count : o->chunk);
	rank->ncells = end + rank->scratch_per_channel * rank->plan->channels;
	return 1;
}

static void begin_context(struct world *world, struct rank *rank, int me, int i)
{
	const struct check_options *o = world->options;
	struct context *c = &rank->contexts[i];
	c->channel = i / rank->plan->nprograms;
	c->program = i % rank->plan->nprograms;
	int root = rank->plan == world->send ? world->to : rank->plan == world->recv ? world->from : o->root;
	plan_env_init(&c->env, rank->plan, world->map, me, root, o->count);
	c->env.channel = c->channel;
	c->env.chunk = o->chunk ? o->chunk : c->env.chunk;
	c->env.unit = o->unit ? o->unit : c->env.unit;
	c->env.chunks = plan_chunks(rank->plan, &c->env, o->count);
	if (rank->counts)
		plan_env_uneven(&c->env, rank->plan, rank->arrays, rank->own);
	plan_cursor_start(&c->cursor, rank->plan, c->program);
	c->has_action = c->done = 0;
	memcpy(c->clock, rank->clock, (size_t)world->nclock * sizeof(int));
}

int world_begin_call(struct world *world, struct rank *rank)
{
	int me = (int)(rank - world->ranks);
	for (int i = 0; i < rank->ncontexts; i++)
		for (int k = 0; k < world->nclock; k++)
			if (rank->contexts[i].clock[k] > rank->clock[k])
				rank->clock[k] = rank->contexts[i].clock[k];
	end_call(rank);
	rank->ncontexts = 0;
	rank->done = ++rank->call == world->calls;
	rank->plan = rank->done ? rank->plan : plan_of_call(world, me, rank->call);
	if (rank->done || !rank->plan)
		return 0;
	if (!lay_out(world, rank, me))
		return world_fail(world, NULL, "out of memory");
	int contexts = rank->plan->nprograms * rank->plan->channels;
	rank->cells = calloc(rank->ncells + 1, sizeof(*rank->cells));
	rank->read_times =
	    calloc((rank->ncells + 1) * (size_t)(contexts > 1 ? contexts : 0) + 1, sizeof(int));
	if (!rank->cells || !rank->read_times)
		return world_fail(world, NULL, "out of memory");
	for (size_t i = 0; i < rank->send_count; i++)
		rank->cells[rank->send_at + i].value = value_make(me, i);
	rank->ncontexts = contexts;
	for (int i = 0; i < contexts; i++)
		begin_context(world, rank, me, i);
	return 0;
}
