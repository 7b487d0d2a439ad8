/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of a worker: by waiting threads, else by its own thread. An idle process uses no CPU. */
#include "ucx_worker.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "ucx_comm.h"
#include "base/wait.h"

enum {
	PASSES = 64,
	NAP_MS = 1,
	SOON_MS = 2,
	OFTEN_MS = 100,
	BUSY_HELPS = 16, /* calls of progress by others during a nap: so many mean that a thread polls */
};

/* Called under the lock, and releases it. */
static int pass(struct ucx_worker *w, int most)
{
	int moved = 0, news;

	for (int i = 0; i < most && ucp_worker_progress(w->ucp); i++)
		moved = 1;
	if (w->failures) {
		ucx_comm_reap(w);
		moved = 1;
	}
	news = w->news;
	ucx_unlock(w);
	return (news && ucx_comm_dispatch(w)) || moved;
}

int ucx_progress(struct ucx_worker *w)
{
	ucx_lock(w);
	return pass(w, PASSES);
}

/* One pass: callers look at its result before the next, because an empty pass over tcp costs a system call. */
int ucx_try_progress(struct ucx_worker *w)
{
	atomic_fetch_add_explicit(&w->helps, 1, memory_order_relaxed);
	if (pthread_mutex_trylock(&w->lock))
		return 0;
	return pass(w, 1);
}

/*
 * When the thread looks for descriptors that UCX has opened. Peers connect at any time, and UCX does not report it. So it looks soon after this process has made
 * connections, else while messages move, for a hundredth of its time at most.
 */
struct sealing {
	int64_t ended, took;
	int moved; /* since */
};

static int64_t next_sealing(const struct ucx_worker *w, const struct sealing *s)
{
	const int connects = atomic_load_explicit(&w->connects, memory_order_relaxed);
	const int64_t pause = (connects ? SOON_MS : OFTEN_MS) * 1000000ll;
	return connects || s->moved ? s->ended + (pause > 100 * s->took ? pause : 100 * s->took) : INT64_MAX;
}

static void seal(struct ucx_worker *w, struct sealing *s, int64_t now)
{
	if (now < next_sealing(w, s))
		return;
	atomic_store_explicit(&w->connects, 0, memory_order_relaxed);
	ucx_descriptors_seal(w);
	s->ended = wait_now_ns();
	s->took = s->ended - now;
	s->moved = 0;
}

/* Sleeps until UCX has events, if it has none now, and no other thread has left any. */
static void sleep_until_event(struct ucx_worker *w, int64_t until)
{
	struct pollfd wake = { .fd = w->event_fd, .events = POLLIN };

	ucx_lock(w);
	int armed = !w->news && !w->failures && ucp_worker_arm(w->ucp) == UCS_OK;
	w->asleep = armed;
	ucx_unlock(w);
	if (!armed)
		return;
	const int64_t left = until - wait_now_ns();
	const int ms = until == INT64_MAX ? -1 : left > 0 ? (int)(left / 1000000) + 1 : 0;
	if (poll(&wake, 1, ms) < 0 && errno != EINTR)
		log_line(LOG_WARN, -1, "transport ucx: poll: %s", strerror(errno));
	ucx_lock(w);
	w->asleep = 0;
	ucx_unlock(w);
}

/* 1 if other threads poll so often that this one would only contend with them. */
struct watch {
	int64_t since;
	unsigned helps;
	int busy;
};

static int others_are_busy(struct ucx_worker *w, struct watch *watch, int64_t now)
{
	if (now - watch->since >= NAP_MS * 1000000) {
		unsigned helps = atomic_load_explicit(&w->helps, memory_order_relaxed);
		watch->busy = helps - watch->helps >= BUSY_HELPS;
		watch->helps = helps;
		watch->since = now;
	}
	return watch->busy;
}

static void *run(void *arg)
{
	struct ucx_worker *w = arg;
	int64_t now = wait_now_ns(), moved_at = now;
	struct watch watch = { now, 0, 0 };
	struct sealing sealing = { now, 0, 0 };

	for (; !atomic_load(&w->stop); now = wait_now_ns()) {
		seal(w, &sealing, now);
		if (others_are_busy(w, &watch, now)) {
			sealing.moved = 1;
			poll(NULL, 0, NAP_MS);
		} else if (ucx_progress(w)) {
			sealing.moved = 1;
			moved_at = now;
		} else if (now - moved_at < w->spin_ns) {
			sched_yield();
		} else {
			sleep_until_event(w, next_sealing(w, &sealing));
			moved_at = wait_now_ns();
		}
	}
	return NULL;
}

int ucx_thread_start(struct ucx_worker *w)
{
	int error = process_thread(&w->thread, run, w);
	if (error)
		return log_error(CORALE_ESYSTEM, -1, "transport ucx: pthread_create: %s", strerror(error));
	return 0;
}

void ucx_thread_stop(struct ucx_worker *w)
{
	atomic_store(&w->stop, 1);
	ucp_worker_signal(w->ucp);
	pthread_join(w->thread, NULL);
}
