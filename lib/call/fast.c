#include "fast.h"

#include <stdlib.h>
#include <string.h>

#include "host/host_fast.h"
#include "signature.h"
#include "start.h"

/* Some microseconds; then the plan's run waits, which knows deadlines and deaths, and yields the core. */
enum { POLLS = 256 };

/* Without memory for lists, or where a setting asks for plain plans, calls run as all others. */
static const struct host_fast_list *find_list(struct comm *comm, const struct call *call,
					      const struct plan **plan)
{
	struct plans_entry *entry;
	const struct record *r = &call->record;
	const struct plan_key key = planner_key(r->coll, r->count, r->type, r->op);
	if (call->plan || !comm->settings.codelets || r->count > HOST_FAST_BYTES || comm->size == 1 ||
	    coll_is_uneven(r->coll) || (coll_overwrites(r->coll) && call->send == call->recv) ||
	    plans_find(&comm->plans, comm->rank, &key, NULL, &entry) ||
	    !host_fast_serves(&comm->engine, &entry->plan, r->count))
		return NULL;
	if (!entry->fast && !(entry->fast = calloc(1, sizeof *entry->fast)))
		return NULL;
	*plan = &entry->plan;
	return host_fast_find(entry->fast, &comm->engine, &entry->plan, r->root, r->count);
}

int fast_call(struct comm *comm, const struct call *call, struct fast_begun *begun)
{
	const struct plan *plan;
	const struct host_fast_list *list = find_list(comm, call, &plan);
	if (!list)
		return 0;
	begun->signature = signature_next(comm, call);
	begun->steps = 0;
	const struct host_binding binding = start_binding(comm, call, plan, begun->signature);
	return host_fast_run(list, &comm->engine, &binding, comm->policy.spin_ns > 0 ? POLLS : 1,
			     &begun->steps);
}
