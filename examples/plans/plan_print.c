/* SPDX-License-Identifier: BSD-3-Clause */
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

/* stride * variable + offset, with nothing that is zero; a sum goes on behind what has been printed since start. */
static void print_term(struct out *out, const struct plan_expr *x, size_t start)
{
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

static void print_power(struct out *out, const struct plan_expr *x)
{
	print(out, x->wrap ? "%d^(last-%c)" : "%d^%c", x->radix, 'i' + x->var);
}

static void print_expr(struct out *out, const struct plan *plan, int e);

/* What a letter of a base's text stands for. */
static void print_part(struct out *out, const struct plan *plan, const struct plan_expr *x, char part)
{
	switch (part) {
	case 'm':
		print(out, "%s", me_names[x->group]);
		break;
	case 'r':
		print(out, "%s", root_names[x->group]);
		break;
	case 's':
		print(out, "%s", size_names[x->group]);
		break;
	case 'v':
		print_term(out, x, out->length);
		break;
	case 'i':
		print(out, "%c", 'i' + x->var);
		break;
	case 'd':
		if (x->digit > 1)
			print(out, "%d*", x->digit);
		print_power(out, x);
		break;
	case 'p':
		print_power(out, x);
		break;
	case 'x':
		if (x->radix > 2)
			print(out, ", %d", x->radix);
		break;
	case '+':
		print(out, x->stride < 0 ? "-" : "+");
		break;
	case 'a':
	case 'b':
		print_expr(out, plan, part == 'a' ? x->a : x->b);
		break;
	default: /* a parenthesis */
		if (x->offset)
			print(out, "%c", part);
	}
}

static void print_expr(struct out *out, const struct plan *plan, int e)
{
	const struct plan_expr *x = &plan->exprs[e];
	const struct plan_base_info *base = &plan_bases[x->base];
	const size_t start = out->length;
	for (const char *at = base->text; *at; at++)
		if (*at == '%')
			print_part(out, plan, x, *++at);
		else
			print(out, "%c", *at);
	if (base->form == PLAN_TERM)
		print_term(out, x, start);
	if (base->form == PLAN_BY_DISTANCE && x->base != PLAN_BRUCK_PEER && x->stride > 1)
		print(out, "*%d", x->stride);
	if ((base->form == PLAN_BESIDE || base->form == PLAN_BY_DISTANCE) && x->offset)
		print(out, "%+d", x->offset);
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
		       { plan_bases[plan->exprs[span->inner].base].is_window ? "window" : "piece",
			 span->inner } };
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
		       int peer, int queue)
{
	static const char *const one[] = { "rank ", "local ", "node " }, *const all[] = { "", " of node",
											  " of rail" };
	const struct plan_expr *x = &plan->exprs[peer == PLAN_EXPR_ALL ? 0 : peer];
	if (peer == PLAN_EXPR_ALL) {
		print(out, "all%s", all[group]);
	} else if (plan_is_self(x)) {
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
	print(out, " (queue %d)", queue);
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
	static const char *const names[] = { "", "final", "stable", "fresh" };
	const char *separator = "  # ";
	for (int i = 1; i < 4; i++) {
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
		print_peer(out, plan, step, step->from_group, step->from, step->from_queue);
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
		print_peer(out, plan, step, step->to_group, step->to, step->to_queue);
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
		print_peer(out, plan, step, step->to_group, step->to, step->to_queue);
		break;
	case PLAN_WAIT:
		print(out, "wait for ");
		print_peer(out, plan, step, step->from_group, step->from, step->from_queue);
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
	print(out, ", up to %zu bytes", (size_t)1 << plan->key.size_class);
	if (plan->codelet)
		print(out, ", codelet %s, protocol %s", codelet_list[plan->codelet]->name,
		      plan_protocol_name((enum plan_protocol)plan->protocol));
	print(out, "\n");
	print(out, "channels %d, parts %d, pieces %d, chunk %u bytes, scratch %u cells\n", plan->channels,
	      plan->parts, plan->inner, plan->chunk_bytes, plan->scratch_cells);
	for (int i = 0; i < plan->nqueues; i++)
		print(out, "queue %d: %d messages to %s, %s\n", i, plan->queues[i].depth,
		      plan->queues[i].all ? "all" : "one",
		      plan->queues[i].sync == PLAN_PARITY ? "parity" : "credits");
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

static void print_location(struct out *out, const struct plan_location *location, size_t count)
{
	static const char *const names[] = { "", "send", "recv", "scratch" };
	print(out, "%s[%zu, %zu)", names[location->space], location->offset, location->offset + count);
}

static void print_rank(struct out *out, int rank, int group, int queue)
{
	static const char *const all[] = { "all", "all of node", "all of rail" };
	if (rank == PLAN_ALL)
		print(out, "%s", all[group]);
	else
		print(out, "rank %d", rank);
	print(out, " (queue %d)", queue);
}

size_t plan_print_action(const struct plan_action *action, char *buf, size_t bytes)
{
	struct out out = { buf, bytes, 0 };
	print(&out, action->op == PLAN_SIGNAL     ? "signal "
		    : action->op == PLAN_WAIT     ? "wait for "
		    : action->flags & PLAN_REDUCE ? "fold "
						  : "move ");
	if (action->from != PLAN_NONE)
		print_rank(&out, action->from, action->from_group, action->from_queue);
	if (action->from != PLAN_NONE && action->src.space)
		print(&out, " with ");
	if (action->src.space)
		print_location(&out, &action->src, action->count);
	if (action->cells > 1)
		print(&out, " and %d cells behind it", action->cells - 1);
	if (action->op == PLAN_MOVE)
		print(&out, " -> ");
	if (action->dst.space)
		print_location(&out, &action->dst, action->count);
	if (action->dst.space && action->to != PLAN_NONE)
		print(&out, " and ");
	if (action->to != PLAN_NONE)
		print_rank(&out, action->to, action->to_group, action->to_queue);
	return out.length;
}
