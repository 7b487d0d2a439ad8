/* The thread that moves the messages of all communicators of the process. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"
#include "proxy_state.h"

enum {
	SPIN_NS = 200 * 1000, /* without a message */
	NAP_NS = 30 * 1000, /* while a call is under way, and after traffic; */
	LONG_NAP_NS = 120 * 1000, /* in a pause in which a graph may be replayed */
	PAUSE_NS = 20 * 1000 * 1000,
	DEEP_SLEEP_NS = 100 * 1000 * 1000
};

static struct thread {
	pthread_mutex_t lock; /* of the list; held while its proxies move */
	pthread_cond_t wake;
	struct proxy *first;
	int started, exiting, spins;
	_Atomic int asleep;
	_Atomic int waiting; /* for the lock, outside */
} thread = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static int move_all(void)
{
	int moved = 0;
	for (struct proxy *p = thread.first; p; p = p->next)
		moved |= proxy_progress(p);
	return moved;
}

static void nap(long ns)
{
	pthread_mutex_unlock(&thread.lock);
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
	pthread_mutex_lock(&thread.lock);
}

/* Whoever waits for the lock gets it. */
static void give_way(void)
{
	while (atomic_load_explicit(&thread.waiting, memory_order_relaxed))
		nap(1000);
}

/* Until it is woken; should a call's end have been seen before its last message, that waits no longer than this. */
static void sleep_deeply(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += DEEP_SLEEP_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&thread.wake, &thread.lock, &until);
}

/* Nothing has moved for so long. */
static void rest(int64_t idle_ns)
{
	int under_way = 0, captured = 0;
	for (struct proxy *p = thread.first; p; p = p->next) {
		under_way |= (proxy_state(p) != PROXY_IDLE);
		captured |= atomic_load(&p->captured);
	}
	if (under_way || (captured && idle_ns < PAUSE_NS)) {
		nap(NAP_NS);
	} else if (captured) {
		nap(LONG_NAP_NS);
	} else {
		atomic_store(&thread.asleep, 1);
		int busy = 0; /* a call that came before it could see that we sleep */
		for (struct proxy *p = thread.first; p; p = p->next)
			busy |= (proxy_state(p) != PROXY_IDLE);
		if (!busy)
			sleep_deeply();
		atomic_store(&thread.asleep, 0);
	}
}

/* Wherever the process may run, not only where its rank is bound. With less than two cores a spin would keep the program from running. */
static void find_room(void)
{
	cpu_set_t all;
	memset(&all, 0xff, sizeof all);
	sched_setaffinity(0, sizeof all, &all);
	thread.spins = !sched_getaffinity(0, sizeof all, &all) && CPU_COUNT(&all) > 2;
	if (CPU_COUNT(&all) < 2)
		log_line(LOG_WARN, -1,
			 "the proxy that carries messages between nodes shares its only core with the "
			 "program, so it "
			 "sleeps between messages: start the ranks with mpirun --bind-to none");
}

static void *work(void *unused)
{
	int64_t last = wait_now_ns();
	find_room();
	pthread_mutex_lock(&thread.lock);
	for (;;) {
		while (!thread.first || thread.exiting)
			pthread_cond_wait(&thread.wake, &thread.lock);
		const int64_t now = wait_now_ns();
		if (move_all())
			last = now;
		else if (!thread.spins || now - last > SPIN_NS)
			rest(now - last);
		give_way();
	}
	return unused;
}

static int start_thread(int rank)
{
	pthread_t id;
	int error = process_thread(&id, work, NULL);
	if (error)
		return log_error(
		    CORALE_ESYSTEM, rank,
		    "no thread to carry messages between nodes: %s; raise the limit of threads (ulimit -u, "
		    "the container's pids limit)",
		    strerror(error));
	pthread_detach(id);
	thread.started = 1;
	return 0;
}

static void lock_thread(void)
{
	atomic_fetch_add(&thread.waiting, 1);
	pthread_mutex_lock(&thread.lock);
	atomic_fetch_sub(&thread.waiting, 1);
}

static void unlock_thread(void)
{
	pthread_cond_broadcast(&thread.wake);
	pthread_mutex_unlock(&thread.lock);
}

/* ---- Doors -------------------------------------------------------------------------------------------------- */

int proxy_open(const struct proxy_params *params, struct proxy **out)
{
	struct proxy *p;
	int ret = proxy_create(params, &p);
	if (ret)
		return ret;
	lock_thread();
	ret = thread.started ? 0 : start_thread(params->rank);
	if (!ret) {
		p->next = thread.first;
		thread.first = p;
	}
	unlock_thread();
	if (ret)
		proxy_free(p);
	else
		*out = p;
	return ret;
}

void proxy_expect(struct proxy *p)
{
	atomic_fetch_add(&p->enqueued, 1);
	if (!atomic_load(&thread.asleep))
		return;
	lock_thread();
	unlock_thread();
}

void proxy_unexpect(struct proxy *p, int captured)
{
	atomic_fetch_sub(&p->enqueued, 1);
	if (captured)
		atomic_store(&p->captured, 1); /* awake, as of proxy_expect */
}

/* All that was posted goes without help. */
static int poll_sent(void *arg)
{
	struct proxy *p = arg;
	int all = 1;
	lock_thread();
	for (int i = 0; i < p->params.remote.peers; i++)
		for (uint32_t lane = 0; !p->peers[i].lost && lane < REMOTE_LANES; lane++) {
			struct link *l = p->peers[i].lanes[lane].link;
			all &=
			    l->posted == proxy_load(&remote_words_of(&p->params.remote, i)->posted[lane]) &&
			    (!l->ops->sent || !l->out_open || l->ops->sent(l));
		}
	unlock_thread();
	return all;
}

void proxy_stop(struct proxy *p, int64_t timeout_ns)
{
	const struct wait_policy policy = { .timeout_ns = timeout_ns, .sleep_ns = NAP_NS };
	proxy_expect(p);
	if (wait_until(&policy, poll_sent, p) <= 0)
		log_line(
		    LOG_WARN, p->params.rank,
		    "messages to ranks of other nodes were still under way when their communicator ended");
	lock_thread();
	struct proxy **at = &thread.first;
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	unlock_thread();
}

void proxy_exiting(void)
{
	lock_thread();
	thread.exiting = 1;
	unlock_thread();
}
