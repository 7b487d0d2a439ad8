/* The shape of a call's launch, and the line that tells it. */
#include "engine_cuda.h"

#include "base/log.h"
#include "base/status.h"

static void tell_text(const struct engine *e, corale_coll coll, uint64_t bytes, const char *text)
{
	log_line(LOG_TRACE, e->world_rank, "launch: %s of %llu bytes: %s", corale_coll_name(coll),
		 (unsigned long long)bytes, text);
}

/* At TRACE: what is launched, as corale-plan prints it. */
static void tell(const struct engine *e, const struct plan_launch *l, const struct plan_shape *s)
{
	char text[256];
	if (log_level < LOG_TRACE)
		return;
	plan_shape_print(l, s, text, sizeof text);
	tell_text(e, l->coll, l->bytes, text);
}

void engine_tell_lowered(const struct engine *e, const struct engine_call *c)
{
	char text[256];
	if (log_level < LOG_TRACE)
		return;
	plan_shape_print_lowered(c->plan, text, sizeof text);
	tell_text(e, c->coll, c->bytes, text);
}

/* Bytes to another rank at most. */
static uint64_t most_sent(const struct engine *e, const struct engine_call *c)
{
	uint64_t most = 0;
	if (!c->send_counts)
		return c->bytes;
	for (int r = 0; r < e->world_ranks; r++)
		most = r != e->world_rank && c->send_counts[r] > most ? c->send_counts[r] : most;
	return most * corale_type_bytes(c->type);
}

void engine_tell_edges(const struct engine *e, const struct engine_call *c)
{
	const struct codelet_group *g = &e->edges->group;
	if (log_level < LOG_TRACE)
		return;
	const uint64_t bytes = most_sent(e, c);
	const struct plan_node node = { .ranks = e->ranks };
	const struct plan_launch l = { .node = &node, .coll = CORALE_ALL_TO_ALL_V, .bytes = bytes };
	const struct plan_shape s = { .kernel = KERNEL_EDGES,
				      .grid = { g->wide * g->blocks + g->lists - g->wide, CODELET_THREADS },
				      .piece = bytes,
				      .pieces = 1,
				      .message = g->args.slot_bytes,
				      .depth = g->args.depth };
	tell(e, &l, &s);
}

void engine_shape(const struct engine *e, const struct plan_launch *l, struct plan_shape *s)
{
	plan_shape(l, s);
	tell(e, l, s);
}

struct plan_launch engine_launch_of(const struct engine_call *c, const struct plan_node *node)
{
	return (struct plan_launch){ .node = node,
				     .codelet = c->codelet,
				     .coll = c->coll,
				     .bytes = c->bytes,
				     .words = codelets_words(c->type),
				     .direct = c->target != 0,
				     .scratch = c->scratch && node->scratch_bytes };
}
