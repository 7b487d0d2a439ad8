#define _GNU_SOURCE /* sched_setaffinity */
#include "proxy.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/wait.h"

enum {
	CREDIT_LANE = PROXY_FIRST_LANE - 1,
	CREDIT_EVERY = REMOTE_DEPTH / 2, /* messages, where none goes the other way to carry it */
	SPIN_NS = 200 * 1000, /* without a message */
	NAP_NS = 30 * 1000, /* while a call is under way, and after traffic; */
	LONG_NAP_NS = 120 * 1000, /* in a pause in which a graph may be replayed */
	PAUSE_NS = 20 * 1000 * 1000
};

_Static_assert(sizeof(struct remote_header) == TRANSPORT_HEADER_BYTES,
	       "a message's header is the transport's");
_Static_assert(PROXY_FIRST_LANE + (int)REMOTE_LANES <= (int)TRANSPORT_MAX_LANES,
	       "a lane of the transport for each of ours");

/* All count messages of a lane, from 0. */
struct lane {
	uint64_t sent,
	    left; /* given to the transport; their slots may be filled again as far as this side is concerned */
	uint64_t credited; /* read by the peer's kernels */
	uint64_t expected, arrived; /* given a slot; here */
	uint64_t told; /* the peer knows that so many have been taken */
	struct transport_request out[REMOTE_DEPTH], in[REMOTE_DEPTH], credit;
	int telling; /* credit is under way */
};

struct peer {
	int rank;
	int lost; /* nothing comes from it any more; the transport has said why */
	struct lane lanes[REMOTE_LANES];
	struct transport_request credits; /* from it */
};

struct proxy {
	struct proxy *next;
	struct proxy_params params;
	struct peer *peers;
	_Atomic uint64_t moved;
	_Atomic uint64_t enqueued; /* calls, of the user's thread */
	_Atomic int captured;
};

/* On the wire, in the place of a message's number: how many messages of the other direction have been taken. */
#define WIRE_TAKEN number

static struct thread {
	pthread_mutex_t lock; /* of the list; held while its proxies move */
	pthread_cond_t wake;
	struct proxy *first;
	int started, exiting, spins;
	_Atomic int asleep;
	_Atomic int waiting; /* for the lock, outside */
} thread = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

/* ---- One lane ---------------------------------------------------------------------------------------------- */

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static struct transport *transport_of(const struct proxy *p)
{
	return p->params.transport;
}

static int is_done(struct peer *peer, struct transport_request *request)
{
	if (!atomic_load_explicit(&request->done, memory_order_acquire))
		return 0;
	peer->lost |= request->status != 0;
	return request->status == 0; /* what came before the peer was lost is here */
}

static void reset(struct transport_request *request)
{
	memset(request, 0, sizeof *request);
}

static void send_message(struct proxy *p, int i, uint32_t lane)
{
	struct lane *l = &p->peers[i].lanes[lane];
	struct remote_header *at = remote_header_at(&p->params.remote, i, REMOTE_OUT, lane, l->sent),
			     header = *at;
	struct transport_request *request = &l->out[l->sent++ % REMOTE_DEPTH];
	l->told = header.WIRE_TAKEN = load(&remote_words_of(&p->params.remote, i)->taken[lane]);
	reset(request);
	p->peers[i].lost |=
	    transport_of(p)->ops->send(transport_of(p), p->peers[i].rank, PROXY_FIRST_LANE + (int)lane,
				       &header, remote_data(at), header.bytes, request) != 0;
}

static void expect_message(struct proxy *p, int i, uint32_t lane)
{
	struct lane *l = &p->peers[i].lanes[lane];
	struct remote_header *at = remote_header_at(&p->params.remote, i, REMOTE_IN, lane, l->expected);
	struct transport_request *request = &l->in[l->expected++ % REMOTE_DEPTH];
	reset(request);
	p->peers[i].lost |=
	    transport_of(p)->ops->recv(transport_of(p), p->peers[i].rank, PROXY_FIRST_LANE + (int)lane,
				       remote_data(at), p->params.remote.slot_bytes, request) != 0;
}

static void raise_credit(struct lane *l, uint64_t taken)
{
	l->credited = taken > l->credited ? taken : l->credited;
}

/* Hands the next message to the kernel. */
static void deliver(struct proxy *p, int i, uint32_t lane)
{
	struct lane *l = &p->peers[i].lanes[lane];
	struct remote_header header,
	    *to = remote_header_at(&p->params.remote, i, REMOTE_IN, lane, l->arrived);
	memcpy(&header, l->in[l->arrived % REMOTE_DEPTH].header, sizeof header);
	raise_credit(l, header.WIRE_TAKEN);
	/* a kernel that waits for the number reads it beside that */
	__atomic_store_n(&to->signature, header.signature, __ATOMIC_RELAXED);
	to->what = header.what;
	to->bytes = header.bytes;
	store(&to->number, ++l->arrived);
}

static void send_credit(struct proxy *p, int i, uint32_t lane, uint64_t taken)
{
	struct lane *l = &p->peers[i].lanes[lane];
	const struct remote_header header = { .signature = lane, .WIRE_TAKEN = taken };
	l->told = taken;
	l->telling = 1;
	reset(&l->credit);
	p->peers[i].lost |= transport_of(p)->ops->send(transport_of(p), p->peers[i].rank, CREDIT_LANE,
						       &header, NULL, 0, &l->credit) != 0;
}

static int move_out(struct proxy *p, int i, uint32_t lane)
{
	struct remote_words *words = remote_words_of(&p->params.remote, i);
	struct lane *l = &p->peers[i].lanes[lane];
	const uint64_t posted = load(&words->posted[lane]), left = l->left;
	int moved = l->sent < posted;
	while (!p->peers[i].lost && l->sent < posted)
		send_message(p, i, lane);
	while (l->left < l->sent && is_done(&p->peers[i], &l->out[l->left % REMOTE_DEPTH]))
		l->left++;
	const uint64_t free = l->left < l->credited ? l->left : l->credited;
	if (free != words->free[lane])
		store(&words->free[lane], free);
	return moved || l->left != left;
}

static int move_in(struct proxy *p, int i, uint32_t lane)
{
	struct lane *l = &p->peers[i].lanes[lane];
	const uint64_t taken = load(&remote_words_of(&p->params.remote, i)->taken[lane]);
	int moved = 0;
	for (; l->arrived < l->expected && is_done(&p->peers[i], &l->in[l->arrived % REMOTE_DEPTH]);
	     moved = 1)
		deliver(p, i, lane);
	while (!p->peers[i].lost && l->expected < taken + REMOTE_DEPTH)
		expect_message(p, i, lane);
	if (l->telling && is_done(&p->peers[i], &l->credit))
		l->telling = 0;
	if (!p->peers[i].lost && !l->telling && taken >= l->told + CREDIT_EVERY)
		send_credit(p, i, lane, taken);
	return moved;
}

/* ---- One communicator -------------------------------------------------------------------------------------- */

static void expect_credit(struct proxy *p, struct peer *peer)
{
	reset(&peer->credits);
	peer->lost |= transport_of(p)->ops->recv(transport_of(p), peer->rank, CREDIT_LANE, NULL, 0,
						 &peer->credits) != 0;
}

static int move_credits(struct proxy *p, struct peer *peer)
{
	struct remote_header header;
	if (!is_done(peer, &peer->credits))
		return 0;
	memcpy(&header, peer->credits.header, sizeof header);
	if (header.signature < REMOTE_LANES)
		raise_credit(&peer->lanes[header.signature], header.WIRE_TAKEN);
	expect_credit(p, peer);
	return 1;
}

int proxy_progress(struct proxy *p)
{
	int moved = transport_of(p)->ops->progress(transport_of(p)) > 0, messages = 0;
	for (int i = 0; i < p->params.remote.peers; i++) {
		struct peer *peer = &p->peers[i];
		moved |= move_credits(p, peer);
		for (uint32_t lane = 0; lane < REMOTE_LANES; lane++)
			messages += move_in(p, i, lane) + move_out(p, i, lane);
	}
	if (messages)
		atomic_fetch_add_explicit(&p->moved, (uint64_t)messages, memory_order_relaxed);
	return moved || messages;
}

static int is_under_way(const struct proxy *p)
{
	const struct remote_progress *calls = remote_progress_of(&p->params.remote);
	return load(&calls->begun) != load(&calls->ended) || load(&calls->ended) < atomic_load(&p->enqueued);
}

/* ---- The thread --------------------------------------------------------------------------------------------- */

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

/* Nothing has moved for so long. */
static void rest(int64_t idle_ns)
{
	int under_way = 0, captured = 0;
	for (struct proxy *p = thread.first; p; p = p->next) {
		under_way |= is_under_way(p);
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
			busy |= is_under_way(p);
		if (!busy)
			pthread_cond_wait(&thread.wake, &thread.lock);
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
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int error = pthread_create(&id, NULL, work, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
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

void proxy_free(struct proxy *p)
{
	if (p)
		free(p->peers);
	free(p);
}

int proxy_create(const struct proxy_params *params, struct proxy **out)
{
	struct proxy *p = calloc(1, sizeof *p);
	if (p)
		p->peers = calloc((size_t)params->remote.peers, sizeof *p->peers);
	if (!p || !p->peers) {
		proxy_free(p);
		return log_error(CORALE_ENOMEM, params->rank,
				 "no memory for messages to %d ranks of other nodes", params->remote.peers);
	}
	p->params = *params;
	for (int i = 0; i < params->remote.peers; i++) {
		p->peers[i].rank = params->ranks[i];
		expect_credit(p, &p->peers[i]);
	}
	*out = p;
	return 0;
}

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

int proxy_is_busy(const struct proxy *p)
{
	return is_under_way(p);
}

uint64_t proxy_moved(const struct proxy *p)
{
	return atomic_load_explicit(&p->moved, memory_order_relaxed);
}

static int poll_sent(void *arg)
{
	struct proxy *p = arg;
	int all = 1;
	lock_thread();
	for (int i = 0; i < p->params.remote.peers; i++)
		for (uint32_t lane = 0; !p->peers[i].lost && lane < REMOTE_LANES; lane++)
			all &= p->peers[i].lanes[lane].left ==
			       load(&remote_words_of(&p->params.remote, i)->posted[lane]);
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
