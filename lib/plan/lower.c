/* SPDX-License-Identifier: BSD-3-Clause */
/* From a plan to lists of operations: a walk over its steps that unrolls every loop but those over chunks. */
#include "lower.h"

#include <stdlib.h>
#include <string.h>

#include "corale.h"

struct lowering {
	const struct plan *plan;
	struct plan_env env;
	int var[PLAN_MAX_LOOPS], depth;
	int kept; /* depth of the loop over chunks around the step; -1: none */
	int rolls; /* loops become REPEATs where they can */
	int rolling; /* within one that tries to */
	struct lowered *out;
	int room, peer_room, program; /* program: its first operation */
	int most; /* operations of a program; 0: any number */
	int error;
	const char *why;
};

static void fail(struct lowering *l, int error, const char *why)
{
	l->why = l->error ? l->why : why;
	l->error = l->error ? l->error : error;
}

/* ---- The lists ------------------------------------------------------------------------------------------ */

static void append(struct lowering *l, const struct lowered_op *op)
{
	struct lowered *out = l->out;
	/* What is rolled is there twice for a while. */
	if (l->most && out->nops - l->program == (l->rolls ? 3 : 1) * l->most) {
		fail(l, CORALE_ENOTSUP, "too many operations");
		return;
	}
	if (out->nops == l->room) {
		l->room = l->room ? 2 * l->room : 32;
		struct lowered_op *ops = realloc(out->ops, (size_t)l->room * sizeof *ops);
		if (!ops) {
			fail(l, CORALE_ENOMEM, "no memory");
			return;
		}
		out->ops = ops;
	}
	out->ops[out->nops++] = *op;
}

/* The index of so many peers in the list's; equal lists share it. */
static uint16_t index_of_peers(struct lowering *l, const struct lowered_peer *peers, int n)
{
	struct lowered *out = l->out;
	for (int i = 0; i + n <= out->npeers; i++)
		if (!memcmp(out->peers + i, peers, (size_t)n * sizeof *peers))
			return (uint16_t)i;
	if (out->npeers + n > l->peer_room) {
		l->peer_room = 2 * (out->npeers + n);
		struct lowered_peer *all = realloc(out->peers, (size_t)l->peer_room * sizeof *all);
		if (!all) {
			fail(l, CORALE_ENOMEM, "no memory");
			return 0;
		}
		out->peers = all;
	}
	memcpy(out->peers + out->npeers, peers, (size_t)n * sizeof *peers);
	out->npeers += n;
	return (uint16_t)(out->npeers - n);
}

/* Messages that the operations so far, from first on, send to a rank along a queue, or receive from it. */
static int count_messages(const struct lowered *list, int first, int queue, int rank, int sending)
{
	int n = 0;
	for (int i = first; i < list->nops; i++) {
		const struct lowered_op *op = &list->ops[i];
		int at = sending ? op->to_first : op->from_first,
		    count = sending ? op->to_count : op->from_count;
		for (int k = 0; k < count && (sending ? op->to_queue : op->from_queue) == queue; k++)
			n += list->peers[at + k].rank == rank;
	}
	return n;
}

/* ---- What may depend on a chunk's number ----------------------------------------------------------------- */

static int depends(const struct lowering *l, int e)
{
	return l->kept >= 0 && plan_depends(l->plan, e, l->kept);
}

static int step_depends(const struct lowering *l, const struct plan_step *step)
{
	const struct plan_span *s = &step->src, *d = &step->dst;
	const uint8_t all[] = { step->pred_a, step->pred_b, step->from,   step->to, step->rail,
				step->trips,  s->block,     s->part,      s->inner, d->block,
				d->part,      d->inner,     step->blocks, step->run };
	for (size_t i = 0; i < sizeof all; i++)
		if (depends(l, all[i]))
			return 1;
	return 0;
}

/* ---- Steps ---------------------------------------------------------------------------------------------- */

/* An index that may be none. Returns 0 where the step is to be skipped. */
static int resolve(const struct lowering *l, uint8_t e, int most, int16_t *out)
{
	int value = e ? plan_value(l->plan, &l->env, l->var, e) : PLAN_NONE;
	*out = (int16_t)value;
	return !e || (value >= 0 && value < most);
}

static int lower_span(struct lowering *l, const struct plan_span *span, struct lowered_span *out)
{
	const struct plan_expr *chunk = &l->plan->exprs[span->chunk];
	*out = (struct lowered_span){ span->space, LOWERED_NO_CHUNK, PLAN_NONE, PLAN_NONE, PLAN_NONE };
	if (span->space == PLAN_NOWHERE)
		return 1;
	if (span->chunk) {
		if (l->kept < 0 || !depends(l, span->chunk) || chunk->base != PLAN_CONST || chunk->wrap ||
		    chunk->stride != 1 || chunk->offset < -100 || chunk->offset > 100)
			fail(l, CORALE_ENOTSUP, "a chunk that is not the loop's own or one near it");
		out->chunk = (int8_t)chunk->offset;
	}
	return resolve(l, span->block, INT16_MAX, &out->block) &&
	       resolve(l, span->part, l->plan->parts, &out->part) &&
	       resolve(l, span->inner, INT16_MAX, &out->inner);
}

/* The ranks that a step's from or to names, with this rank among ALL that it receives from. Returns 0 where the step is to be skipped. */
static int lower_peers(struct lowering *l, int group, int rail, uint8_t e, int queue, int sending,
		       uint16_t *first, uint16_t *count)
{
	const struct plan_map *map = &l->env.map;
	int skip = 0, who = plan_peer(l->plan, &l->env, l->var, group, rail, e, &skip), n = 0;
	int size = who == PLAN_ALL ? plan_group_size(map, group, l->env.rank) : who != PLAN_NONE;
	struct lowered_peer *peers = malloc((size_t)(size + 1) * sizeof *peers);
	if (!peers) {
		fail(l, CORALE_ENOMEM, "no memory");
		return 0;
	}
	for (int i = 0; i < size; i++) {
		int rank = who == PLAN_ALL ? plan_group_member(map, group, l->env.rank, rail, i) : who;
		int number = l->rolls ? 0 : count_messages(l->out, l->program, queue, rank, sending);
		if (who != PLAN_ALL || !sending || rank != l->env.rank)
			peers[n++] = (struct lowered_peer){ (int16_t)rank, (uint16_t)number };
	}
	*first = n ? index_of_peers(l, peers, n) : 0;
	*count = (uint16_t)n;
	free(peers);
	return !skip;
}

/* The number of a step's blocks; one is as if nothing was said of it. Returns 0 where the step is to be skipped. */
static int lower_blocks(struct lowering *l, const struct plan_step *step, struct lowered_op *op)
{
	if (!step->blocks)
		return 1;
	const int n = plan_value(l->plan, &l->env, l->var, step->blocks),
		  run = step->run ? plan_value(l->plan, &l->env, l->var, step->run) : 1 << LOWERED_ONE_RUN;
	if (n > INT16_MAX || run < 1 || run & (run - 1))
		fail(l, CORALE_ENOTSUP, "several blocks that are not in runs of a power of two");
	if (n > 1) {
		op->flags |= LOWERED_BLOCKS;
		op->blocks = (int16_t)n;
		while (1 << op->run_bits < run)
			op->run_bits++;
		if (step->flags & PLAN_BACK)
			op->run_bits = LOWERED_BACK;
	}
	return n > 0;
}

static void lower_step(struct lowering *l, const struct plan_step *step)
{
	if (step_depends(l, step))
		fail(l, CORALE_ENOTSUP, "more than a chunk depends on the chunk's number");
	if (step->cells)
		fail(l, CORALE_ENOTSUP, "a fold of several cells");
	if (l->error || !plan_predicate(l->plan, &l->env, l->var, step))
		return;
	int rail =
	    step->rail ? plan_value(l->plan, &l->env, l->var, step->rail) : l->env.map.local_of[l->env.rank];
	struct lowered_op op = { .op = step->op,
				 .flags = step->flags & ~PLAN_BACK,
				 .from_queue = step->from_queue,
				 .to_queue = step->to_queue };
	if (step->from == PLAN_EXPR_ALL)
		op.flags |= LOWERED_ALL;
	if (rail >= 0 && lower_blocks(l, step, &op) &&
	    lower_peers(l, step->from_group, rail, step->from, step->from_queue, 0, &op.from_first,
			&op.from_count) &&
	    lower_peers(l, step->to_group, rail, step->to, step->to_queue, 1, &op.to_first, &op.to_count) &&
	    lower_span(l, &step->src, &op.src) && lower_span(l, &step->dst, &op.dst))
		append(l, &op);
}

/* ---- Loops ---------------------------------------------------------------------------------------------- */

static void lower_steps(struct lowering *l, int pc, int end);

static void keep_loop(struct lowering *l, const struct plan_expr *trips, int body, int end)
{
	struct lowered_op op = { .op = PLAN_LOOP, .src.chunk = (int8_t)trips->offset };
	if (l->kept >= 0 || trips->offset < 0 || trips->offset > 100)
		fail(l, CORALE_ENOTSUP, "loops over chunks within each other");
	if (trips->base != PLAN_CHUNKS) {
		op.trips = trips->base == PLAN_SEND_CHUNKS ? LOWERED_SEND_CHUNKS : LOWERED_RECV_CHUNKS;
		op.trips_peer = (int16_t)plan_simple(l->plan, &l->env, l->var, trips->a);
	}
	append(l, &op);
	l->kept = l->depth;
	l->var[l->depth++] = 0;
	lower_steps(l, body, end);
	l->depth--;
	l->kept = -1;
	append(l, &(struct lowered_op){ .op = PLAN_END });
}

/* ---- Rolled ones ------------------------------------------------------------------------------------------ */

/* A part of a plan, and which trip of its loop. */
struct turn {
	int depth, body, end;
};

static void lower_turn(struct lowering *l, const struct turn *t, int trip)
{
	l->var[t->depth] = trip;
	lower_steps(l, t->body, t->end);
}

/* How many turns from trip on, `first` being the first operation of it and n their number, go on as the second does. */
static int count_turns(struct lowering *l, const struct turn *t, int trip, int trips, int first, int n)
{
	struct lowered *out = l->out;
	int times = 1, follows = 1;
	for (; follows && trip + times < trips && times < INT16_MAX; times += follows) {
		const int tail = out->nops, npeers = out->npeers;
		lower_turn(l, t, trip + times);
		follows = !l->error && n == out->nops - tail &&
			  (times > 1 || lower_roll_start(out, l->plan, &l->env.map, first, n)) &&
			  lower_roll_follows(out, l->plan, &l->env.map, first, n, times);
		out->nops = tail;
		out->npeers = npeers;
	}
	return times;
}

/* The ranks of all turns, one behind the other. */
static void add_turns(struct lowering *l, struct lowered_op *op, uint16_t *first, int count, int times)
{
	struct lowered_peer *peers = malloc((size_t)count * (size_t)times * sizeof *peers);
	if (!peers)
		fail(l, CORALE_ENOMEM, "no memory");
	for (int k = 0; peers && k < count * times; k++) {
		const int rank = l->out->peers[*first + k % count].rank + k / count * op->stride;
		peers[k] = (struct lowered_peer){ (int16_t)lowered_wrap(rank, l->env.map.ranks), 0 };
	}
	if (peers)
		*first = index_of_peers(l, peers, count * times);
	free(peers);
}

static void end_repeat(struct lowering *l, int repeat, int times)
{
	struct lowered *out = l->out;
	out->ops[repeat].times = (int16_t)times;
	for (int i = repeat + 1; !l->error && i < out->nops; i++) {
		struct lowered_op *op = &out->ops[i];
		if (op->op == PLAN_LOOP)
			continue;
		if (op->moves & LOWERED_FROM)
			add_turns(l, op, &op->from_first, op->from_count, times);
		if (op->moves & LOWERED_TO)
			add_turns(l, op, &op->to_first, op->to_count, times);
	}
	append(l, &(struct lowered_op){ .op = LOWERED_AGAIN, .body = (int16_t)(out->nops - repeat - 1) });
}

/* One turn, without a REPEAT. */
static void drop_repeat(struct lowering *l, int repeat)
{
	struct lowered *out = l->out;
	memmove(out->ops + repeat, out->ops + repeat + 1,
		(size_t)(out->nops - repeat - 1) * sizeof *out->ops);
	out->nops--;
	for (int i = repeat; i < out->nops; i++)
		if (out->ops[i].op != PLAN_LOOP && !(out->ops[i].flags & LOWERED_BLOCKS))
			out->ops[i].moves = 0, out->ops[i].stride = 0;
}

/* Turns that differ as others do are a REPEAT each, others stand for themselves. */
static void roll_loop(struct lowering *l, const struct turn *t, int trips)
{
	enum { LEAST_TIMES = 3 };
	struct lowered *out = l->out;
	l->rolling = 1;
	for (int trip = 0, times; !l->error && trip < trips; trip += times) {
		const int repeat = out->nops;
		append(l, &(struct lowered_op){ .op = LOWERED_REPEAT });
		lower_turn(l, t, trip);
		const int n = out->nops - repeat - 1;
		times = l->error ? 1 : count_turns(l, t, trip, trips, repeat + 1, n);
		if (l->error)
			break;
		if (n && times >= LEAST_TIMES) {
			end_repeat(l, repeat, times);
			continue;
		}
		times = n ? 1 : times;
		drop_repeat(l, repeat);
	}
	l->rolling = 0;
}

static void lower_loop(struct lowering *l, const struct plan_step *step, int body, int end)
{
	const struct plan_expr *trips = &l->plan->exprs[step->trips];
	if (step_depends(l, step))
		fail(l, CORALE_ENOTSUP, "a loop within one over chunks that depends on the chunk's number");
	if (l->error || !plan_predicate(l->plan, &l->env, l->var, step))
		return;
	if (plan_bases[trips->base].counts_chunks) {
		keep_loop(l, trips, body, end);
		return;
	}
	int n = plan_value(l->plan, &l->env, l->var, step->trips), depth = l->depth++;
	if (l->rolls && !l->rolling && n > 2)
		roll_loop(l, &(struct turn){ depth, body, end }, n);
	else
		for (l->var[depth] = 0; !l->error && l->var[depth] < n; l->var[depth]++)
			lower_steps(l, body, end);
	l->var[depth] = 0;
	l->depth = depth;
}

static void lower_steps(struct lowering *l, int pc, int end)
{
	while (!l->error && pc < end) {
		const struct plan_step *step = &l->plan->steps[pc++];
		if (step->op == PLAN_LOOP) {
			int after = plan_loop_end(l->plan, pc);
			lower_loop(l, step, pc, after - 1);
			pc = after;
		} else {
			lower_step(l, step);
		}
	}
}

int lower_within(const struct plan *plan, const struct plan_map *map, int rank, int root, int rolls, int most,
		 struct lowered *out, const char **why)
{
	struct lowering l = { .plan = plan, .out = out, .kept = -1, .rolls = rolls, .most = most };
	l.env = (struct plan_env){ .map = *map, .rank = rank, .root = root, .unit = 1, .chunk = 1 };
	*out = (struct lowered){ .nprograms = plan->nprograms };
	for (int p = 0; p < plan->nprograms; p++) {
		const struct plan_program *program = &plan->programs[p];
		l.program = out->nops;
		lower_steps(&l, program->first, program->first + program->steps);
		out->first[p + 1] = out->nops;
		if (!l.error && most && out->nops - l.program > most)
			fail(&l, CORALE_ENOTSUP, "too many operations");
	}
	if (!l.error && out->npeers > UINT16_MAX)
		fail(&l, CORALE_ENOTSUP, "too many peers");
	*why = l.why;
	if (l.error)
		lowered_free(out);
	return l.error;
}

void lowered_free(struct lowered *lowered)
{
	free(lowered->ops);
	free(lowered->peers);
	lowered->ops = NULL;
	lowered->peers = NULL;
}

void lowered_call_init(struct lowered_call *call, const struct plan *plan, const struct plan_env *env)
{
	*call = (struct lowered_call){ .count = env->count,
				       .chunk = plan_cell_elements(plan, env),
				       .unit = env->unit,
				       .parts = plan->parts,
				       .inner = plan->inner,
				       .channels = plan->channels,
				       .ranks = env->map.ranks,
				       .chunks = env->chunks,
				       .send_counts = env->send_counts,
				       .send_displs = env->send_displs,
				       .recv_counts = env->recv_counts,
				       .recv_displs = env->recv_displs };
}
