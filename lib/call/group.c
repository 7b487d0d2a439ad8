/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <stdio.h>
#include <string.h>

#include "arena.h"
#include "gpu_call.h"
#include "base/log.h"
#include "base/process.h"
#include "health/diagnose.h"
#include "runner.h"

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
		return grouped_no_memory(comm->rank, "a group", room);
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
	size_t pairs = grouped_pairs(g, grouped_of_comm(g, n));
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
		const int ret = grouped_no_memory(-1, "a group", n);
		end_unstarted(all, g, n, ret);
		return ret;
	}
	int used = 0, started;
	for (size_t i = 0, size; i < n; i += size) {
		size = grouped_of_comm(&g[i], n - i);
		parts[used++] =
		    (struct runner_part){ g[i].comm, batch + i, (int)grouped_pairs(&g[i], size), (int)size };
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
	int ret = batch ? grouped_arrange(g, n, batch) : grouped_no_memory(-1, "a group", n);
	if (ret) {
		refuse(all, ret, log_last_error());
		end_taken(all);
		return ret;
	}
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
