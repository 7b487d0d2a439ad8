/* The shape of a call's launch, and the line that tells it. */
#include "engine_cuda.h"

#include "base/log.h"
#include "base/status.h"

/* At TRACE: what is launched, as corale-plan prints it. */
static void tell(const struct engine *e, const struct plan_launch *l, const struct plan_shape *s)
{
	char text[256];
	if (log_level < LOG_TRACE)
		return;
	plan_shape_print(l, s, text, sizeof text);
	log_line(LOG_TRACE, e->rank, "launch: %s of %llu bytes: %s", corale_coll_name(l->coll),
		 (unsigned long long)l->bytes, text);
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
