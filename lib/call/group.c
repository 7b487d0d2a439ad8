/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "self_sends.h"
#include "gpu_call.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sort.h"
#include "health/diagnose.h"
#include "refuse.h"
#include "runner.h"
#include "waves.h"

/* How a call goes on, and in which order of these. */
enum dispatch {
	DISPATCH_GPU, /* by communicator: waves of sends and receives, each a launch a rank; then collectives as made */
	DISPATCH_SINGLE, /* on hosts: one call of a communicator whose collectives are on several streams, as made */
	DISPATCH_STREAM, /* on hosts: all of a stream's calls advance together */
	DISPATCH_BLOCKING /* the same without a stream */
};

struct grouped {
	corale_comm *handle; /* the communicator may be destroyed by another thread while the group is open */
	struct comm *comm;
	struct corale_stream *stream;
	struct corale_stream *held; /* the same of a host communicator */
	struct call call;
	size_t order; /* in which it was made */
	enum dispatch dispatch;
	uint32_t wave; /* of a send or receive on a GPU, else LAST_WAVE */
};
enum { LAST_WAVE = INT32_MAX };
_Static_assert(sizeof(struct grouped) <= SORT_MOST_BYTES, "can be sorted");

/* The open group of this thread. */
struct group {
	int depth, error; /* error: of the first call that was refused */
	size_t ncalls, room;
	struct grouped *calls;
	struct arena_mark mark; /* of the first call: all that the group takes is behind it */
};

static _Thread_local struct group group;
static _Thread_local char cause[256]; /* of the first refusal of the open group */

/* Other ranks may have no reason to refuse theirs. */
static void refuse(struct group *g, int code, const char *why)
{
	if (!g->error)
		snprintf(cause, sizeof cause, "%s", why);
	g->error = g->error ? g->error : code;
}

size_t group_calls(const struct comm *comm)
{
	size_t n = 0;
	for (size_t i = 0; i < group.ncalls; i++)
		n += group.calls[i].comm == comm;
	return n;
}

void group_refuse(int code, const char *why)
{
	if (group.depth)
		refuse(&group, code, why);
}

static int no_memory(int rank, const char *what, size_t n)
{
	return log_error(CORALE_ENOMEM, rank, "no memory for %s of %zu calls", what, n);
}

/* The caller's arrays may go before the group ends. */
static int copy_counts(struct comm *comm, struct call *call)
{
	const size_t n = (size_t)comm->size;
	if (!call->send_counts && !call->recv_counts)
		return 0;
	size_t *copy = arena_take(4 * n * sizeof *copy);
	if (!copy)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for the counts of a v-form");
	call_copy_counts(call, n, copy);
	return 0;
}

static int make_room(struct comm *comm)
{
	const size_t room = group.room ? 2 * group.room : 4;
	if (!group.room)
		group.mark = arena_mark();
	struct grouped *calls = arena_take(room * sizeof *calls);
	if (!calls)
		return no_memory(comm->rank, "a group", room);
	if (group.ncalls)
		memcpy(calls, group.calls, group.ncalls * sizeof *calls);
	group.calls = calls;
	group.room = room;
	return 0;
}

static int append(struct comm *comm, const struct call *call, struct corale_stream *stream)
{
	struct call copy = *call;
	int ret = group.ncalls == group.room ? make_room(comm) : 0;
	ret = ret ? ret : copy_counts(comm, &copy);
	if (ret)
		return ret;
	call_keep(call);
	struct corale_stream *held = comm->gpu ? NULL : stream;
	if (held)
		stream_hold(held, 1);
	group.calls[group.ncalls] =
	    (struct grouped){ comm->handle, comm, stream, held, copy, group.ncalls, DISPATCH_GPU, LAST_WAVE };
	group.ncalls++;
	return 0;
}

/* ---- A group that is refused ---- */

/* "Its calls: all_reduce(count 1, int32, sum) of communicator 5f..., ..." */
static void print_calls(const struct group *g, char *buf, size_t bytes)
{
	enum { SHOWN = 4 };
	size_t at = 0;
	buf[0] = 0;
	for (size_t i = 0; i < g->ncalls && i < SHOWN && at < bytes; i++) {
		char what[256];
		diagnose_print_call(&g->calls[i].call.record, what, sizeof what);
		at += (size_t)snprintf(buf + at, bytes - at, "%s%s of communicator %016llx",
				       i ? ", " : ". Its calls: ", what,
				       (unsigned long long)g->calls[i].comm->id);
	}
	if (g->ncalls > SHOWN && at < bytes)
		snprintf(buf + at, bytes - at, ", and %zu more", g->ncalls - SHOWN);
}

/* Other ranks may start calls that this rank has not started: the next ones would meet calls of another number. */
static void end_comm(const struct group *g, struct comm *comm)
{
	char why[COMM_ERROR_BYTES], calls[512];
	print_calls(g, calls, sizeof calls);
	snprintf(why, sizeof why, "%s%s", cause, calls);
	refuse_end(comm, "a group", why);
}

/* Nothing of the group has started. */
static void end_taken(const struct group *g)
{
	for (size_t i = 0; i < g->ncalls; i++)
		end_comm(g, g->calls[i].comm);
}

int group_append(struct comm *comm, const struct call *call, struct corale_stream *stream, int refused,
		 int *ret)
{
	if (!group.depth)
		return 0;
	*ret = refused ? refused : append(comm, call, stream);
	if (*ret)
		refuse(&group, *ret, log_last_error());
	if (*ret && comm) /* it may have no other call in the group */
		end_comm(&group, comm);
	return 1;
}

int corale_group_begin(void)
{
	if (process_refuses("corale_group_begin"))
		return CORALE_ENOTSUP;
	group.depth++;
	return 0;
}

/* Communicators in an order that all their ranks share; of each the ranks that this thread drives, one after the other. */
static int by_comm(const struct grouped *a, const struct grouped *b)
{
	const int ret = sort_differ(a->comm->id, b->comm->id);
	return ret ? ret : a->comm->rank - b->comm->rank;
}

/* A rank's calls in the order in which they were made. */
static int compare_made(const void *x, const void *y)
{
	const struct grouped *a = x, *b = y;
	const int ret = by_comm(a, b);
	return ret ? ret : sort_differ(a->order, b->order);
}

/* A wave of all ranks of a communicator before the next one of any; collectives behind all waves. */
static int compare_on_gpus(const struct grouped *a, const struct grouped *b)
{
	int ret = sort_differ(a->comm->id, b->comm->id);
	ret = ret ? ret : sort_differ(a->wave, b->wave);
	return ret ? ret : compare_made(a, b);
}

/* In which they start: by dispatch, stream, communicator and rank; sends and receives first. */
static int compare_started(const void *x, const void *y)
{
	const struct grouped *a = x, *b = y;
	if (a->dispatch != b->dispatch)
		return a->dispatch < b->dispatch ? -1 : 1;
	if (a->dispatch == DISPATCH_GPU)
		return compare_on_gpus(a, b);
	if (a->dispatch == DISPATCH_SINGLE)
		return sort_differ(a->order, b->order);
	int ret = sort_differ((uintptr_t)a->stream, (uintptr_t)b->stream);
	ret = ret ? ret : by_comm(a, b);
	ret = ret ? ret : call_is_pair(&b->call) - call_is_pair(&a->call);
	return ret ? ret : sort_differ(a->order, b->order);
}

static size_t pairs_of(const struct grouped *g, size_t n)
{
	size_t pairs = 0;
	for (size_t i = 0; i < n; i++)
		pairs += (size_t)call_is_pair(&g[i].call);
	return pairs;
}

/* A group of a communicator starts as one, which a graph's part and an eager part can't. */
static int admit_together(struct grouped *g, size_t n)
{
	const struct comm *comm = g->comm;
	for (size_t i = 0; i < n; i++) {
		int ret = gpu_admit(g->comm, &g[i].call, g[i].stream);
		if (ret)
			return ret;
		if (g[i].call.admission.capture != g->call.admission.capture)
			return log_error(
			    CORALE_ENOTSUP, comm->rank,
			    "a group's calls of one communicator are on streams of which one is captured "
			    "(%s) and another is not, or is in another capture (%s): put them into groups of "
			    "their own",
			    corale_coll_name(g[g->call.admission.capture ? 0 : i].call.record.coll),
			    corale_coll_name(g[g->call.admission.capture ? i : 0].call.record.coll));
	}
	return 0;
}

/* Chooses the dispatch of one communicator's calls, and refuses what has none: nothing was started yet. */
static int check_comm(struct grouped *g, size_t n, struct call *batch)
{
	const struct comm *comm = g->comm;
	size_t pairs = 0, streams = 0;
	for (size_t i = 0; i < n; i++) {
		if (call_is_pair(&g[i].call))
			batch[pairs++] = g[i].call;
		streams += g[i].stream != g->stream;
	}
	enum dispatch dispatch = comm->gpu   ? DISPATCH_GPU
				 : streams   ? DISPATCH_SINGLE
				 : g->stream ? DISPATCH_STREAM
					     : DISPATCH_BLOCKING;
	for (size_t i = 0; i < n; i++)
		g[i].dispatch = dispatch;
	if (pairs && dispatch == DISPATCH_SINGLE)
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "sends and receives of one communicator and group, or these and its "
				 "collectives, are on several host streams: put them on one");
	int ret = self_check(comm, batch, (int)pairs);
	return ret || !comm->gpu ? ret : admit_together(g, n);
}

/* Calls from g on that are of the same communicator. */
static size_t same_comm(const struct grouped *g, size_t n)
{
	size_t same = 1;
	while (same < n && g[same].comm == g->comm && g[same].dispatch == g->dispatch &&
	       g[same].wave == g->wave)
		same++;
	return same;
}

static int check_group(struct grouped *g, size_t n, struct call *batch)
{
	int ret = 0;
	sort_items(g, n, sizeof *g, compare_made);
	for (size_t i = 0, size; !ret && i < n; i += size) {
		size = same_comm(&g[i], n - i);
		ret = check_comm(&g[i], size, batch);
		if (ret)
			comm_keep_error(g[i].comm);
	}
	return ret;
}

/* Sends and receives of all ranks of a communicator on GPUs. */
static int cut_waves(struct grouped *g, size_t n)
{
	const struct comm *comm = g->comm;
	const size_t pairs = pairs_of(g, n);
	for (size_t i = 0; i < n; i++)
		if (call_is_pair(&g[i].call))
			g[i].wave = 0;
	if (pairs <= ENGINE_MOST_GROUPED) /* no rank can have more than one wave takes */
		return 0;
	const struct arena_mark mark = arena_mark();
	struct wave_call *calls = arena_take(pairs * sizeof *calls);
	uint32_t *used = arena_take((size_t)comm->size * sizeof *used);
	if (!calls || !used)
		return no_memory(comm->rank, "waves", pairs);
	for (size_t i = 0, p = 0; i < n; i++)
		if (call_is_pair(&g[i].call))
			calls[p++] = (struct wave_call){ .rank = g[i].comm->rank,
							 .peer = g[i].call.record.root,
							 .receives = g[i].call.record.coll == CORALE_RECV,
							 .order = (uint32_t)i };
	waves_cut(calls, pairs, comm->size, ENGINE_MOST_GROUPED, used);
	for (size_t p = 0; p < pairs; p++)
		g[calls[p].order].wave = calls[p].wave;
	arena_release(mark);
	return 0;
}

static int cut_all_waves(struct grouped *g, size_t n)
{
	int ret = 0;
	for (size_t i = 0, same; !ret && i < n; i += same) {
		for (same = 1; i + same < n && g[i + same].comm->id == g[i].comm->id; same++)
			;
		if (g[i].comm->gpu && pairs_of(&g[i], same))
			ret = cut_waves(&g[i], same);
	}
	return ret;
}

/* ---- Starting ---- */

/* They start together on the first one's stream: what is on the others comes before, or after. */
static int join(const struct grouped *g, size_t n, int after)
{
	int ret = 0;
	for (size_t i = 1; !ret && i < n; i++)
		if (g[i].stream != g[i - 1].stream && g[i].stream != g->stream)
			ret = engine_cuda.join(g->comm->gpu, after ? g->stream : g[i].stream,
					       after ? g[i].stream : g->stream);
	return ret;
}

/* Sends and receives of a rank at once, or one collective. */
static int start_batch(const struct grouped *g, size_t n, struct call *batch)
{
	int ret = join(g, n, 0);
	if (!ret)
		ret = g->comm->gpu ? gpu_call(g->comm, batch, (int)n, 1, g->stream)
				   : runner_call(g->comm, batch, (int)n, g->stream);
	if (!ret)
		ret = join(g, n, 1);
	if (ret)
		comm_keep_error(g->comm);
	return ret;
}

/* Sends and receives of the first communicator that start together, or one call. */
static size_t batch_of(const struct grouped *g, size_t n)
{
	size_t pairs = pairs_of(g, same_comm(g, n));
	return g->dispatch == DISPATCH_SINGLE || !pairs ? 1 : pairs;
}

/* The group has been admitted, and some of it may have started: what can't start, for the reason that was logged last, ends its communicator, and the
 * rest goes on. */
static void end_unstarted(struct group *all, const struct grouped *g, size_t n, int code)
{
	refuse(all, code, log_last_error());
	for (size_t i = 0; i < n; i++)
		end_comm(all, g[i].comm);
}

/* One after the other, but on GPUs that only means in which order they are enqueued. */
static int start_in_order(struct group *all, const struct grouped *g, size_t n, struct call *batch)
{
	int ret = 0;
	for (size_t i = 0, size; i < n; i += size) {
		size = batch_of(&g[i], n - i);
		int one = start_batch(&g[i], size, batch + i);
		if (one && !atomic_load(&g[i].comm->error))
			end_unstarted(all, &g[i], 1, one);
		ret = ret ? ret : one;
	}
	return ret;
}

/* All calls of one stream, or of none. */
static int start_together(struct group *all, const struct grouped *g, size_t n, const struct call *batch)
{
	struct runner_part *parts = arena_take(n * sizeof *parts);
	if (!parts) {
		const int ret = no_memory(-1, "a group", n);
		end_unstarted(all, g, n, ret);
		return ret;
	}
	int used = 0, started;
	for (size_t i = 0, size; i < n; i += size) {
		size = same_comm(&g[i], n - i);
		parts[used++] =
		    (struct runner_part){ g[i].comm, batch + i, (int)pairs_of(&g[i], size), (int)size };
	}
	const int ret = runner_group(parts, used, g->stream, &started);
	if (!started)
		end_unstarted(all, g, n, ret);
	return ret;
}

static size_t same_dispatch(const struct grouped *g, size_t n)
{
	size_t same = 1;
	while (same < n && g[same].dispatch == g->dispatch &&
	       (g->dispatch < DISPATCH_STREAM || g[same].stream == g->stream))
		same++;
	return same;
}

static int run_group(struct group *all)
{
	struct grouped *g = all->calls;
	const size_t n = all->ncalls;
	struct call *batch = arena_take(n * sizeof *batch);
	int ret = batch ? check_group(g, n, batch) : no_memory(-1, "a group", n);
	ret = ret ? ret : cut_all_waves(g, n);
	if (ret) {
		refuse(all, ret, log_last_error());
		end_taken(all);
		return ret;
	}
	sort_items(g, n, sizeof *g, compare_started);
	for (size_t i = 0; i < n; i++)
		batch[i] = g[i].call;
	for (size_t i = 0, size; i < n; i += size) {
		size = same_dispatch(&g[i], n - i);
		int one = g[i].dispatch < DISPATCH_STREAM ? start_in_order(all, &g[i], size, batch + i)
							  : start_together(all, &g[i], size, batch + i);
		ret = ret ? ret : one;
	}
	return ret;
}

static void let_go(const struct grouped *g)
{
	call_let_go(&g->call);
	if (g->held)
		stream_hold(g->held, -1);
}

/* Drops the calls of communicators that another thread has destroyed since: they refuse the group. */
static void enter_comms(struct group *g)
{
	size_t kept = 0;
	for (size_t i = 0; i < g->ncalls; i++) {
		if (comm_enter(g->calls[i].handle, "corale_group_end")) {
			g->calls[kept++] = g->calls[i];
			continue;
		}
		comm_leave(g->calls[i].handle);
		let_go(&g->calls[i]);
		refuse(g, CORALE_EINVAL, log_last_error());
	}
	g->ncalls = kept;
}

int corale_group_end(void)
{
	if (process_refuses("corale_group_end"))
		return CORALE_ENOTSUP;
	if (!group.depth)
		return log_error(CORALE_EINVAL, -1,
				 "corale_group_end without corale_group_begin in this thread");
	if (--group.depth)
		return 0;
	struct group g = group;
	group = (struct group){ 0 };
	enter_comms(&g);
	int ret = g.error;
	if (ret)
		end_taken(&g);
	else if (g.ncalls)
		ret = run_group(&g);
	for (size_t i = 0; i < g.ncalls; i++) {
		let_go(&g.calls[i]);
		comm_leave(g.calls[i].handle);
	}
	if (g.room)
		arena_release(g.mark);
	return ret;
}
