/* SPDX-License-Identifier: BSD-3-Clause */
#include "start.h"

#include <stdio.h>

#include "arena.h"
#include "base/log.h"
#include "health/diagnose.h"
#include "health/presence.h"
#include "health/stall.h"
#include "host/liveness.h"
#include "host/host_engine.h"
#include "signature.h"

enum {
	CLOCKS_PER_LOOK = 8, /* 256 polls, a tenth of a second where waits sleep */
	STALL_NS = 100 * 1000 * 1000, /* without a step, after which other nodes get control messages */
	HOPELESS_NS =
	    1000 * 1000 * 1000, /* the same, after which nothing that a rank has sent is still on its way */
	MOST_POLL_NS = 100 * 1000 * 1000 /* of a poll: time in which nobody polled is not the peers' */
};

/* Moves what all calls of the communicator share; 0, or why the call ends. waited_ns: without progress. */
static int progress_comm(struct comm *comm, int64_t waited_ns)
{
	struct transport *transport = comm->engine.transport;
	int ret = transport ? transport->ops->progress(transport) : 0;
	if (ret < 0 || !(ret = diagnose_peers(comm)))
		return ret;
	return waited_ns < diagnose_patience(comm) ? 0 : ret;
}

static int run_done(const struct host_run *run)
{
	for (int c = 0; c < run->nchannels; c++)
		if (!run->channels[c].done)
			return 0;
	return 1;
}

static struct run_item *first_pending(const struct progress *p)
{
	for (int i = 0; i < p->n; i++)
		if (!run_done(&p->items[i].run))
			return &p->items[i];
	return p->items;
}

/* ---- Stalls ------------------------------------------------------------------------- */

/* The rank that is to take something, where nothing is awaited. */
static int reader(const struct host_channel *channel, int programs, int rank)
{
	for (int i = 0; i < programs; i++) {
		const struct host_program *p = &channel->programs[i];
		if (!p->done && p->active && (p->ready || p->action.from == PLAN_NONE) && p->action.to >= 0 &&
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
	for (int c = first; c < first + n && peer == PLAN_NONE; c++)
		peer = host_channel_reader(run, c);
	return peer;
}

/* For ranks that make no call: they may wait for this one elsewhere (child.c). Those of other nodes are told when they ask. */
static void show_wait(struct comm *comm, const struct call *call, int peer)
{
	if (peer < 0 || !comm_control(comm, comm->rank))
		return;
	const int pair = call_is_pair(call), sends = call->record.coll == CORALE_SEND;
	const uint64_t number = !pair   ? atomic_load(&comm->number)
				: sends ? comm->sends[peer]
					: comm->recvs[peer];
	atomic_store(&comm_control(comm, comm->rank)->waits, window_wait_of(!pair   ? WINDOW_IN_COLLECTIVE
									    : sends ? WINDOW_IN_SEND
										    : WINDOW_IN_RECV,
									    number, peer));
}

/* A long wait looks whether others have made another call: two calls may listen on different queues, or wait for each other, and never
 * meet. Channels first to first + n of the run are this thread's. */
static int look_at_others(struct comm *comm, struct stall *stall, const struct run_item *item, int first,
			  int n)
{
	const struct call *call = item->call;
	int ret = diagnose_differs(comm, 1);
	if (ret || stall->looked_ns - stall->since_ns <= STALL_NS)
		return ret;
	const int peer = awaited(&item->run, first, n);
	show_wait(comm, call, peer);
	const int refuses = peer >= 0 && call_is_pair(call) && diagnose_refuses(comm, peer);
	if (refuses || (peer >= 0 && presence_is_over(comm, peer))) {
		if (stall->gone++)
			return refuses ? diagnose_refused(comm, &call->record, peer)
				       : diagnose_gone(comm, &call->record, peer);
		return ret; /* its last message may have come since this thread looked: the next look finds it */
	}
	if (peer >= 0 && !stall->steps && stall->waited_ns > HOPELESS_NS &&
	    (ret = diagnose_one_caller(comm, &call->record, peer)))
		return ret;
	const struct stall_wait wait = { &call->record, call_is_pair(call) ? 0 : atomic_load(&comm->number),
					 peer };
	ret = diagnose_stalled(comm, peer);
	if (!ret && peer != PLAN_NONE)
		stall_look(comm, &wait, stall->since_ns);
	return ret;
}

/* Whether a thread's runs have moved since its last look: 1 if they have stood still for too long. */
static int is_late(struct stall *stall, uint64_t actions, int64_t timeout_ns)
{
	const int64_t now = wait_now_ns(), passed = now - stall->looked_ns,
		      most = stall->steps ? MOST_POLL_NS : (int64_t)MOST_POLL_NS * PROGRESS_POLLS_PER_CLOCK;
	if (!stall->looked_ns || actions != stall->actions) {
		stall->actions = actions;
		stall->since_ns = now;
		stall->waited_ns = 0;
		stall->gone = 0;
	} else {
		stall->waited_ns += passed < most ? passed : most;
	}
	stall->looked_ns = now;
	return timeout_ns > 0 && stall->waited_ns > timeout_ns;
}

static int is_time(unsigned *count, unsigned more, unsigned most)
{
	*count += more;
	if (*count < most)
		return 0;
	*count = 0;
	return 1;
}

/* A thread has found nothing to do. channel: of the single run; -1: all that p has. */
static int look(struct progress *p, struct stall *stall, uint64_t actions, int polls, int channel)
{
	int ret = progress_comm(p->comm, stall->waited_ns);
	if (ret || !is_time(&stall->polls, (unsigned)polls, PROGRESS_POLLS_PER_CLOCK))
		return ret;
	if (is_late(stall, actions, p->comm->policy.timeout_ns))
		return CORALE_ETIMEDOUT;
	if (!is_time(&stall->looks, 1, CLOCKS_PER_LOOK))
		return 0;
	const struct run_item *item = channel < 0 ? first_pending(p) : p->items;
	return channel < 0 ? look_at_others(p->comm, stall, item, 0, item->run.nchannels)
			   : look_at_others(p->comm, stall, item, channel, 1);
}

/* ---- Failure ------------------------------------------------------------------------ */

/* How far the call was, and what its first channel that is not done waits for. */
static int fail_timeout(struct comm *comm, const struct stall *stall, struct run_item *item)
{
	char text[384] = "", what[256] = "";
	struct host_run *run = &item->run;
	const int peer = awaited(run, 0, run->nchannels);
	int ret = peer < 0 || stall->steps ? 0 : diagnose_one_caller(comm, &item->call->record, peer);
	if (ret)
		return ret;
	for (int c = run->nchannels - 1; c >= 0; c--)
		if (!run->channels[c].done)
			host_channel_describe(run, c, what, sizeof what);
	snprintf(text, sizeof text, "%s; until then it had moved %llu bytes in %llu steps", what,
		 (unsigned long long)atomic_load(&run->bytes),
		 (unsigned long long)atomic_load(&run->actions));
	return diagnose_timeout(comm, &item->call->record, atomic_load(&comm->number), text);
}

/* A rank that has left, and that the run has lost, as far as it is known; or -1. */
static int find_gone(const struct comm *comm, const struct host_run *run)
{
	const int peer = awaited(run, 0, run->nchannels);
	if (peer >= 0 && presence_of(comm, peer) != IS_PRESENT)
		return peer;
	for (int r = 0; comm->peers && r < comm->size; r++)
		if (!host_is_local(&comm->engine, r) && presence_of(comm, r) != IS_PRESENT)
			return r;
	return -1;
}

struct search {
	struct comm *comm;
	const struct host_run *run;
};

/* 1: it is known why. */
static int poll_reason(void *arg)
{
	const struct search *s = arg;
	struct comm *comm = s->comm;
	transport_progress(comm->engine.transport);
	liveness_look();
	diagnose_deaths(comm);
	return diagnose_peers(comm) || find_gone(comm, s->run) >= 0;
}

/* A peer that found an error says so, then leaves with its memory: what it said counts, not that it left. A thread that is about to
 * say why a peer is lost may come later than the loss shows here. */
static int learn_reason(struct comm *comm, const struct host_run *run, int code)
{
	struct search search = { comm, run };
	static const struct wait_policy soon = { .timeout_ns = 400 * 1000 * 1000 };
	if (code != CORALE_EPEER && code != CORALE_ETRANSPORT && code != CORALE_ESYSTEM)
		return code;
	if (code == CORALE_EPEER)
		wait_until(&soon, poll_reason, &search);
	else
		poll_reason(&search);
	const int reason = diagnose_peers(comm);
	return reason ? reason : code;
}

/* A call has lost a peer, and nobody has said why: it names that one, or the one that it waits for. */
static int diagnose_awaited(struct comm *comm, const struct run_item *failed)
{
	const struct record *call = &failed->call->record;
	const int gone = find_gone(comm, &failed->run),
		  peer = gone >= 0 ? gone : awaited(&failed->run, 0, failed->run.nchannels);
	if (gone >= 0)
		return diagnose_gone(comm, call, gone);
	return peer < 0 ? diagnose_end(comm, call, CORALE_EPEER) : diagnose_lost(comm, call, peer);
}

static int fail(struct progress *p, struct run_item *failed, int ret)
{
	struct host_mismatch *mismatch = &failed->run.mismatch;
	if (mismatch->found && call_is_pair(failed->call))
		mismatch->got_type = signature_type_of_pair(mismatch->got);
	ret = learn_reason(p->comm, &failed->run, ret);
	if (ret == CORALE_EPEER && !diagnose_peers(p->comm))
		return diagnose_awaited(p->comm, failed);
	if (ret == CORALE_EMISMATCH)
		return diagnose_mismatch(p->comm, &failed->call->record, mismatch->found ? mismatch : NULL);
	return ret == CORALE_ETIMEDOUT ? fail_timeout(p->comm, &p->stall, first_pending(p))
				       : diagnose_end(p->comm, &failed->call->record, ret);
}

void progress_let_go(struct comm *comm, int code)
{
	struct transport *transport = comm->engine.transport;
	if (transport)
		transport->ops->fail(transport, code);
	host_lend_end(&comm->engine);
}

/* ---- Channels in threads of their own ---------------------------------------------- */

/* One channel. */
struct channel_task {
	struct pool_task task; /* first: the pool hands it back */
	struct progress *progress;
	int channel;
	int ret;
	struct stall stall;
	_Atomic int ended;
};

/* A channel may wait as long as any of the run moves. */
static int poll_channel(void *arg)
{
	struct channel_task *t = arg;
	struct host_run *run = &t->progress->items->run;
	int ret = host_channel_progress(run, t->channel);
	if (ret)
		return ret;
	if (atomic_load_explicit(&t->progress->stop, memory_order_relaxed))
		return CORALE_EABORTED;
	return look(t->progress, &t->stall, atomic_load_explicit(&run->actions, memory_order_relaxed), 1,
		    t->channel);
}

static void run_channel(struct pool_task *task)
{
	struct channel_task *t = (struct channel_task *)task;
	const struct wait_policy *own = &t->progress->comm->policy;
	const struct wait_policy policy = { .spin_ns = own->spin_ns,
					    .sleep_ns = own->sleep_ns,
					    .progress = &t->progress->items->run.actions };
	t->ret = wait_until(&policy, poll_channel, t);
	if (t->ret < 0)
		atomic_store(&t->progress->stop, 1);
	atomic_store_explicit(&t->ended, 1, memory_order_release);
}

static int poll_ended(void *arg)
{
	struct channel_task *t = arg;
	return atomic_load_explicit(&t->ended, memory_order_acquire);
}

/* All channels of one run to their end, channel 0 in this thread. The first real cause among them is the result. */
static int run_channels(struct progress *p)
{
	int n = p->items->run.nchannels, started = 1;
	const struct arena_mark mark = arena_mark();
	struct channel_task *tasks = arena_take((size_t)n * sizeof *tasks);
	if (!tasks)
		return fail(p, p->items,
			    log_error(CORALE_ENOMEM, p->comm->rank, "no memory for %d channels", n));
	int ret = 0;
	for (; !ret && started < n; started += !ret) {
		tasks[started] =
		    (struct channel_task){ .task = { run_channel, NULL }, .progress = p, .channel = started };
		ret = pool_submit(&tasks[started].task);
	}
	tasks[0] = (struct channel_task){ .progress = p };
	if (ret < 0)
		atomic_store(&p->stop, 1);
	else
		run_channel(&tasks[0].task);
	ret = ret < 0 ? ret : tasks[0].ret;
	for (int c = 1; c < started; c++) { /* the run stays until its threads end, at their own deadlines */
		wait_until(&(struct wait_policy){ .spin_ns = p->comm->policy.spin_ns }, poll_ended,
			   &tasks[c]);
		if (tasks[c].ret < 0 && (ret >= 0 || ret == CORALE_EABORTED))
			ret = tasks[c].ret;
	}
	arena_release(mark);
	return ret < 0 ? fail(p, p->items, ret) : 1;
}

/* ---- All runs ------------------------------------------------------------------------ */

int progress_poll(struct progress *p, int polls)
{
	int all = 1;
	uint64_t actions = 0;
	p->stall.steps = polls > 1;
	if (p->alone && p->n == 1 && p->items->run.nchannels > 1)
		return run_channels(p);
	for (int i = 0; i < p->n; i++) {
		struct run_item *item = &p->items[i];
		if (item->after >= 0 && !run_done(&p->items[item->after].run)) {
			all = 0;
			continue;
		}
		for (int c = 0; c < item->run.nchannels; c++) {
			int ret = host_channel_progress(&item->run, c);
			if (ret < 0)
				return fail(p, item, ret);
			all &= ret;
		}
		actions += atomic_load_explicit(&item->run.actions, memory_order_relaxed);
	}
	p->actions = actions;
	int ret = all ? 1 : look(p, &p->stall, actions, polls, -1);
	return ret < 0 ? fail(p, p->items, ret) : ret;
}

void progress_end(struct progress *p)
{
	for (int i = 0; i < p->n; i++)
		host_run_free(&p->items[i].run);
	p->n = 0;
}
