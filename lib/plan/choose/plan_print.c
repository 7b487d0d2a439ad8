/*
 * Plans and actions as text, for people and for tests that make a changed schedule a visible difference. me, local
 * and node are this rank's indices in the world, its node and among the nodes; sums with them wrap around.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan_print.h"
#include "plan/codelet/row.h"
#include "base/collectives.h"
#include "base/status.h"

struct out {
	char *buf;
	size_t bytes, length; /* length: what has been printed, whether it fitted or not */
};

__attribute__((format(printf, 2, 3))) static void print(struct out *out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int room = out->length < out->bytes;
	int n = vsnprintf(room ? out->buf + out->length : NULL, room ? out->bytes - out->length : 0, format,
			  args);
	va_end(args);
	out->length += n > 0 ? (size_t)n : 0;
}

static const char *const me_names[] = { "me", "local", "node" };
static const char *const root_names[] = { "root", "root.local", "root.node" };
static const char *const size_names[] = { "ranks", "locals", "nodes" };

/* A simple base's name; empty for constants. */
static void print_base(struct out *out, const struct plan_expr *x)
{
	switch (x->base) {
	case PLAN_ME:
		print(out, "%s", me_names[x->group]);
		break;
	case PLAN_AHEAD:
		print(out, "-%s", me_names[x->group]);
		break;
	case PLAN_ROOT:
		print(out, "%s", root_names[x->group]);
		break;
	case PLAN_OTHERS:
		print(out, "others(%s)", me_names[x->group]);
		break;
	case PLAN_SIZE:
		print(out, "%s", size_names[x->group]);
		break;
	case PLAN_OWNED:
		print(out, "owned");
		break;
	case PLAN_CHUNKS:
		print(out, "chunks");
		break;
	case PLAN_DOUBLING_STEPS:
		print(out, "log2(%s)", size_names[x->group]);
		break;
	case PLAN_DOUBLING_GIVE:
	case PLAN_DOUBLING_TAKE:
		print(out, "%s(%s)", x->base == PLAN_DOUBLING_GIVE ? "give" : "take", size_names[x->group]);
		break;
	case PLAN_POSITION:
		print(out, x->offset ? "(%s-%s mod %s)%+d" : "%s-%s mod %s", me_names[x->group],
		      root_names[x->group], size_names[x->group], x->offset);
		break;
	case PLAN_TREE_LEVELS:
		print(out, "levels(%s)", size_names[x->group]);
		break;
	case PLAN_TREE_PARENT:
		print(out, "parent(%s)", size_names[x->group]);
		break;
	case PLAN_TREE_OWN:
		print(out, "subtree(%s)", size_names[x->group]);
		break;
	default:
		break;
	}
}

/* base + stride * variable + offset, with nothing that is zero. */
static void print_simple(struct out *out, const struct plan_expr *x)
{
	size_t start = out->length;
	print_base(out, x);
	if (x->stride) {
		if (x->stride < 0 || out->length > start)
			print(out, x->stride < 0 ? "-" : "+");
		int times = x->stride < 0 ? -x->stride : x->stride;
		if (times > 1)
			print(out, "%d", times);
		print(out, "%c", 'i' + x->var);
	}
	if (x->offset || out->length == start)
		print(out, out->length > start ? "%+d" : "%d", x->offset);
}

/* Bases whose value is that of a step or level. */
static const char *step_name(int base)
{
	return base == PLAN_DOUBLING        ? "partner"
	       : base == PLAN_HALVING_KEPT  ? "kept"
	       : base == PLAN_HALVING_GIVEN ? "given"
	       : base == PLAN_TREE_BLOCKS   ? "subtree"
					    : "child";
}

static void print_bruck(struct out *out, const struct plan_expr *x)
{
	char distance[24];
	snprintf(distance, sizeof distance, x->wrap ? "2^(last-%c)" : "2^%c", 'i' + x->var);
	if (x->base == PLAN_BRUCK_PEER)
		print(out, "%s%c%s", me_names[x->group], x->stride < 0 ? '-' : '+', distance);
	else if (x->base == PLAN_BRUCK_BLOCKS)
		print(out, "min(%s, %s-%s)", distance, size_names[x->group], distance);
	else if (x->base == PLAN_BRUCK_SET)
		print(out, "numbers below %s with %s", size_names[x->group], distance);
	else
		print(out, "%s", distance);
	if (x->base != PLAN_BRUCK_PEER && x->stride > 1)
		print(out, "*%d", x->stride);
	if (x->offset)
		print(out, "%+d", x->offset);
}

static void print_expr(struct out *out, const struct plan *plan, int e)
{
	const struct plan_expr *x = &plan->exprs[e];
	switch (x->base) {
	case PLAN_DOUBLING:
	case PLAN_HALVING_KEPT:
	case PLAN_HALVING_GIVEN:
	case PLAN_TREE_CHILD:
	case PLAN_TREE_BLOCKS: {
		struct plan_expr step = {
			.base = PLAN_CONST, .stride = x->stride, .var = x->var, .offset = x->offset
		};
		print(out, "%s(%s, ", step_name(x->base), size_names[x->group]);
		print_simple(out, &step);
		print(out, ")");
		break;
	}
	case PLAN_BRUCK_PEER:
	case PLAN_BRUCK_BLOCKS:
	case PLAN_BRUCK_DISTANCE:
	case PLAN_BRUCK_SET:
		print_bruck(out, x);
		break;
	case PLAN_RAIL_OF:
		print(out, "owned(");
		print_expr(out, plan, x->a);
		print(out, ", %c)", 'i' + x->var);
		break;
	case PLAN_SEND_CHUNKS:
	case PLAN_RECV_CHUNKS:
		print(out, x->base == PLAN_SEND_CHUNKS ? "chunks to " : "chunks from ");
		print_expr(out, plan, x->a);
		break;
	case PLAN_RANK_AT:
		print(out, "rank(");
		print_expr(out, plan, x->a);
		print(out, ", ");
		print_expr(out, plan, x->b);
		print(out, ")");
		break;
	default:
		print_simple(out, x);
	}
}

static int is_window(const struct plan *plan, int e)
{
	return plan->exprs[e].base == PLAN_HALVING_KEPT || plan->exprs[e].base == PLAN_HALVING_GIVEN;
}

/* How many blocks or cells a span has, where it has several. */
static void print_several(struct out *out, const struct plan *plan, const struct plan_span *span,
			  const struct plan_step *step)
{
	const struct {
		const char *name;
		int expr;
	} several[] = { { step->flags & PLAN_BACK && span->space != PLAN_SCRATCH ? "blocks back" : "blocks",
			  step->blocks },
			{ "runs of", step->run },
			{ "cells", span == &step->src ? step->cells : PLAN_EXPR_NONE } };
	for (int i = 0; i < 3; i++) {
		if (!several[i].expr)
			continue;
		print(out, ", %s ", several[i].name);
		print_expr(out, plan, several[i].expr);
	}
}

static void print_span(struct out *out, const struct plan *plan, const struct plan_span *span,
		       const struct plan_step *step)
{
	static const char *const names[] = { "", "send", "recv", "scratch" };
	const struct {
		const char *name;
		int expr;
	} levels[] = { { span->space == PLAN_SCRATCH ? "cell" : "block", span->block },
		       { "part", span->part },
		       { "chunk", span->chunk },
		       { is_window(plan, span->inner) ? "window" : "piece", span->inner } };
	const char *separator = "";
	print(out, "%s[", names[span->space]);
	for (int i = 0; i < 4; i++) {
		if (!levels[i].expr)
			continue;
		print(out, "%s%s ", separator, levels[i].name);
		print_expr(out, plan, levels[i].expr);
		separator = ", ";
	}
	print_several(out, plan, span, step);
	print(out, "]");
}

static void print_peer(struct out *out, const struct plan *plan, const struct plan_step *step, int group,
		       int peer, int ring)
{
	static const char *const one[] = { "rank ", "local ", "node " }, *const all[] = { "", " of node",
											  " of rail" };
	const struct plan_expr *x = &plan->exprs[peer == PLAN_EXPR_ALL ? 0 : peer];
	if (peer == PLAN_EXPR_ALL) {
		print(out, "all%s", all[group]);
	} else if (x->base == PLAN_ME && !x->stride && !x->offset) {
		print(out, "self");
	} else {
		print(out, "%s", one[group]);
		print_expr(out, plan, peer);
	}
	if (group == PLAN_RAIL) {
		print(out, " on rail ");
		if (step->rail)
			print_expr(out, plan, step->rail);
		else
			print(out, "local");
	}
	print(out, " (ring %d)", ring);
}

static void print_predicate(struct out *out, const struct plan *plan, const struct plan_step *step)
{
	static const char *const signs[] = { "", "==", "!=", "<", ">=" };
	if (step->pred == PLAN_ALWAYS)
		return;
	print(out, "if ");
	print_expr(out, plan, step->pred_a);
	print(out, " %s ", signs[step->pred]);
	print_expr(out, plan, step->pred_b);
	print(out, ": ");
}

static void print_flags(struct out *out, int flags)
{
	static const char *const names[] = { "", "final", "stable", "fresh", "from wire", "to wire" };
	const char *separator = "  # ";
	for (int i = 1; i < 6; i++) {
		if (!(flags & 1 << i))
			continue;
		print(out, "%s%s", separator, names[i]);
		separator = ", ";
	}
}

static void print_move(struct out *out, const struct plan *plan, const struct plan_step *step)
{
	print(out, step->flags & PLAN_REDUCE ? "fold " : "move ");
	if (step->from)
		print_peer(out, plan, step, step->from_group, step->from, step->from_ring);
	if (step->from && step->src.space)
		print(out, " with ");
	if (step->src.space)
		print_span(out, plan, &step->src, step);
	print(out, " -> ");
	if (step->dst.space)
		print_span(out, plan, &step->dst, step);
	if (step->dst.space && step->to)
		print(out, " and ");
	if (step->to)
		print_peer(out, plan, step, step->to_group, step->to, step->to_ring);
	print_flags(out, step->flags);
}

/* One line; returns how much deeper or shallower the next line is. */
static int print_step(struct out *out, const struct plan *plan, const struct plan_step *step, int depth)
{
	if (step->op == PLAN_END)
		return -1;
	print(out, "%*s", 2 * depth, "");
	print_predicate(out, plan, step);
	switch (step->op) {
	case PLAN_MOVE:
		print_move(out, plan, step);
		break;
	case PLAN_SIGNAL:
		print(out, "signal ");
		print_peer(out, plan, step, step->to_group, step->to, step->to_ring);
		break;
	case PLAN_WAIT:
		print(out, "wait for ");
		print_peer(out, plan, step, step->from_group, step->from, step->from_ring);
		break;
	default:
		print(out, "for %c below ", 'i' + depth - 1);
		print_expr(out, plan, step->trips);
	}
	print(out, "\n");
	return step->op == PLAN_LOOP;
}

static void print_head(struct out *out, const struct plan *plan)
{
	int rows;
	const struct row *algo = row_table(&rows);
	print(out, "%s by %s", corale_coll_name((corale_coll)plan->key.coll),
	      plan->algo < rows ? algo[plan->algo].name : "?");
	if (coll_folds(plan->key.coll))
		print(out, ", %s", corale_op_name(plan->key.op));
	print(out, ", %s", corale_type_name((corale_type)plan->key.type));
	if (plan->wire_type != plan->key.type)
		print(out, " (partial sums %s)", corale_type_name((corale_type)plan->wire_type));
	print(out, ", up to %zu bytes", (size_t)1 << plan->key.size_class);
	if (plan->codelet)
		print(out, ", codelet %s, protocol %s", plan_codelet_name((enum plan_codelet)plan->codelet),
		      plan_protocol_name((enum plan_protocol)plan->protocol));
	print(out, "\n");
	print(out, "channels %d, parts %d, pieces %d, chunk %u bytes, scratch %u cells\n", plan->channels,
	      plan->parts, plan->inner, plan->chunk_bytes, plan->scratch_cells);
	for (int i = 0; i < plan->nrings; i++)
		print(out, "ring %d: %d messages to %s, %s\n", i, plan->rings[i].depth,
		      plan->rings[i].all ? "all" : "one",
		      plan->rings[i].sync == PLAN_PARITY ? "parity" : "credits");
}

size_t plan_print(const struct plan *plan, char *buf, size_t bytes)
{
	static const char *const engines[] = { "SM", "CE", "NET" };
	struct out out = { buf, bytes, 0 };
	print_head(&out, plan);
	for (int p = 0; p < plan->nprograms; p++) {
		const struct plan_program *program = &plan->programs[p];
		int depth = 1;
		print(&out, "program %d (%s", p, engines[program->engine]);
		if (program->width > 1)
			print(&out, ", %d blocks", program->width);
		print(&out, ")\n");
		for (int i = program->first; i < program->first + program->steps; i++)
			depth += print_step(&out, plan, &plan->steps[i], depth);
	}
	return out.length;
}

static void print_place(struct out *out, const struct plan_place *place, size_t count)
{
	static const char *const names[] = { "", "send", "recv", "scratch" };
	print(out, "%s[%zu, %zu)", names[place->space], place->offset, place->offset + count);
}

static void print_rank(struct out *out, int rank, int group, int ring)
{
	static const char *const all[] = { "all", "all of node", "all of rail" };
	if (rank == PLAN_ALL)
		print(out, "%s", all[group]);
	else
		print(out, "rank %d", rank);
	print(out, " (ring %d)", ring);
}

size_t plan_print_action(const struct plan_action *action, char *buf, size_t bytes)
{
	struct out out = { buf, bytes, 0 };
	print(&out, action->op == PLAN_SIGNAL     ? "signal "
		    : action->op == PLAN_WAIT     ? "wait for "
		    : action->flags & PLAN_REDUCE ? "fold "
						  : "move ");
	if (action->from != PLAN_NONE)
		print_rank(&out, action->from, action->from_group, action->from_ring);
	if (action->from != PLAN_NONE && action->src.space)
		print(&out, " with ");
	if (action->src.space)
		print_place(&out, &action->src, action->count);
	if (action->cells > 1)
		print(&out, " and %d cells behind it", action->cells - 1);
	if (action->op == PLAN_MOVE)
		print(&out, " -> ");
	if (action->dst.space)
		print_place(&out, &action->dst, action->count);
	if (action->dst.space && action->to != PLAN_NONE)
		print(&out, " and ");
	if (action->to != PLAN_NONE)
		print_rank(&out, action->to, action->to_group, action->to_ring);
	return out.length;
}
