/* SPDX-License-Identifier: BSD-3-Clause */
#include "runner.h"

#include <string.h>

#include "arena.h"
#include "base/log.h"
#include "health/diagnose.h"
#include "signature.h"
#include "start.h"

struct part {
	struct comm *comm;
	const struct call *calls; /* npairs sends and receives, then collectives */
	int npairs, ncalls;
	uint64_t number; /* its ticket: it starts when comm->completed is this, and makes it one more */
	int alone; /* in its group, and no pairs beside collectives: channels may have threads */
	int started, ended, ret;
	int next; /* the collective that runs, or comes next */
	int polls; /* that one counts for: a user's thread comes by now and then only */
	const struct fast_begun
	    *begun; /* of pairs, or of the first collective: what the fast path has begun; NULL: nothing */
	_Atomic uint64_t actions; /* changes as the part moves */
	struct progress pairs, collective;
	struct run_item *items; /* of the pairs */
	struct run_item item; /* of the collective */
};

struct running {
	struct job job; /* on a stream */
	int n;
	struct part *parts;
	_Atomic uint64_t actions; /* of all parts */
};

/* ---- One part ---------------------------------------------------------------------------- */

static void part_init(struct part *p, const struct runner_part *given, int alone)
{
	p->comm = given->comm;
	p->calls = given->calls;
	p->npairs = p->next = given->npairs;
	p->ncalls = given->ncalls;
	p->number = given->comm->issued;
	p->alone = alone && !given->comm->manual && (!p->npairs || p->npairs == p->ncalls);
	p->started = p->ended = p->ret = 0;
	p->polls = 1;
	p->begun = NULL;
	p->pairs.n = p->collective.n = 0;
	p->pairs.actions = p->collective.actions = 0;
	atomic_init(&p->actions, 0);
}

/* Any thread may look. */
static int is_turn(const struct part *p)
{
	return atomic_load_explicit(&p->comm->completed, memory_order_acquire) == p->number;
}

static void end(struct part *p, int ret)
{
	struct comm *comm = p->comm;
	if (ret && (p->pairs.n || p->collective.n)) /* so that the buffers are the caller's again */
		progress_let_go(comm, ret);
	progress_end(&p->pairs);
	progress_end(&p->collective);
	atomic_store_explicit(&comm->engine.position, 0, memory_order_relaxed);
	p->ended = 1;
	p->ret = ret;
	if (ret)
		comm_keep_error(comm);
	atomic_store_explicit(&comm->completed, p->number + 1, memory_order_release);
}

/* Why the communicator can't run a call: it has failed, here or on another rank, which is diagnosed. */
static int refuse(struct comm *comm, const struct call *call, int why)
{
	if (atomic_load(&comm->error))
		return CORALE_ECOMM;
	if (why == CORALE_EMISMATCH)
		return signature_mismatch(comm, call);
	return diagnose_end(comm, &call->record, why);
}

/* Where sends and receives run beside collectives no other rank's call is known to be earlier. */
static void set_position(struct part *p, uint64_t collective)
{
	const int mixed = p->npairs && p->npairs < p->ncalls;
	atomic_store_explicit(&p->comm->engine.position, mixed ? 0 : window_position(collective, p->npairs),
			      memory_order_relaxed);
}

/* Starts collective number next: 0; of a communicator of one rank it is executed, and one that was refused takes its number: 1. An error ends the communicator: its other ranks wait for
 * this call. */
static int start_collective(struct part *p)
{
	const struct call *call = &p->calls[p->next];
	if (call->record.op == RECORD_REFUSED) {
		signature_of_refused(p->comm, call);
		p->next++;
		return 1;
	}
	if (p->comm->size == 1) {
		const int alone = start_alone(p->comm, call);
		p->next++;
		return alone ? diagnose_end(p->comm, &call->record, alone) : 1;
	}
	const struct fast_begun *begun = p->begun;
	int ret =
	    start_run(p->comm, call, begun ? begun->signature : signature_next(p->comm, call), &p->item);
	if (ret)
		return diagnose_end(p->comm, &call->record, ret);
	if (begun)
		host_run_skip(&p->item.run, begun->steps);
	p->begun = NULL;
	set_position(p, atomic_load(&p->comm->number));
	p->collective = (struct progress){ p->comm, &p->item, .n = 1, .alone = p->alone };
	return 0;
}

/* Sends and receives, before any collective. A part that can't has ended. What the fast path has begun is not refused: it is counted, and its peers may
 * have its messages, so it ends as calls under way do. */
static int start(struct part *p)
{
	int used = 0, ret = p->begun ? 0 : diagnose_peers(p->comm);
	p->started = 1;
	set_position(p, atomic_load(&p->comm->number) + (!p->begun || p->npairs));
	if (ret && diagnose_patience(p->comm))
		ret = 0;
	if (ret)
		ret = refuse(p->comm, p->calls, ret);
	if (!ret && p->npairs) {
		ret = start_pairs(p->comm, p->calls, p->npairs, p->begun, p->items, &used);
		p->begun = NULL;
		ret =
		    ret ? diagnose_end(p->comm, &p->calls->record, ret) : 0; /* peers count these messages */
		p->pairs = (struct progress){ p->comm, p->items, .n = used, .alone = p->alone };
	}
	if (ret)
		end(p, ret);
	return ret;
}

/* 1 when the part has ended. */
static int poll_part(void *arg)
{
	struct part *p = arg;
	if (p->ended || (!p->started && (!is_turn(p) || start(p))))
		return p->ended;
	const int pairs = p->pairs.n ? progress_poll(&p->pairs, p->polls) : 1;
	int ret = pairs < 0 ? pairs : 1; /* of collectives: 1: all are done, 0: not yet */
	while (ret > 0 && p->next < p->ncalls) {
		ret = p->collective.n ? 0 : start_collective(p);
		if (!ret && (ret = progress_poll(&p->collective, p->polls)) > 0) {
			progress_end(&p->collective);
			p->next++;
		}
	}
	atomic_store_explicit(&p->actions, p->pairs.actions + p->collective.actions, memory_order_relaxed);
	if (ret < 0 || (pairs && ret))
		end(p, ret < 0 ? ret : 0);
	return p->ended;
}

/* ---- Groups ------------------------------------------------------------------------------ */

/* 1 when all parts have ended. */
static int poll_group(void *arg)
{
	struct running *g = arg;
	int all = 1;
	uint64_t actions = 0;
	for (int i = 0; i < g->n; i++) {
		all &= poll_part(&g->parts[i]);
		actions += atomic_load_explicit(&g->parts[i].actions, memory_order_relaxed);
	}
	atomic_store_explicit(&g->actions, actions, memory_order_relaxed);
	return all;
}

/* To the end; the first part's error. */
static int run_group(struct running *g)
{
	struct wait_policy policy = g->parts->comm->policy;
	policy.timeout_ns = 0; /* parts have deadlines of their own */
	policy.progress = &g->actions;
	wait_until(&policy, poll_group, g);
	for (int i = 0; i < g->n; i++)
		if (g->parts[i].ret)
			return g->parts[i].ret;
	return 0;
}

static int run_job(struct job *job)
{
	struct running *g = (struct running *)job;
	for (int i = 0; i < g->n; i++)
		g->parts[i].polls = 1;
	return run_group(g);
}

static int poll_job(struct job *job)
{
	struct running *g = (struct running *)job;
	for (int i = 0; i < g->n; i++)
		g->parts[i].polls = PROGRESS_POLLS_PER_CLOCK;
	return poll_group(g);
}

static void destroy_job(struct job *job)
{
	const struct running *g = (struct running *)job;
	for (int i = 0; i < g->n; i++)
		for (int c = 0; c < g->parts[i].ncalls; c++)
			call_let_go(&g->parts[i].calls[c]);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static size_t copy_bytes(const struct runner_part *given)
{
	size_t arrays = 0;
	for (int i = 0; i < given->ncalls; i++)
		if (given->calls[i].send_counts || given->calls[i].recv_counts)
			arrays += 4 * (size_t)given->comm->size;
	return ALIGN_ROUND((size_t)given->ncalls * sizeof *given->calls + arrays * sizeof(size_t));
}

/* The calls with their count arrays. */
static struct call *copy(void *memory, const struct runner_part *given)
{
	struct call *copies = memory;
	memcpy(copies, given->calls, (size_t)given->ncalls * sizeof *copies);
	size_t *array = (size_t *)(void *)(copies + given->ncalls);
	for (int i = 0; i < given->ncalls; i++) {
		call_keep(&copies[i]);
		array = call_copy_counts(&copies[i], (size_t)given->comm->size, array);
	}
	return copies;
}

static size_t items_bytes(const struct runner_part *given)
{
	return ALIGN_ROUND((size_t)given->npairs * sizeof(struct run_item));
}

static size_t own_bytes(int n)
{
	return ALIGN_ROUND(sizeof(struct running)) + ALIGN_ROUND((size_t)n * sizeof(struct part));
}

static size_t group_bytes(const struct runner_part *given, int n, int copies)
{
	size_t bytes = own_bytes(n);
	for (int i = 0; i < n; i++)
		bytes += items_bytes(&given[i]) + (copies ? copy_bytes(&given[i]) : 0);
	return bytes;
}

static struct running *group_make(void *memory, const struct runner_part *given, int n, int copies)
{
	struct running *g = memory;
	char *at = (char *)memory + own_bytes(n);
	*g = (struct running){ .n = n, .parts = (void *)((char *)memory + ALIGN_ROUND(sizeof *g)) };
	for (int i = 0; i < n; i++) {
		struct part *p = &g->parts[i];
		part_init(p, &given[i], n == 1);
		p->items = (void *)at;
		at += items_bytes(&given[i]);
		if (!copies)
			continue;
		p->calls = copy(at, &given[i]);
		at += copy_bytes(&given[i]);
	}
	return g;
}

/* ---- Tickets ----------------------------------------------------------------------------- */

/* Calls of a manual communicator that wait on another stream come first. */
static void drain_manual(struct comm *comm, const struct corale_stream *next)
{
	if (comm->last_stream != next && comm->issued != atomic_load(&comm->completed))
		stream_drain(comm->last_stream);
}

static void issue(const struct runner_part *given, int n, struct corale_stream *stream)
{
	for (int i = 0; i < n; i++) {
		given[i].comm->last_stream = stream ? stream : given[i].comm->last_stream;
		given[i].comm->issued++;
	}
}

/* Issues only what the stream has taken: a call that was not started leaves no gap. */
static int submit(struct running *g, const struct runner_part *given, struct corale_stream *stream)
{
	g->job = (struct job){ .run = run_job, .poll = poll_job, .destroy = destroy_job };
	for (int i = 0; i < g->n; i++)
		g->job.manual |= given[i].comm->manual;
	const int n = g->n; /* the group may be over when the stream has it */
	int ret = stream_submit(stream, &g->job);
	if (!ret)
		issue(given, n, stream);
	return ret;
}

/* begun: what the fast path has begun of the first part, or NULL. */
static int start_group(const struct runner_part *given, int n, struct corale_stream *stream,
		       const struct fast_begun *begun, int *started)
{
	*started = 0;
	for (int i = 0; i < n; i++)
		if (given[i].comm->manual)
			drain_manual(given[i].comm, stream);
	const struct arena_mark mark = arena_mark();
	const size_t bytes = group_bytes(given, n, stream != NULL);
	void *memory = stream ? stream_take(stream, bytes) : arena_take(bytes);
	if (!memory)
		return log_error(CORALE_ENOMEM, given->comm->rank,
				 "no memory for a group on %d communicators", n);
	struct running *g = group_make(memory, given, n, stream != NULL);
	if (stream) {
		const int ret = submit(g, given, stream);
		*started = !ret;
		return ret;
	}
	*started = 1;
	g->parts->begun = begun;
	issue(given, n, NULL);
	for (int i = 0; i < n; i++)
		if (is_turn(&g->parts[i]))
			start(&g->parts[i]);
	const int ret = run_group(g);
	arena_release(mark);
	return ret;
}

int runner_group(const struct runner_part *given, int n, struct corale_stream *stream, int *started)
{
	struct fast_begun begun[FAST_PAIRS];
	*started = 1;
	begun->signature = 0;
	if (!stream && n == 1 && fast_at_once(given->comm, given->calls, given->npairs, given->ncalls, begun))
		return 0;
	return start_group(given, n, stream, begun->signature ? begun : NULL, started);
}

int runner_refused(struct comm *comm, const struct call *refused, struct corale_stream *stream)
{
	const struct runner_part given = { comm, refused, 0, 1 };
	return start_group(&given, 1, stream, NULL, &(int){ 0 });
}

int runner_call(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	const struct runner_part given = { comm, calls, coll_table[calls->record.coll].pair ? n : 0, n };
	struct fast_begun begun = { 0 };
	if (stream || given.npairs)
		return runner_group(&given, 1, stream, &(int){ 0 });
	if (fast_at_once(comm, calls, given.npairs, n, &begun))
		return 0;
	struct part part; /* nothing sets all of it: a run is large */
	struct wait_policy policy = comm->policy;
	policy.timeout_ns = 0; /* the part has its own */
	policy.progress = &part.actions;
	if (comm->manual)
		drain_manual(comm, NULL);
	part_init(&part, &given, 1);
	part.begun = begun.signature ? &begun : NULL;
	comm->issued++;
	int ret = 0;
	if (is_turn(&part) && !start(&part) && (ret = start_collective(&part)) < 0)
		end(&part, ret);
	wait_until(&policy, poll_part, &part);
	return part.ret;
}

static int poll_completed(void *arg)
{
	const struct comm *comm = arg;
	return atomic_load_explicit(&((struct comm *)(uintptr_t)comm)->completed, memory_order_acquire) ==
	       comm->issued;
}

void runner_finish(struct comm *comm)
{
	if (comm->manual)
		drain_manual(comm, NULL);
	wait_until(&(struct wait_policy){ 0 }, poll_completed, comm);
}
