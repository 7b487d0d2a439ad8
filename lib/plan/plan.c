/* SPDX-License-Identifier: BSD-3-Clause */
/* Building plans, and checking their structure. How they are read is in plan_eval.h, how printed in plan_print.c. */
#include <string.h>

#include "corale.h"
#include "plan_eval.h"

/* Marks a plan whose tables overflowed: no finished plan has zero programs. */
static void mark_broken(struct plan *plan)
{
	plan->nprograms = PLAN_MAX_PROGRAMS + 1;
}

static int is_broken(const struct plan *plan)
{
	return plan->nprograms > PLAN_MAX_PROGRAMS;
}

void plan_init(struct plan *plan, const struct plan_key *key)
{
	memset(plan, 0, sizeof(*plan));
	plan->key = *key;
	plan->channels = 1;
	plan->nexprs = 1;
	plan->parts = plan->inner = 1;
}

uint8_t plan_expr(struct plan *plan, struct plan_expr expr)
{
	for (int i = 1; i < plan->nexprs; i++)
		if (!memcmp(&plan->exprs[i], &expr, sizeof(expr)))
			return (uint8_t)i;
	if (plan->nexprs == PLAN_MAX_EXPRS) {
		mark_broken(plan);
		return 1;
	}
	plan->exprs[plan->nexprs] = expr;
	return plan->nexprs++;
}

uint8_t plan_const(struct plan *plan, int value)
{
	return plan_expr(plan, (struct plan_expr){ .base = PLAN_CONST, .offset = value });
}

uint8_t plan_term(struct plan *plan, enum plan_base base, enum plan_group group, int var, int stride,
		  int offset)
{
	return plan_expr(plan, (struct plan_expr){ .base = (uint8_t)base,
						   .group = (uint8_t)group,
						   .var = stride ? (uint8_t)var : 0,
						   .wrap = base == PLAN_ME || base == PLAN_AHEAD,
						   .stride = (int8_t)stride,
						   .offset = offset });
}

uint8_t plan_shift(struct plan *plan, enum plan_group group, int var, int stride, int offset)
{
	return plan_term(plan, PLAN_ME, group, var, stride, offset);
}

uint8_t plan_var(struct plan *plan, int var, int offset)
{
	return plan_term(plan, PLAN_CONST, PLAN_WORLD, var, 1, offset);
}

uint8_t plan_base(struct plan *plan, enum plan_base base, enum plan_group group, int offset)
{
	return plan_term(plan, base, group, 0, 0, offset);
}

uint8_t plan_rounds(struct plan *plan, enum plan_group group, int radix, int offset)
{
	return plan_expr(plan, (struct plan_expr){ .base = PLAN_ROUNDS,
						   .group = (uint8_t)group,
						   .radix = (uint8_t)radix,
						   .offset = offset });
}

uint8_t plan_queue(struct plan *plan, enum plan_sync sync, int depth)
{
	if (plan->nqueues == PLAN_MAX_QUEUES) {
		mark_broken(plan);
		return 0;
	}
	plan->queues[plan->nqueues] = (struct plan_queue){ .sync = (uint8_t)sync, .depth = (uint8_t)depth };
	return plan->nqueues++;
}

void plan_program(struct plan *plan, enum plan_engine engine)
{
	if (plan->nprograms >= PLAN_MAX_PROGRAMS) {
		mark_broken(plan);
		return;
	}
	plan->programs[plan->nprograms++] = (struct plan_program){ (uint8_t)engine, plan->nsteps, 0, 1 };
}

void plan_width(struct plan *plan, int width)
{
	if (plan->nprograms > 0 && plan->nprograms <= PLAN_MAX_PROGRAMS)
		plan->programs[plan->nprograms - 1].width = (uint8_t)width;
}

/* Loops of the current program that are open; negative when one was closed too often. */
static int open_loops(const struct plan *plan, const struct plan_program *program)
{
	int open = 0;
	for (int i = program->first; i < program->first + program->steps; i++)
		open += plan->steps[i].op == PLAN_LOOP ? 1 : plan->steps[i].op == PLAN_END ? -1 : 0;
	return open;
}

int plan_loop(struct plan *plan, uint8_t trips)
{
	return plan_loop_if(plan, trips, PLAN_ALWAYS, PLAN_EXPR_NONE, PLAN_EXPR_NONE);
}

int plan_loop_if(struct plan *plan, uint8_t trips, enum plan_pred pred, uint8_t a, uint8_t b)
{
	int var = is_broken(plan) ? 0 : open_loops(plan, &plan->programs[plan->nprograms - 1]);
	plan_step(plan,
		  (struct plan_step){
		      .op = PLAN_LOOP, .trips = trips, .pred = (uint8_t)pred, .pred_a = a, .pred_b = b });
	return var;
}

void plan_end(struct plan *plan)
{
	plan_step(plan, (struct plan_step){ .op = PLAN_END });
}

void plan_step(struct plan *plan, struct plan_step step)
{
	if (is_broken(plan) || !plan->nprograms || plan->nsteps == PLAN_MAX_STEPS) {
		mark_broken(plan);
		return;
	}
	plan->steps[plan->nsteps++] = step;
	plan->programs[plan->nprograms - 1].steps++;
}

static int radix_is_sound(const struct plan_expr *x)
{
	if (x->base == PLAN_ROUNDS)
		return x->radix > 1 && !x->digit;
	if (plan_bases[x->base].form != PLAN_BY_DISTANCE)
		return !x->radix && !x->digit;
	return x->radix > 1 && x->digit > 0 && x->digit < x->radix &&
	       (x->base != PLAN_BRUCK_SET || x->radix == 2);
}

/* Only members that the form of the base names are set. */
static int form_is_sound(const struct plan_expr *x)
{
	switch (plan_bases[x->base].form) {
	case PLAN_TERM:
	case PLAN_BY_DISTANCE:
		return 1;
	case PLAN_AT_STEP:
		return !x->wrap;
	case PLAN_BESIDE:
		return !x->wrap && !x->stride;
	default:
		return !x->wrap && !x->stride && !x->offset;
	}
}

static int expr_is_sound(const struct plan *plan, const struct plan_expr *expr)
{
	if (expr->base >= PLAN_BASES || expr->group > PLAN_RAIL || expr->var >= PLAN_MAX_LOOPS ||
	    !form_is_sound(expr) || !radix_is_sound(expr))
		return 0;
	if (expr->base < PLAN_SIMPLE_BASES)
		return 1;
	if (expr->a >= plan->nexprs || expr->b >= plan->nexprs)
		return 0;
	int highest = expr->base == PLAN_RANK_AT ? PLAN_RAIL_OF : PLAN_SIMPLE_BASES - 1;
	return plan->exprs[expr->a].base <= highest && plan->exprs[expr->b].base <= highest;
}

static int peer_is_sound(const struct plan *plan, int group, int peer, int queue)
{
	return group <= PLAN_RAIL && (peer == PLAN_EXPR_ALL || peer < plan->nexprs) &&
	       (peer == PLAN_EXPR_NONE || queue < plan->nqueues);
}

static int span_is_sound(const struct plan *plan, const struct plan_span *span)
{
	return span->space <= PLAN_SCRATCH && span->block < plan->nexprs && span->part < plan->nexprs &&
	       span->chunk < plan->nexprs && span->inner < plan->nexprs &&
	       (span->space != PLAN_SCRATCH || (span->block && plan->scratch_cells > 0));
}

static int span_is_whole_block(const struct plan_span *span)
{
	return !span->space || (span->block && !span->part && !span->chunk && !span->inner);
}

static int is_of_cells(const struct plan_span *span)
{
	return !span->space || span->space == PLAN_SCRATCH;
}

static int may_wrap(const struct plan_span *span)
{
	return span->space == PLAN_SEND || span->space == PLAN_RECV;
}

/* Several blocks are of one message, and wrap around one buffer at most. */
static int blocks_are_sound(const struct plan_step *step)
{
	if (step->run && !(step->blocks && is_of_cells(&step->src) && is_of_cells(&step->dst)))
		return 0;
	if (step->flags & PLAN_BACK && (step->run || !step->blocks))
		return 0;
	return !step->blocks || (step->op == PLAN_MOVE && step->from != PLAN_EXPR_ALL &&
				 !(may_wrap(&step->src) && may_wrap(&step->dst)) &&
				 span_is_whole_block(&step->src) && span_is_whole_block(&step->dst));
}

/* Cells are the only sources of their fold. */
static int cells_are_sound(const struct plan_step *step)
{
	return !step->cells || (step->op == PLAN_MOVE && step->flags & PLAN_REDUCE && !step->from &&
				!step->blocks && step->src.space == PLAN_SCRATCH);
}

static int step_is_sound(const struct plan *plan, const struct plan_step *step)
{
	if (step->op > PLAN_END || step->pred > PLAN_GE || step->pred_a >= plan->nexprs ||
	    step->pred_b >= plan->nexprs || step->rail >= plan->nexprs || step->trips >= plan->nexprs ||
	    step->blocks >= plan->nexprs || step->run >= plan->nexprs || step->cells >= plan->nexprs ||
	    !blocks_are_sound(step) || !cells_are_sound(step))
		return 0;
	if (!peer_is_sound(plan, step->from_group, step->from, step->from_queue) ||
	    !peer_is_sound(plan, step->to_group, step->to, step->to_queue) ||
	    !span_is_sound(plan, &step->src) || !span_is_sound(plan, &step->dst))
		return 0;
	switch (step->op) {
	case PLAN_MOVE:
		/* A fold or a copy of something into somewhere, of a length that a local span has. */
		return (step->from || step->src.space) && (step->to || step->dst.space) &&
		       (step->src.space || step->dst.space) && step->dst.space != PLAN_SEND &&
		       (step->flags & PLAN_REDUCE || !step->from || !step->src.space) &&
		       (step->flags & PLAN_REDUCE || step->from != PLAN_EXPR_ALL);
	case PLAN_SIGNAL:
		return step->to && !step->from && !step->src.space && !step->dst.space;
	case PLAN_WAIT:
		return step->from && !step->to && !step->src.space && !step->dst.space;
	case PLAN_LOOP:
		return step->trips != PLAN_EXPR_NONE;
	default:
		return 1;
	}
}

static int program_is_sound(const struct plan *plan, const struct plan_program *program)
{
	int open = 0;
	for (int i = program->first; i < program->first + program->steps; i++) {
		if (!step_is_sound(plan, &plan->steps[i]))
			return 0;
		open += plan->steps[i].op == PLAN_LOOP ? 1 : plan->steps[i].op == PLAN_END ? -1 : 0;
		if (open < 0 || open > PLAN_MAX_LOOPS)
			return 0;
	}
	return open == 0;
}

/* Decides for each queue whether its messages go to ALL (0 if the steps disagree), and whether they are folded. */
static int settle_queues(struct plan *plan)
{
	uint8_t uses[PLAN_MAX_QUEUES] = { 0 };
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].to != PLAN_EXPR_NONE)
			uses[plan->steps[i].to_queue] |= plan->steps[i].to == PLAN_EXPR_ALL ? 2 : 1;
	for (int i = 0; i < plan->nqueues; i++) {
		if (uses[i] == 3)
			return 0;
		plan->queues[i].all = uses[i] == 2;
	}
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].from != PLAN_EXPR_NONE && plan->steps[i].flags & PLAN_REDUCE)
			plan->queues[plan->steps[i].from_queue].folded = 1;
	return 1;
}

int plan_finish(struct plan *plan)
{
	if (is_broken(plan) || !plan->nprograms || !plan->channels || plan->parts < 1 || plan->inner < 1 ||
	    !plan->chunk_bytes)
		return CORALE_EINTERNAL;
	for (int i = 0; i < plan->nqueues; i++)
		if (plan->queues[i].sync > PLAN_PARITY || !plan->queues[i].depth)
			return CORALE_EINTERNAL;
	for (int i = 1; i < plan->nexprs; i++)
		if (!expr_is_sound(plan, &plan->exprs[i]))
			return CORALE_EINTERNAL;
	for (int i = 0; i < plan->nprograms; i++)
		if (!program_is_sound(plan, &plan->programs[i]))
			return CORALE_EINTERNAL;
	for (int i = 0; i < plan->nsteps; i++)
		plan->spans |= plan->steps[i].blocks != PLAN_EXPR_NONE;
	return settle_queues(plan) ? 0 : CORALE_EINTERNAL;
}

int plan_depends(const struct plan *plan, int e, int var)
{
	const struct plan_expr *x = &plan->exprs[e == PLAN_EXPR_ALL ? PLAN_EXPR_NONE : e];
	const struct plan_base_info *base = &plan_bases[x->base];
	if (base->form == PLAN_BY_DISTANCE || base->form == PLAN_OF_VARIABLE ? x->var == var
									     : x->stride && x->var == var)
		return 1;
	return (base->operands > 0 && plan_depends(plan, x->a, var)) ||
	       (base->operands > 1 && plan_depends(plan, x->b, var));
}

int plan_is_self(const struct plan_expr *x)
{
	return x->base == PLAN_ME && !x->stride && !x->offset;
}

void plan_env_init(struct plan_env *env, const struct plan *plan, const struct plan_map *map, int rank,
		   int root, size_t count)
{
	memset(env, 0, sizeof(*env));
	env->map = *map;
	env->rank = rank;
	env->root = root;
	env->count = env->own = count;
	env->chunk = plan->chunk_bytes / corale_type_bytes((corale_type)plan->key.type);
	env->unit = PLAN_UNIT_BYTES / corale_type_bytes((corale_type)plan->key.type);
	env->chunks = count <= env->chunk ? 1 : plan_chunks(plan, env, count);
}

void plan_env_uneven(struct plan_env *env, const struct plan *plan, const size_t *const arrays[4], size_t own)
{
	size_t largest = own;
	env->send_counts = arrays[0];
	env->send_displs = arrays[1];
	env->recv_counts = arrays[2];
	env->recv_displs = arrays[3];
	for (int i = 0; i < 4; i += 2)
		for (int r = 0; arrays[i] && r < env->map.ranks; r++)
			largest = arrays[i][r] > largest ? arrays[i][r] : largest;
	env->own = own;
	env->count = largest;
	env->chunks = largest <= env->chunk ? 1 : plan_chunks(plan, env, largest);
}
