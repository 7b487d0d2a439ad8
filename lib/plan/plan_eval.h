/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a plan is read: expressions, spans and a cursor that walks one program of one channel of one
 * rank and yields concrete actions. Every engine, the checker, the simulator and the printer read
 * plans through this file, which compiles as C99 and as CUDA; there is no second interpretation.
 */
#ifndef PLAN_EVAL_H
#define PLAN_EVAL_H

#include "plan.h"

/* PLAN_FN_LARGE: what a kernel must not have many copies of; inlined everywhere it took ten times as long to compile. */
#ifdef __CUDACC__
#define PLAN_FN __host__ __device__ static inline
#define PLAN_FN_LARGE __host__ __device__ static __noinline__
#else
#define PLAN_FN static inline
#define PLAN_FN_LARGE static inline
#endif

/* What a call adds to a plan, the same on all ranks but for rank, channel and the v-forms' arrays. */
struct plan_env {
	struct plan_map map;
	int rank, root; /* root: of rooted collectives; the peer of send and recv */
	int channel;
	size_t
	    count; /* elements of one block (of the whole vector where there are no blocks); of a v-form the largest that this rank knows */
	size_t
	    own; /* elements of a span without a block, or of one in scratch; of a v-form this rank's own block */
	size_t chunk; /* elements of one chunk: plan_chunk_elements() */
	size_t unit; /* elements of PLAN_UNIT_BYTES */
	int chunks; /* plan_chunks() of count */
	const size_t *send_counts, *send_displs, *recv_counts,
	    *recv_displs; /* of v-forms, by rank; else NULL */
};

struct plan_location {
	int space, block; /* enum plan_space; block index or -1 */
	size_t offset; /* elements from the start of the space (SCRATCH: of this channel's cells) */
};

struct plan_action {
	int op, flags;
	int from, to; /* rank, PLAN_NONE or PLAN_ALL */
	int from_queue, to_queue;
	int from_group, to_group; /* of PLAN_ALL */
	int rail;
	int run; /* blocks of a run, each of which is followed by as many that are left out; 0: there is one */
	int cells; /* that are folded: where they are, plan_cell_at; 0: src is no such list */
	struct plan_location src, dst; /* space PLAN_NOWHERE when absent */
	size_t count; /* elements moved; 0 sends a message without payload */
};

struct plan_cursor {
	int program, pc, end, depth;
	int var[PLAN_MAX_LOOPS], trips[PLAN_MAX_LOOPS], body[PLAN_MAX_LOOPS];
};

PLAN_FN size_t plan_div_up(size_t a, size_t b)
{
	return a / b + (a % b != 0);
}

/* The next multiple of unit. */
PLAN_FN uint64_t plan_round(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

PLAN_FN int plan_group_size(const struct plan_map *map, int group, int rank)
{
	if (group == PLAN_WORLD)
		return map->ranks;
	if (group == PLAN_RAIL)
		return map->nodes;
	int node = map->node_of[rank];
	return map->node_first[node + 1] - map->node_first[node];
}

PLAN_FN int plan_group_index(const struct plan_map *map, int group, int rank)
{
	return group == PLAN_WORLD ? rank : group == PLAN_NODE ? map->local_of[rank] : map->node_of[rank];
}

/* The rank with index i in rank's group (rail: which one, for PLAN_RAIL). */
PLAN_FN int plan_group_member(const struct plan_map *map, int group, int rank, int rail, int i)
{
	if (group == PLAN_WORLD)
		return i;
	int node = group == PLAN_NODE ? map->node_of[rank] : i;
	int first = map->node_first[node];
	return map
	    ->member[group == PLAN_NODE ? first + i : first + rail % (map->node_first[node + 1] - first)];
}

/* Elements [*begin, *begin + result) of piece i when length elements are cut into n pieces at multiples of unit. */
PLAN_FN_LARGE size_t plan_cut(size_t length, size_t unit, size_t n, size_t i, size_t *begin)
{
	*begin = 0;
	if (n == 1)
		return length;
	size_t units = plan_div_up(length, unit), each = units / n, more = units % n;
	size_t first = (i * each + (i < more ? i : more)) * unit;
	size_t last = first + (each + (i < more)) * unit;
	first = first < length ? first : length;
	last = last < length ? last : length;
	*begin = first;
	return last - first;
}

/* The same of the window with that number: the halves of a window begin where its units are halved, the first is not the shorter one. */
PLAN_FN size_t plan_cut_window(size_t length, size_t unit, unsigned window, size_t *begin)
{
	size_t first = 0, units = plan_div_up(length, unit);
	unsigned bit = 1;
	while (window >> 1 >= bit)
		bit <<= 1;
	while (bit >>= 1) {
		size_t half = (units + 1) / 2;
		first += window & bit ? half : 0;
		units = window & bit ? units - half : half;
	}
	size_t last = (first + units) * unit;
	last = last < length ? last : length;
	*begin = first * unit < length ? first * unit : length;
	return last - *begin;
}

/* The same of a chunk's inner piece or window. */
PLAN_FN_LARGE size_t plan_cut_inner(size_t length, size_t unit, int pieces, int inner, size_t *begin)
{
	return inner < pieces ? plan_cut(length, unit, (size_t)pieces, (size_t)inner, begin)
			      : plan_cut_window(length, unit, (unsigned)(inner - pieces + 1), begin);
}

/* Chunks of a vector of count elements: those of its largest part and slice, at least 1 (an empty message still goes). */
PLAN_FN_LARGE int plan_chunks_of(size_t count, size_t unit, int parts, int channels, size_t chunk)
{
	size_t begin;
	size_t length = plan_cut(count, unit, (size_t)parts, 0, &begin);
	length = plan_cut(length, unit, (size_t)channels, 0, &begin);
	size_t chunks = plan_div_up(length, chunk);
	return chunks ? (int)chunks : 1;
}

PLAN_FN int plan_chunks(const struct plan *plan, const struct plan_env *env, size_t count)
{
	return plan_chunks_of(count, env->unit, plan->parts, plan->channels, env->chunk);
}

/* The window of member id of a power of two after a step: one bit of the path from the whole for each step's half. */
PLAN_FN int plan_halving(int base, int id, int step)
{
	int window = 1;
	for (int s = 0; s <= step; s++)
		window = 2 * window + (id >> s & 1);
	return base == PLAN_HALVING_GIVEN ? window ^ 1 : window;
}

PLAN_FN int plan_doubling(int base, int n, int me, int step)
{
	int core = 1;
	while (core * 2 <= n)
		core *= 2;
	int extra = n - core; /* ranks 0 .. 2 extra - 1 pair up: even ones hand over to odd ones */
	int paired = me < 2 * extra, is_odd = me & 1;
	if (base == PLAN_DOUBLING_GIVE)
		return paired && !is_odd ? me + 1 : PLAN_NONE;
	if (base == PLAN_DOUBLING_TAKE)
		return paired && is_odd ? me - 1 : PLAN_NONE;
	if (paired && !is_odd)
		return PLAN_NONE;
	int id = paired ? me / 2 : me - extra;
	if (base != PLAN_DOUBLING)
		return plan_halving(base, id, step);
	id ^= 1 << step;
	return id < extra ? 2 * id + 1 : id + extra;
}

PLAN_FN int plan_log2(int n)
{
	int log = 0;
	while (n >>= 1)
		log++;
	return log;
}

PLAN_FN int plan_wrap(int value, int size)
{
	value %= size;
	return value < 0 ? value + size : value;
}

/* A member's parent or child of a level in the binomial tree of n positions, as a position. */
PLAN_FN int plan_tree(int base, int n, int position, int level)
{
	int lowest = position ? position & -position : n;
	if (base == PLAN_TREE_PARENT)
		return position ? position - lowest : PLAN_NONE;
	int step = level < 0 || level > 30 ? n : 1 << level;
	return step < lowest && step < n - position ? position + step : PLAN_NONE;
}

/* Members of the subtree of a position. */
PLAN_FN int plan_subtree(int n, int position)
{
	const int most = position ? position & -position : n;
	return most < n - position ? most : n - position;
}

PLAN_FN int plan_from_position(int position, int root, int n)
{
	return position < 0 ? PLAN_NONE : plan_wrap(position + root, n);
}

/* How often a member has to have `radix` times as many before it has all. */
PLAN_FN int plan_count_rounds(int size, int radix)
{
	int rounds = 0;
	for (int64_t power = 1; power < size; power *= radix)
		rounds++;
	return rounds;
}

/* A round's distance, the member so far away, or how many blocks go there. */
PLAN_FN int plan_bruck(const struct plan_expr *x, int size, int me, int round)
{
	int power = 1;
	for (int left = x->wrap ? plan_count_rounds(size, x->radix) - 1 - round : round; left > 0; left--)
		power *= x->radix;
	const int distance = x->digit * power, missing = size - distance;
	if (x->base == PLAN_BRUCK_PEER)
		return missing > 0 ? plan_wrap(me + x->stride * distance + x->offset, size) : PLAN_NONE;
	if (x->base == PLAN_BRUCK_SET) {
		const int rest = size % (2 * distance) - distance;
		return size / (2 * distance) * distance + (rest > 0 ? rest : 0) + x->offset;
	}
	if (x->base == PLAN_BRUCK_BLOCKS && missing <= 0)
		return PLAN_NONE;
	const int members = x->base == PLAN_BRUCK_DISTANCE ? distance : power < missing ? power : missing;
	return members * (x->stride > 0 ? x->stride : 1) + x->offset;
}

/* Values that follow from the root's index. */
PLAN_FN int plan_rooted(const struct plan_expr *x, const struct plan_env *env, const int *var, int size)
{
	int root = plan_group_index(&env->map, x->group, env->root);
	int position = plan_wrap(plan_group_index(&env->map, x->group, env->rank) - root, size);
	if (x->base == PLAN_POSITION)
		return position + x->offset;
	if (x->base == PLAN_TREE_OWN)
		return plan_subtree(size, position) + x->offset;
	const int base = x->base == PLAN_TREE_PARENT ? PLAN_TREE_PARENT : PLAN_TREE_CHILD,
		  other = plan_tree(base, size, position, x->stride * var[x->var] + x->offset);
	if (x->base == PLAN_TREE_BLOCKS)
		return other < 0 ? PLAN_NONE : plan_subtree(size, other);
	return plan_from_position(other, plan_wrap(root, size), size);
}

/* The value of an expression with a simple base. */
PLAN_FN_LARGE int plan_simple(const struct plan *plan, const struct plan_env *env, const int *var, int e)
{
	const struct plan_expr *x = &plan->exprs[e];
	const struct plan_map *map = &env->map;
	int size = plan_group_size(map, x->group, env->rank), value = 0, root;
	switch (x->base) {
	case PLAN_ME:
		value = plan_group_index(map, x->group, env->rank);
		break;
	case PLAN_AHEAD:
		value = -plan_group_index(map, x->group, env->rank);
		break;
	case PLAN_ROOT:
		value = plan_group_index(map, x->group, env->root);
		break;
	case PLAN_OTHERS:
		value = plan_wrap(
		    plan_group_index(map, x->group, env->rank) + x->stride * var[x->var] + x->offset, size);
		root = plan_group_index(map, x->group, env->root);
		return value == root ? PLAN_NONE : value - (value > root);
	case PLAN_SIZE:
		value = size;
		break;
	case PLAN_OWNED:
		value = (map->max_node_size + plan_group_size(map, PLAN_NODE, env->rank) - 1) /
			plan_group_size(map, PLAN_NODE, env->rank);
		break;
	case PLAN_CHUNKS:
		value = env->chunks;
		break;
	case PLAN_DOUBLING_STEPS:
		value = plan_log2(size);
		break;
	case PLAN_DOUBLING_GIVE:
	case PLAN_DOUBLING_TAKE:
		return plan_doubling(x->base, size, plan_group_index(map, x->group, env->rank), 0);
	case PLAN_DOUBLING:
	case PLAN_HALVING_KEPT:
	case PLAN_HALVING_GIVEN:
		return plan_doubling(x->base, size, plan_group_index(map, x->group, env->rank),
				     x->stride * var[x->var] + x->offset);
	case PLAN_ROUNDS:
		value = plan_count_rounds(size, x->radix);
		break;
	case PLAN_POSITION:
	case PLAN_TREE_PARENT:
	case PLAN_TREE_CHILD:
	case PLAN_TREE_BLOCKS:
	case PLAN_TREE_OWN:
		return plan_rooted(x, env, var, size);
	case PLAN_BRUCK_PEER:
	case PLAN_BRUCK_BLOCKS:
	case PLAN_BRUCK_DISTANCE:
	case PLAN_BRUCK_SET:
		return plan_bruck(x, size, plan_group_index(map, x->group, env->rank), var[x->var]);
	default:
		break;
	}
	value += x->stride * var[x->var] + x->offset;
	return x->wrap ? plan_wrap(value, size) : value;
}

PLAN_FN int plan_rail_of(const struct plan *plan, const struct plan_env *env, const int *var, int e)
{
	const struct plan_expr *x = &plan->exprs[e];
	if (x->base != PLAN_RAIL_OF)
		return plan_simple(plan, env, var, e);
	int local = plan_simple(plan, env, var, x->a);
	int part = local + var[x->var] * plan_group_size(&env->map, PLAN_NODE, env->rank);
	return local >= 0 && part < env->map.max_node_size ? part : PLAN_NONE;
}

/* The value of expression e; negative: none. Three levels instead of recursion, which GPUs pay for. */
PLAN_FN_LARGE int plan_value(const struct plan *plan, const struct plan_env *env, const int *var, int e)
{
	const struct plan_expr *x = &plan->exprs[e];
	const struct plan_map *map = &env->map;
	int a, b;
	switch (x->base) {
	case PLAN_RANK_AT:
		a = plan_rail_of(plan, env, var, x->a);
		b = plan_rail_of(plan, env, var, x->b);
		if (a < 0 || b < 0 || a >= map->nodes || b >= map->node_first[a + 1] - map->node_first[a])
			return PLAN_NONE;
		return map->member[map->node_first[a] + b];
	case PLAN_SEND_CHUNKS:
		a = plan_simple(plan, env, var, x->a);
		return plan_chunks(plan, env, env->send_counts ? env->send_counts[a] : env->count);
	case PLAN_RECV_CHUNKS:
		a = plan_simple(plan, env, var, x->a);
		return plan_chunks(plan, env, env->recv_counts ? env->recv_counts[a] : env->count);
	default:
		return plan_rail_of(plan, env, var, e);
	}
}

/* A span of several blocks from its element `done` on: how many elements lie together, up to the end of a run or of the buffer, at whose start the
 * others are; *offset: where, in the span's space. */
PLAN_FN size_t plan_span_run(const struct plan_env *env, const struct plan_action *action,
			     const struct plan_location *location, size_t done, size_t *offset)
{
	const size_t count = action->count, left = count - done;
	*offset = location->offset + done;
	if (count <= env->count || location->block < 0)
		return left;
	if (location->space == PLAN_SCRATCH) {
		const size_t run = action->run ? (size_t)action->run * env->count : count,
			     rest = run - done % run;
		*offset += done / run * run;
		return left < rest ? left : rest;
	}
	if (action->flags & PLAN_BACK) {
		const size_t before = done / env->count, in = done % env->count;
		*offset = (size_t)plan_wrap(location->block - (int)before, env->map.ranks) * env->count + in;
		return env->count - in;
	}
	const size_t room = (size_t)(env->map.ranks - location->block) * env->count;
	if (done >= room)
		*offset = done - room;
	return done < room && left > room - done ? room - done : left;
}

/* Elements of a cell of scratch. */
PLAN_FN size_t plan_cell_elements(const struct plan *plan, const struct plan_env *env)
{
	return plan->spans ? env->count : env->chunk;
}

/* The i-th cell that an action folds. */
PLAN_FN struct plan_location plan_cell_at(const struct plan *plan, const struct plan_env *env,
					  const struct plan_action *action, int i)
{
	const size_t cell = plan_cell_elements(plan, env), first = (size_t)action->src.block,
		     at = (first + (size_t)i) % plan->scratch_cells;
	struct plan_location location = action->src;
	location.block = (int)at;
	location.offset = action->src.offset - first * cell + at * cell;
	return location;
}

/* Resolves one span; returns its number of elements, or -1 when the step is to be skipped. */
PLAN_FN_LARGE ptrdiff_t plan_locate(const struct plan *plan, const struct plan_env *env, const int *var,
				    const struct plan_span *span, struct plan_location *location)
{
	location->space = span->space;
	location->block = PLAN_NONE;
	location->offset = 0;
	if (span->space == PLAN_NOWHERE)
		return 0;
	size_t length = env->own, at = 0, begin, in_chunk = 0;
	if (span->block) {
		int block = location->block = plan_value(plan, env, var, span->block);
		if (block < 0)
			return -1;
		if (span->space == PLAN_SEND && env->send_counts) {
			length = env->send_counts[block];
			at = env->send_displs[block];
		} else if (span->space == PLAN_RECV && env->recv_counts) {
			length = env->recv_counts[block];
			at = env->recv_displs[block];
		} else if (span->space != PLAN_SCRATCH) {
			at = (size_t)block * env->count;
		}
	}
	size_t whole = length;
	if (span->part) {
		int part = plan_value(plan, env, var, span->part);
		if (part < 0 || part >= plan->parts)
			return -1;
		length = plan_cut(length, env->unit, (size_t)plan->parts, (size_t)part, &begin);
		at += begin;
	}
	if (span->chunk) {
		int chunk = plan_value(plan, env, var, span->chunk);
		if (chunk < 0 || chunk >= (whole == env->count ? env->chunks : plan_chunks(plan, env, whole)))
			return -1;
		length = plan_cut(length, env->unit, plan->channels, (size_t)env->channel, &begin);
		size_t first = (size_t)chunk * env->chunk;
		first = first < length ? first : length;
		at += begin + first;
		length = length - first < env->chunk ? length - first : env->chunk;
	}
	if (span->inner) {
		int inner = plan_value(plan, env, var, span->inner);
		if (inner < 0)
			return -1;
		length = plan_cut_inner(length, env->unit, plan->inner, inner, &in_chunk);
		at += in_chunk;
	}
	location->offset = span->space == PLAN_SCRATCH
			       ? (size_t)location->block * plan_cell_elements(plan, env) + in_chunk
			       : at;
	return (ptrdiff_t)length;
}

/* Elements of the whole block, or vector, that an action's messages are of. */
PLAN_FN size_t plan_message_block(const struct plan_env *env, const struct plan_action *action)
{
	const struct plan_location *const spans[] = { &action->src, &action->dst };
	for (int i = 0; i < 2; i++) {
		const struct plan_location *at = spans[i];
		const size_t *counts = at->space == PLAN_SEND   ? env->send_counts
				       : at->space == PLAN_RECV ? env->recv_counts
								: NULL;
		if (counts && at->block >= 0)
			return counts[at->block];
	}
	return action->op == PLAN_MOVE ? env->own : 0;
}

PLAN_FN int plan_predicate(const struct plan *plan, const struct plan_env *env, const int *var,
			   const struct plan_step *step)
{
	if (step->pred == PLAN_ALWAYS)
		return 1;
	int a = plan_value(plan, env, var, step->pred_a), b = plan_value(plan, env, var, step->pred_b);
	return step->pred == PLAN_EQ   ? a == b
	       : step->pred == PLAN_NE ? a != b
	       : step->pred == PLAN_LT ? a < b
				       : a >= b;
}

/* The rank named by a step's from or to: PLAN_NONE when absent, PLAN_ALL; *skip is set when its expression is none. */
PLAN_FN int plan_peer(const struct plan *plan, const struct plan_env *env, const int *var, int group,
		      int rail, int e, int *skip)
{
	if (e == PLAN_EXPR_NONE)
		return PLAN_NONE;
	if (e == PLAN_EXPR_ALL)
		return PLAN_ALL;
	int index = plan_value(plan, env, var, e);
	if (index < 0 || index >= plan_group_size(&env->map, group, env->rank)) {
		*skip = 1;
		return PLAN_NONE;
	}
	return plan_group_member(&env->map, group, env->rank, rail, index);
}

PLAN_FN_LARGE int plan_resolve(const struct plan *plan, const struct plan_env *env, const int *var,
			       const struct plan_step *step, struct plan_action *action)
{
	if (!plan_predicate(plan, env, var, step))
		return 0;
	int skip = 0;
	action->op = step->op;
	action->flags = step->flags;
	action->rail = step->rail ? plan_value(plan, env, var, step->rail) : env->map.local_of[env->rank];
	if (action->rail < 0)
		return 0;
	action->from_group = step->from_group;
	action->to_group = step->to_group;
	action->from_queue = step->from_queue;
	action->to_queue = step->to_queue;
	action->from = plan_peer(plan, env, var, step->from_group, action->rail, step->from, &skip);
	action->to = plan_peer(plan, env, var, step->to_group, action->rail, step->to, &skip);
	ptrdiff_t src = plan_locate(plan, env, var, &step->src, &action->src);
	ptrdiff_t dst = plan_locate(plan, env, var, &step->dst, &action->dst);
	action->count = (size_t)(step->src.space ? src : dst);
	action->run = step->run ? plan_value(plan, env, var, step->run) : 0;
	if (step->blocks) {
		const int blocks = plan_value(plan, env, var, step->blocks);
		action->count *= (size_t)blocks;
		skip |= blocks <= 0;
	}
	action->cells = step->cells ? plan_value(plan, env, var, step->cells) : 0;
	skip |= step->cells && action->cells <= 0;
	return !skip && src >= 0 && dst >= 0;
}

/* The step behind the END of a loop whose body begins at pc. */
PLAN_FN int plan_loop_end(const struct plan *plan, int pc)
{
	for (int open = 1; open; pc++)
		open += plan->steps[pc].op == PLAN_LOOP ? 1 : plan->steps[pc].op == PLAN_END ? -1 : 0;
	return pc;
}

PLAN_FN void plan_cursor_start(struct plan_cursor *cursor, const struct plan *plan, int program)
{
	cursor->program = program;
	cursor->pc = plan->programs[program].first;
	cursor->end = cursor->pc + plan->programs[program].steps;
	cursor->depth = 0;
	for (int i = 0; i < PLAN_MAX_LOOPS; i++)
		cursor->var[i] = 0;
}

/* The next MOVE, SIGNAL or WAIT of the program into *action; 0 at its end. */
PLAN_FN int plan_cursor_next(struct plan_cursor *cursor, const struct plan *plan, const struct plan_env *env,
			     struct plan_action *action)
{
	while (cursor->pc < cursor->end) {
		const struct plan_step *step = &plan->steps[cursor->pc++];
		if (step->op == PLAN_LOOP) {
			int depth = cursor->depth;
			int trips = plan_predicate(plan, env, cursor->var, step)
					? plan_value(plan, env, cursor->var, step->trips)
					: 0;
			if (trips <= 0) {
				cursor->pc = plan_loop_end(plan, cursor->pc);
				continue;
			}
			cursor->var[depth] = 0;
			cursor->trips[depth] = trips;
			cursor->body[depth] = cursor->pc;
			cursor->depth++;
		} else if (step->op == PLAN_END) {
			int depth = cursor->depth - 1;
			if (++cursor->var[depth] < cursor->trips[depth])
				cursor->pc = cursor->body[depth];
			else
				cursor->var[cursor->depth = depth] = 0;
		} else if (plan_resolve(plan, env, cursor->var, step, action)) {
			return 1;
		}
	}
	return 0;
}

#endif
