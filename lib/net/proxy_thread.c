/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that move the messages of all communicators of the process. They call no CUDA and take no lock that a call of CUDA may hold: a kernel that waits
 * for a message may be what the program's cudaFree waits for, with the driver's lock. They poll while messages come, nap while a call is under way and sleep
 * otherwise. A call wakes them; a replay can't, so once a call was captured they nap.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"
#include "proxy_state.h"

enum {
	SPIN_NS = 200 * 1000, /* without a message */
	NAP_NS = 30 * 1000, /* while a call is under way, and after traffic; */
	LONG_NAP_NS = 180 * 1000, /* in a pause in which a graph may be replayed */
	SLACK_NS = 1000, /* of naps */
	PAUSE_NS = 20 * 1000 * 1000,
	LOITER_NS = 3 * 1000 * 1000, /* of naps, until the transport's own thread moves what still comes */
	DEEP_SLEEP_NS = 100 * 1000 * 1000,
	LOOKS_PER_WAKE = 8,
	NAPS_PER_LOOK = 16 /* in such a pause: polling a network costs more than reading kernels' words */
};

/*
 * The first rail's thread is awake while a call is in progress, and wakes the others, which sleep when nothing moves: most calls are small, and need
 * one rail.
 */
static struct progress_thread {
	pthread_mutex_t lock; /* of the list; held while its proxies move */
	pthread_cond_t wake;
	struct proxy *first;
	int spins;
	uint32_t looks;
	_Atomic int started, asleep;
	_Atomic int waiting; /* for the lock, outside */
} threads[TRANSPORT_RAILS];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int exiting;

static void make_threads(void)
{
	for (int rail = 0; rail < TRANSPORT_RAILS; rail++) {
		pthread_mutex_init(&threads[rail].lock, NULL);
		pthread_cond_init(&threads[rail].wake, NULL);
	}
}

static int rail_of(const struct progress_thread *m)
{
	return (int)(m - threads);
}

static struct proxy *next_of(const struct progress_thread *m, const struct proxy *p)
{
	return p->rails[rail_of(m)].next;
}

static int progress_all(struct progress_thread *m)
{
	int moved = 0;
	for (struct proxy *p = m->first; p; p = next_of(m, p))
		moved |= proxy_progress(p, rail_of(m));
	return moved;
}

static void nap(struct progress_thread *m, long ns)
{
	pthread_mutex_unlock(&m->lock);
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
	pthread_mutex_lock(&m->lock);
}

/* Lets threads that wait for the lock have it. */
static void give_way(struct progress_thread *m)
{
	while (atomic_load_explicit(&m->waiting, memory_order_relaxed))
		nap(m, 1000);
}

static int any_under_way(void)
{
	int any = 0;
	for (const struct proxy *p = threads->first; p; p = p->rails[0].next)
		any |= proxy_state(p) != PROXY_IDLE;
	return any;
}

static int has_work(const struct progress_thread *m)
{
	int any = 0;
	for (const struct proxy *p = m->first; p && !any; p = next_of(m, p))
		any = proxy_has_work(p, rail_of(m));
	return any;
}

/* Sleeps until woken, unless there is work already. A last message that is posted after the call's end was seen waits until the first rail's thread wakes,
 * which wakes the others. */
static void sleep_deeply(struct progress_thread *m)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += DEEP_SLEEP_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	atomic_store(&m->asleep, 1);
	if (m == threads && !any_under_way())
		pthread_cond_timedwait(&m->wake, &m->lock, &until);
	else if (m != threads && !has_work(m))
		pthread_cond_wait(&m->wake, &m->lock);
	atomic_store(&m->asleep, 0);
}

static void wake(struct progress_thread *m)
{
	pthread_mutex_lock(&m->lock);
	if (has_work(m))
		pthread_cond_broadcast(&m->wake);
	pthread_mutex_unlock(&m->lock);
}

static void wake_rails(void)
{
	for (int rail = 1; rail < TRANSPORT_RAILS && threads[rail].started; rail++)
		if (atomic_load(&threads[rail].asleep))
			wake(&threads[rail]);
}

/* 1: completed calls still have messages that only this thread can send. */
static int must_send(const struct progress_thread *m)
{
	int must = 0;
	for (const struct proxy *p = m->first; p && !must; p = next_of(m, p)) {
		const struct transport *t = p->rails[rail_of(m)].transport;
		must = t->ops->progress_by != TRANSPORT_OWN_THREAD && !proxy_rail_sent(p, rail_of(m));
	}
	return must;
}

static int any_captured(void)
{
	int any = 0;
	for (const struct proxy *p = threads->first; p; p = p->rails[0].next)
		any |= atomic_load(&p->captured);
	return any;
}

/* Naps until a replay has begun, or until the next look at everything. */
static void doze(struct progress_thread *m)
{
	for (int naps = 0; naps < NAPS_PER_LOOK && !any_under_way(); naps++)
		nap(m, LONG_NAP_NS);
}

/* Called when nothing has moved for so long. */
static void rest(struct progress_thread *m, int64_t idle_ns)
{
	const int captured = m == threads && any_captured();
	if (m == threads)
		wake_rails();
	if (m == threads && (any_under_way() || (captured && idle_ns < PAUSE_NS)))
		nap(m, NAP_NS);
	else if (must_send(m) || (m != threads && idle_ns < LOITER_NS))
		nap(m, LONG_NAP_NS);
	else if (captured)
		doze(m);
	else
		sleep_deeply(m);
}

/* The thread may run on all cores of the process, not only where its rank is bound. On fewer than two cores a spin would starve the program. */
static void find_room(struct progress_thread *m)
{
	cpu_set_t all;
	memset(&all, 0xff, sizeof all);
	sched_setaffinity(0, sizeof all, &all);
	m->spins = !sched_getaffinity(0, sizeof all, &all) && CPU_COUNT(&all) > 2;
	if (m == threads && CPU_COUNT(&all) < 2)
		log_line(
		    LOG_WARN, -1,
		    "the proxy that carries messages between nodes shares its only core with the program, so "
		    "it sleeps between messages: start the ranks with mpirun --bind-to none");
}

static void *run(void *arg)
{
	struct progress_thread *m = arg;
	int64_t last = wait_now_ns();
	find_room(m);
	prctl(PR_SET_TIMERSLACK, SLACK_NS);
	pthread_mutex_lock(&m->lock);
	for (;;) {
		while (!m->first || atomic_load(&exiting))
			pthread_cond_wait(&m->wake, &m->lock);
		const int64_t now = wait_now_ns();
		if (m == threads && m->looks++ % LOOKS_PER_WAKE == 0)
			wake_rails();
		if (progress_all(m))
			last = now;
		else if (!m->spins || now - last > SPIN_NS)
			rest(m, now - last);
		give_way(m);
	}
	return NULL;
}

static int start_thread(struct progress_thread *m, int rank)
{
	int error = process_thread(NULL, run, m);
	if (error)
		return log_error(CORALE_ESYSTEM, rank,
				 "no thread to carry messages between nodes: %s; raise the limit of threads "
				 "(ulimit -u, the container's pids limit)",
				 strerror(error));
	m->started = 1;
	return 0;
}

static void lock_thread(struct progress_thread *m)
{
	atomic_fetch_add(&m->waiting, 1);
	pthread_mutex_lock(&m->lock);
	atomic_fetch_sub(&m->waiting, 1);
}

static void unlock_thread(struct progress_thread *m)
{
	pthread_cond_broadcast(&m->wake);
	pthread_mutex_unlock(&m->lock);
}

/* ---- Doors -------------------------------------------------------------------------------------------------- */

static int join(struct progress_thread *m, struct proxy *p)
{
	lock_thread(m);
	int ret = m->started ? 0 : start_thread(m, p->params.rank);
	if (!ret) {
		p->rails[rail_of(m)].next = m->first;
		m->first = p;
	}
	unlock_thread(m);
	return ret;
}

static void leave(struct progress_thread *m, struct proxy *p)
{
	lock_thread(m);
	struct proxy **at = &m->first;
	while (*at && *at != p)
		at = &(*at)->rails[rail_of(m)].next;
	if (*at)
		*at = p->rails[rail_of(m)].next;
	unlock_thread(m);
}

int proxy_open(const struct proxy_params *params, struct proxy **out)
{
	struct proxy *p;
	int ret = proxy_create(params, &p), rail = params->nrails;
	if (ret)
		return ret;
	pthread_once(&once, make_threads);
	while (!ret && rail--) /* the first rail last: its thread wakes the others */
		ret = join(&threads[rail], p);
	if (!ret) {
		*out = p;
		return 0;
	}
	for (int r = 0; r < params->nrails; r++)
		leave(&threads[r], p);
	proxy_free(p);
	return ret;
}

void proxy_expect(struct proxy *p)
{
	atomic_fetch_add(&p->enqueued, 1);
	if (!atomic_load(&threads->asleep))
		return;
	lock_thread(threads);
	unlock_thread(threads);
}

void proxy_unexpect(struct proxy *p, int captured)
{
	atomic_fetch_sub(&p->enqueued, 1);
	if (captured)
		atomic_store(&p->captured, 1); /* awake, as of proxy_expect */
}

static int poll_sent(void *arg)
{
	const struct proxy *p = arg;
	int all = 1;
	for (int rail = 0; rail < p->params.nrails; rail++) {
		lock_thread(&threads[rail]);
		all &= proxy_rail_sent(p, rail);
		unlock_thread(&threads[rail]);
	}
	return all;
}

void proxy_stop(struct proxy *p, int64_t timeout_ns)
{
	const struct wait_policy policy = { .timeout_ns = timeout_ns, .sleep_ns = NAP_NS };
	pthread_once(&once, make_threads);
	proxy_expect(p);
	if (wait_until(&policy, poll_sent, p) <= 0)
		log_line(
		    LOG_WARN, p->params.rank,
		    "messages to ranks of other nodes were still under way when their communicator ended");
	for (int rail = 0; rail < p->params.nrails; rail++)
		leave(&threads[rail], p);
}

void proxy_exiting(void)
{
	pthread_once(&once, make_threads);
	atomic_store(&exiting, 1);
	for (int rail = 0; rail < TRANSPORT_RAILS; rail++) { /* none moves from here on */
		lock_thread(&threads[rail]);
		unlock_thread(&threads[rail]);
	}
}
