/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdlib.h>

#include "health/diagnose.h"
#include "host/host_fast.h"
#include "signature.h"
#include "start.h"

/* Some microseconds; then the plan's run waits, which knows deadlines and deaths, and yields the core. */
enum { POLLS = 256 };

/* The plan of a call, and where its lists are kept: of a persistent plan, or of the communicator's. 0: there is none. */
static int find_plan(struct comm *comm, const struct call *call, const struct plan **plan,
		     struct host_fast ***fast)
{
	struct plans_entry *entry;
	const struct record *r = &call->record;
	const struct plan_key key = planner_key(r->coll, r->count, r->type, r->op);
	if (!call->plan && plans_find(&comm->plans, comm->rank, &key, NULL, &entry))
		return 0;
	*plan = call->plan ? &call->plan->plan : &entry->plan;
	*fast = call->plan ? &call->plan->fast : &entry->fast;
	return 1;
}

static struct host_fast_call shape_of(const struct call *call)
{
	struct host_fast_call shape = { call->record.root, call->record.count, call->own, { NULL } };
	shape.uneven[0] = call->send_counts;
	shape.uneven[1] = call->send_displs;
	shape.uneven[2] = call->recv_counts;
	shape.uneven[3] = call->recv_displs;
	return shape;
}

/* Without memory for lists, or where a setting asks for plain plans, calls run as all others. */
static const struct host_fast_list *find_list(struct comm *comm, const struct call *call,
					      const struct plan **plan)
{
	struct host_fast **fast;
	const struct record *r = &call->record;
	const struct host_fast_call shape = shape_of(call);
	if (!comm->settings.codelets || r->count > HOST_FAST_BYTES || comm->size == 1 ||
	    call_overwrites(call, comm->rank) || !find_plan(comm, call, plan, &fast) ||
	    !host_fast_serves(&comm->engine, *plan, &shape))
		return NULL;
	if (!*fast && !(*fast = calloc(1, sizeof **fast)))
		return NULL;
	return host_fast_find(*fast, &comm->engine, *plan, &shape);
}

static int polls_of(const struct comm *comm)
{
	return comm->policy.spin_ns > 0 ? POLLS : 1;
}

static int call_at_once(struct comm *comm, const struct call *call, struct fast_begun *begun)
{
	const struct plan *plan;
	const struct host_fast_list *list = find_list(comm, call, &plan);
	if (!list)
		return 0;
	begun->signature = signature_next(comm, call);
	begun->steps = 0;
	const struct host_binding binding = start_binding(comm, call, plan, begun->signature);
	return host_fast_run(list, &comm->engine, &binding, polls_of(comm), &begun->steps);
}

/* A send or receive under way. */
struct pair {
	const struct host_fast_list *list;
	struct host_binding binding;
	int after; /* the one of the same ordered pair of ranks that must end first, or -1 */
};

static int is_done(const struct pair *pair, const struct fast_begun *begun)
{
	return begun->steps == pair->list->nsteps;
}

/* Each that is not done once, in turn. 1: all are done. */
static int poll_pairs(const struct comm *comm, const struct pair *pairs, int n, struct fast_begun *begun)
{
	int all = 1;
	for (int i = 0; i < n; i++) {
		const int after = pairs[i].after;
		if (after < 0 || is_done(&pairs[after], &begun[after]))
			all &= host_fast_run(pairs[i].list, &comm->engine, &pairs[i].binding, 1,
					     &begun[i].steps);
		else
			all = 0;
	}
	return all;
}

/* The lists of all calls, if as many are kept at a time. */
static int find_lists(struct comm *comm, const struct call *calls, int n, struct pair *pairs,
		      const struct plan **plans)
{
	for (int i = 0; i < n; i++)
		if (calls[i].record.root == comm->rank ||
		    !(pairs[i].list = find_list(comm, &calls[i], &plans[i])))
			return 0;
	for (int i = 0; i < n; i++) {
		const struct host_fast_call shape = shape_of(&calls[i]);
		if (!host_fast_is_of(pairs[i].list, &comm->engine, &shape))
			return 0;
	}
	return 1;
}

static int pairs_at_once(struct comm *comm, const struct call *calls, int n, struct fast_begun *begun)
{
	struct pair pairs[FAST_PAIRS];
	const struct plan *plans[FAST_PAIRS];
	if (!find_lists(comm, calls, n, pairs, plans))
		return 0;
	for (int i = 0; i < n; i++) {
		begun[i] = (struct fast_begun){ signature_of_pair(comm, &calls[i]), 0 };
		pairs[i].binding = start_binding(comm, &calls[i], plans[i], begun[i].signature);
		pairs[i].after = start_after(calls, i);
	}
	for (int polls = polls_of(comm); polls > 0; polls--) {
		if (poll_pairs(comm, pairs, n, begun))
			return 1;
		wait_pause();
	}
	return 0;
}

int fast_at_once(struct comm *comm, const struct call *calls, int npairs, int ncalls,
		 struct fast_begun *begun)
{
	const uint64_t number = comm->issued;
	begun->signature = 0;
	if (comm->manual || ncalls > FAST_PAIRS || (ncalls > 1 && npairs < ncalls) ||
	    atomic_load_explicit(&comm->completed, memory_order_acquire) != number || diagnose_peers(comm))
		return 0;
	if (!(npairs ? pairs_at_once(comm, calls, npairs, begun) : call_at_once(comm, calls, begun)))
		return 0;
	comm->issued = number + 1;
	atomic_store_explicit(&comm->completed, number + 1, memory_order_release);
	return 1;
}
