/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diagnose.h"
#include "gpu_health.h"
#include "net/proxy.h"
#include "net/transport.h"
#include "host/liveness.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"

enum {
	TICK_NS = 30 * 1000 * 1000,
	LEAVE_NS = 1000 * 1000 * 1000 /* for which an exit waits for messages to other nodes */
};

static struct watch {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct comm *first;
	int started; /* 1: runs; else 0 or a code */
	enum {
		STAYS,
		EXITING /* in exit handlers: what the GPU's libraries hold may be gone */,
		EXITED
	} exits;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void look_all(void)
{
	liveness_look();
	for (struct comm *comm = watch.first; comm; comm = comm->watch.next) {
		diagnose_deaths(comm);
		diagnose_other_nodes(comm);
	}
	for (struct comm *comm = watch.first; comm && !watch.exits; comm = comm->watch.next)
		if (comm->gpu)
			gpu_watch(comm);
}

static void *work(void *unused)
{
	const struct timespec tick = { 0, TICK_NS };
	(void)unused;
	int error = liveness_hold(); /* for ever, so outside the lock: the two have one order */
	pthread_mutex_lock(&watch.lock);
	watch.started = error ? CORALE_ESYSTEM : 1;
	pthread_cond_broadcast(&watch.changed);
	for (;;) {
		while (!watch.first || watch.exits == EXITED)
			pthread_cond_wait(&watch.changed, &watch.lock);
		look_all();
		pthread_mutex_unlock(&watch.lock);
		nanosleep(&tick, NULL);
		pthread_mutex_lock(&watch.lock);
	}
	return unused;
}

/* The CUDA runtime's pinned memory may go from here on. Handlers that the program registered before may still call. */
static void at_exit(void)
{
	if (process_is_forked())
		return;
	pthread_mutex_lock(&watch.lock);
	for (struct comm *comm = watch.first; comm; comm = comm->watch.next)
		if (comm->gpu && comm->traits.holds) /* a held stream would keep the runtime from ending */
			engine_cuda.release(comm->gpu);
	liveness_exiting();
	proxy_exiting();
	watch.exits = EXITING;
	pthread_mutex_unlock(&watch.lock);
}

static void leave_transport(struct transport *t, int64_t until_ns)
{
	if (t && t->ops->leave)
		t->ops->leave(t, until_ns);
}

/* What was posted to other nodes goes out, as it lies in this process's memory. */
static void leave_transports(void)
{
	const int64_t until = wait_now_ns() + LEAVE_NS;
	for (struct comm *comm = watch.first; comm; comm = comm->watch.next) {
		for (int rail = 1; rail < comm->nrails; rail++)
			leave_transport(comm->rails[rail], until);
		leave_transport(comm->engine.transport, until);
	}
}

/* All exit handlers have run, and the libraries that this one uses are still there. A module's end may come first (transport_on_exit). */
__attribute__((destructor)) static void at_end(void)
{
	if (process_is_forked())
		return;
	pthread_mutex_lock(&watch.lock);
	for (struct comm *comm = watch.first; comm && watch.exits != EXITED; comm = comm->watch.next)
		diagnose_exit(comm); /* before the process's end shows */
	if (watch.exits != EXITED) {
		leave_transports();
		liveness_exited();
	}
	watch.exits = EXITED;
	pthread_mutex_unlock(&watch.lock);
}

static int start_thread(int rank)
{
	int error = process_thread(NULL, work, NULL);
	if (error)
		return log_error(CORALE_ESYSTEM, rank,
				 "no thread to watch over the process's communicators: %s; raise the limit "
				 "of threads (ulimit -u, the container's pids limit)",
				 strerror(error));
	while (!watch.started)
		pthread_cond_wait(&watch.changed, &watch.lock);
	return watch.started < 0 ? watch.started : 0;
}

int watch_start(int rank)
{
	static pthread_mutex_t starting =
	    PTHREAD_MUTEX_INITIALIZER; /* ranks may be threads; start_thread gives the other lock up */
	pthread_mutex_lock(&starting);
	pthread_mutex_lock(&watch.lock);
	int ret = watch.started == 1 ? 0 : liveness_create(rank);
	if (!ret && watch.started != 1)
		ret = start_thread(rank);
	pthread_mutex_unlock(&watch.lock);
	pthread_mutex_unlock(&starting);
	return ret;
}

void watch_add(struct comm *comm)
{
	static int handled; /* under the lock */
	pthread_mutex_lock(&watch.lock);
	transport_on_exit(at_end);
	if (!handled) /* later than what the GPU's libraries have for exit, so it comes before */
		handled = !atexit(at_exit);
	comm->watch.next = watch.first;
	watch.first = comm;
	pthread_cond_broadcast(&watch.changed);
	pthread_mutex_unlock(&watch.lock);
}

void watch_remove(struct comm *comm)
{
	pthread_mutex_lock(&watch.lock);
	struct comm **at = &watch.first;
	while (*at && *at != comm)
		at = &(*at)->watch.next;
	if (*at)
		*at = comm->watch.next;
	pthread_mutex_unlock(&watch.lock);
}
