#include "drive.h"

#include <stdio.h>

#include "arena.h"
#include "health/diagnose.h"
#include "base/log.h"
#include "host/pool.h"
#include "health/silence.h"

/* One channel beside the caller's. */
struct channel_task {
	struct pool_task task; /* first: the pool hands it back */
	struct drive *drive;
	int channel;
	int ret;
	struct drive_stall stall;
	_Atomic int ended;
};

enum {
	POLLS_PER_LOOK = 256, /* a tenth of a second where waits sleep */
	STALL_NS = 100 * 1000 * 1000 /* without a step, after which ranks of other nodes are told */
};

/* Moves what all calls of the communicator share; 0, or why the communicator ends. */
static int progress_comm(struct comm *comm)
{
	struct transport *transport = comm->engine.transport;
	int ret = transport ? transport->ops->progress(transport) : 0;
	return ret < 0 ? ret : diagnose_peers(comm);
}

/* The rank that is to take something, where nothing is awaited. */
static int reader(const struct host_channel *channel, int programs, int rank)
{
	for (int i = 0; i < programs; i++) {
		const struct host_program *p = &channel->programs[i];
		if (!p->done && p->active && p->action.from == PLAN_NONE && p->action.to >= 0 &&
		    p->action.to != rank)
			return p->action.to;
	}
	return PLAN_NONE;
}

/* The rank that a run waits for, of the first of its channels that waits for any. */
static int awaited(const struct host_run *run, int first, int n)
{
	int peer = PLAN_NONE;
	for (int c = first; c < first + n && peer == PLAN_NONE; c++)
		peer = host_channel_awaits(run, c);
	for (int c = first; c < first + n && peer == PLAN_NONE; c++)
		peer = reader(&run->channels[c], run->plan->nprograms, run->engine->rank);
	return peer;
}

/* Now and then a long wait looks whether others have made another call: two calls may listen on different rings, or wait
 * for each other, and never meet. Channels first to first + n of the run are this thread's. */
static int look(struct comm *comm, struct drive_stall *stall, const struct host_run *run,
		const struct call *call, int first, int n)
{
	const uint64_t actions = atomic_load_explicit(&run->actions, memory_order_relaxed);
	const int64_t now = wait_now_ns();
	int ret = diagnose_differs(comm);
	if (!stall->since_ns || actions != stall->actions) {
		stall->actions = actions;
		stall->since_ns = now;
		stall->gone = 0;
	}
	if (ret || now - stall->since_ns <= STALL_NS)
		return ret;
	const int peer = awaited(run, first, n);
	if (peer >= 0 && diagnose_is_gone(comm, peer)) {
		if (stall->gone++)
			return diagnose_gone(comm, &call->record, peer);
		return ret; /* what it did last may have come since this thread looked: only the next look tells */
	}
	const struct silence_wait wait = { &call->record, call_is_pair(call) ? 0 : atomic_load(&comm->number),
					   peer };
	ret = diagnose_stalled(comm, peer);
	if (!ret && peer != PLAN_NONE)
		silence_look(comm, &wait, stall->since_ns);
	return ret;
}

static int is_time_to_look(struct drive_stall *stall)
{
	return ++stall->polls % POLLS_PER_LOOK == 0;
}

static int progress_run(struct host_run *run)
{
	int all = 1;
	for (int c = 0; c < run->nchannels; c++) {
		int ret = host_channel_progress(run, c);
		if (ret < 0)
			return ret;
		all &= ret;
	}
	return all;
}

static int run_done(const struct host_run *run)
{
	for (int c = 0; c < run->nchannels; c++)
		if (!run->channels[c].done)
			return 0;
	return 1;
}

static int first_pending(const struct drive *d)
{
	for (int i = 0; i < d->nruns; i++)
		if (!run_done(&d->runs[i]))
			return i;
	return 0;
}

static int poll_runs(void *arg)
{
	struct drive *d = arg;
	int all = 1;
	uint64_t progress = 0;
	for (int i = 0; i < d->nruns; i++) {
		if (d->after && d->after[i] >= 0 && !run_done(&d->runs[d->after[i]])) {
			all = 0;
			continue;
		}
		int ret = progress_run(&d->runs[i]);
		if (ret < 0) {
			d->failed = i;
			return ret;
		}
		all &= ret;
		progress += atomic_load_explicit(&d->runs[i].actions, memory_order_relaxed);
	}
	atomic_store_explicit(&d->progress, progress, memory_order_relaxed);
	int ret = all ? 1 : progress_comm(d->comm);
	if (ret || !is_time_to_look(&d->stall))
		return ret;
	const struct host_run *run = &d->runs[first_pending(d)];
	return look(d->comm, &d->stall, run, &d->calls[run - d->runs], 0, run->nchannels);
}

/* ---- Channels in threads of their own ---------------------------------------------- */

static int poll_channel(void *arg)
{
	struct channel_task *t = arg;
	int ret = host_channel_progress(t->drive->runs, t->channel);
	if (ret)
		return ret;
	if (atomic_load_explicit(&t->drive->stop, memory_order_relaxed))
		return CORALE_EABORTED;
	ret = progress_comm(t->drive->comm);
	if (ret || !is_time_to_look(&t->stall))
		return ret;
	return look(t->drive->comm, &t->stall, t->drive->runs, t->drive->calls, t->channel, 1);
}

/* A channel may wait as long as any of the run moves. */
static struct wait_policy channel_policy(const struct drive *d)
{
	struct wait_policy policy = d->comm->policy;
	policy.progress = &d->runs->actions;
	return policy;
}

static void run_channel(struct pool_task *task)
{
	struct channel_task *t = (struct channel_task *)task;
	const struct wait_policy policy = channel_policy(t->drive);
	t->ret = wait_until(&policy, poll_channel, t);
	if (t->ret < 0)
		atomic_store(&t->drive->stop, 1);
	atomic_store_explicit(&t->ended, 1, memory_order_release);
}

static int poll_ended(void *arg)
{
	struct channel_task *t = arg;
	return atomic_load_explicit(&t->ended, memory_order_acquire);
}

/* All channels of one run, channel 0 in this thread. The first real cause among them is the result. */
static int drive_channels(struct drive *d)
{
	int n = d->runs->nchannels, started = 1;
	const struct arena_mark mark = arena_mark();
	struct channel_task *tasks = arena_take((size_t)n * sizeof *tasks);
	if (!tasks)
		return log_error(CORALE_ENOMEM, d->comm->rank, "no memory for %d channels", n);
	int ret = 0;
	for (; !ret && started < n; started += !ret) {
		tasks[started] =
		    (struct channel_task){ .task = { run_channel, NULL }, .drive = d, .channel = started };
		ret = pool_submit(&tasks[started].task);
	}
	tasks[0] = (struct channel_task){ .task = { run_channel, NULL }, .drive = d };
	const struct wait_policy policy = channel_policy(d);
	if (!ret)
		ret = wait_until(&policy, poll_channel, &tasks[0]);
	if (ret < 0)
		atomic_store(&d->stop, 1);
	for (int c = 1; c < started;
	     c++) { /* the run must not go before its threads; they end at their own deadlines */
		wait_until(&(struct wait_policy){ .spin_ns = d->comm->policy.spin_ns }, poll_ended,
			   &tasks[c]);
		if (tasks[c].ret < 0 && (ret >= 0 || ret == CORALE_EABORTED))
			ret = tasks[c].ret;
	}
	arena_release(mark);
	return ret;
}

/* ---- Failure ------------------------------------------------------------------------ */

/* How far the call was, and what its first channel that is not done waits for. */
static int fail_timeout(struct drive *d)
{
	char text[384] = "", what[256] = "";
	int pending = first_pending(d);
	struct host_run *run = &d->runs[pending];
	for (int c = run->nchannels - 1; c >= 0; c--)
		if (!run->channels[c].done)
			host_channel_describe(run, c, what, sizeof what);
	snprintf(text, sizeof text, "%s; until then %llu actions had moved %llu bytes", what,
		 (unsigned long long)atomic_load(&run->actions),
		 (unsigned long long)atomic_load(&run->bytes));
	return diagnose_timeout(d->comm, &d->calls[pending].record, atomic_load(&d->comm->number), text);
}

/* A peer that found an error says so, then leaves with its memory: what it said counts, not that it left. */
static int learn_reason(struct comm *comm, int code)
{
	struct transport *transport = comm->engine.transport;
	if (code != CORALE_EPEER && code != CORALE_ETRANSPORT && code != CORALE_ESYSTEM)
		return code;
	if (transport)
		transport->ops->progress(transport);
	int reason = diagnose_peers(comm);
	return reason ? reason : code;
}

static int diagnose(struct drive *d, int ret)
{
	const struct call *call = &d->calls[d->failed];
	const struct host_mismatch *mismatch = &d->runs[d->failed].mismatch;
	ret = learn_reason(d->comm, ret);
	if (ret == CORALE_EMISMATCH)
		return diagnose_mismatch(d->comm, &call->record, mismatch->found ? mismatch : NULL);
	return ret == CORALE_ETIMEDOUT ? fail_timeout(d) : diagnose_end(d->comm, &call->record, ret);
}

/* The caller's buffers are the caller's again when the call has returned. */
static int fail(struct drive *d, int ret)
{
	struct transport *transport = d->comm->engine.transport;
	ret = diagnose(d, ret);
	if (transport)
		transport->ops->fail(transport, ret);
	return ret;
}

/* ---- Doors -------------------------------------------------------------------------- */

void drive_start(struct drive *d, struct comm *comm, struct host_run *runs, const int *after, int n,
		 const struct call *calls)
{
	*d = (struct drive){ .comm = comm, .runs = runs, .after = after, .nruns = n, .calls = calls };
}

int drive_runs(struct comm *comm, struct host_run *runs, const int *after, int n, const struct call *calls)
{
	struct drive d = { .comm = comm, .runs = runs, .after = after, .nruns = n, .calls = calls };
	struct wait_policy policy = comm->policy;
	policy.progress = &d.progress;
	int threads = n == 1 && runs->nchannels > 1 && !comm->manual;
	int ret = threads ? drive_channels(&d) : wait_until(&policy, poll_runs, &d);
	return ret > 0 ? 0 : fail(&d, ret);
}

/* Time in which nobody polled is not the peers'. */
static int is_late(struct drive *d)
{
	const int64_t most = 100 * 1000 * 1000, now = wait_now_ns(), passed = now - d->polled_ns;
	uint64_t progress = atomic_load_explicit(&d->progress, memory_order_relaxed);
	if (!d->polled_ns || progress != d->seen)
		d->waited_ns = 0;
	else
		d->waited_ns += passed < most ? passed : most;
	d->seen = progress;
	d->polled_ns = now;
	return d->comm->policy.timeout_ns > 0 && d->waited_ns > d->comm->policy.timeout_ns;
}

int drive_poll(struct drive *d)
{
	int ret = poll_runs(d);
	if (!ret && is_late(d))
		ret = CORALE_ETIMEDOUT;
	return ret < 0 ? fail(d, ret) : ret;
}
