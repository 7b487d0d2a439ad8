/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "wait.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "corale.h"
#include "process.h"

enum {
	POLLS_PER_CLOCK = 32, /* a clock read costs about as much as that many polls of a cached line */
	YIELD_NS = 2000000, /* then sleep: whoever we wait for is not just descheduled */
	SLEEP_FIRST_NS = 20000,
	SLEEP_LAST_NS = 500000,
	LONG_NS = 200000 /* a wait: small calls of twice as many ranks as cores rarely wait so long */
};

int64_t wait_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void wait_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- The program's progress function ---------------------------------------------------- */

typedef void progress_function(void *ctx);

static progress_function *_Atomic function;
static void *_Atomic context;

static _Thread_local int is_inside;
static _Thread_local int64_t called_ns; /* the end of this thread's last call of it */

int corale_set_progress(void (*fn)(void *ctx), void *ctx)
{
	if (process_refuses("corale_set_progress"))
		return CORALE_ENOTSUP;
	atomic_store(&function, NULL);
	atomic_store(&context, ctx);
	atomic_store(&function, fn);
	return 0;
}

int hook_is_set(void)
{
	return atomic_load_explicit(&function, memory_order_relaxed) && !is_inside &&
	       !process_is_library_thread();
}

/* If it is time, in a wait that has lasted for waited ns, and it is still set. Where hook_is_set. */
static void call_hook(int64_t now_ns, int64_t waited)
{
	progress_function *fn = atomic_load_explicit(&function, memory_order_acquire);
	if (!fn || now_ns - called_ns < (waited < LONG_NS ? WAIT_HOOK_SELDOM_NS : WAIT_HOOK_NS))
		return;
	is_inside = 1;
	fn(atomic_load_explicit(&context, memory_order_relaxed));
	is_inside = 0;
	called_ns = wait_now_ns();
}

void wait_progress(void)
{
	if (hook_is_set())
		call_hook(wait_now_ns(), LONG_NS);
}

/* ---- Polling ---------------------------------------------------------------------------- */

/* One step of the back-off, after waiting for waited ns, in which nothing has moved. most_ns: the longest sleep; 0: the policy's. */
static void back_off(const struct wait_policy *policy, int64_t waited, int64_t most_ns)
{
	if (waited < policy->spin_ns) {
		wait_pause();
	} else if (waited < policy->spin_ns + YIELD_NS) {
		sched_yield();
	} else {
		int64_t ns = waited / 64; /* about 1.5 % late at most */
		ns = ns < SLEEP_FIRST_NS ? SLEEP_FIRST_NS : ns > SLEEP_LAST_NS ? SLEEP_LAST_NS : ns;
		ns = policy->sleep_ns && ns > policy->sleep_ns ? policy->sleep_ns : ns;
		ns = most_ns && ns > most_ns ? most_ns : ns;
		struct timespec t = { 0, (long)ns };
		nanosleep(&t, NULL);
	}
}

static uint64_t progress_of(const struct wait_policy *policy)
{
	return policy->progress ? atomic_load_explicit(policy->progress, memory_order_relaxed) : 0;
}

int wait_until(const struct wait_policy *policy, int (*poll)(void *arg), void *arg)
{
	int ret = poll(arg);
	if (ret)
		return ret;
	int64_t start = wait_now_ns(), waited = 0, moved = 0; /* moved: when, from start */
	uint64_t seen = progress_of(policy);
	const int hooked = hook_is_set();
	for (unsigned polls = 1; !(ret = poll(arg)); polls++) {
		if (polls % POLLS_PER_CLOCK == 0 || waited >= policy->spin_ns)
			waited = wait_now_ns() - start;
		uint64_t now = progress_of(policy);
		moved = now == seen ? moved : waited;
		seen = now;
		if (policy->timeout_ns > 0 && waited - moved > policy->timeout_ns)
			return CORALE_ETIMEDOUT;
		if (hooked && waited) /* some polls of a short wait come first */
			call_hook(start + waited, waited);
		back_off(policy, waited - moved, hooked ? WAIT_HOOK_SLEEP_NS : 0);
	}
	return ret;
}

/* ---- Waits on something else ------------------------------------------------------------ */

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static struct timespec time_of(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

void wait_changed(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t until_ns)
{
	const int hooked = hook_is_set();
	if (!hooked && until_ns == INT64_MAX) {
		pthread_cond_wait(changed, lock);
		return;
	}
	const int64_t now = wait_now_ns();
	const struct timespec until =
	    time_of(hooked ? earlier(now + WAIT_HOOK_SLEEP_NS, until_ns) : until_ns);
	pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
	if (!hooked)
		return;
	pthread_mutex_unlock(lock);
	call_hook(wait_now_ns(), LONG_NS);
	pthread_mutex_lock(lock);
}

int wait_poll(struct pollfd *fds, nfds_t n, int ms)
{
	int64_t left = ms * INT64_C(1000000);
	int ret = 0;
	if (!hook_is_set())
		return poll(fds, n, ms);
	for (const int64_t until = wait_now_ns() + left; !ret && left >= 0; left = until - wait_now_ns()) {
		const struct timespec most = time_of(earlier(WAIT_HOOK_SLEEP_NS, left));
		wait_progress();
		ret = ppoll(fds, n, &most, NULL);
	}
	return ret;
}
