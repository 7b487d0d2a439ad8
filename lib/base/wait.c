#define _GNU_SOURCE
#include "wait.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "corale.h"

enum {
	POLLS_PER_CLOCK = 32, /* a clock read costs about as much as that many polls of a cached line */
	YIELD_NS = 2000000, /* then sleep: whoever we wait for is not just descheduled */
	SLEEP_FIRST_NS = 20000,
	SLEEP_LAST_NS = 500000
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

/* One step of the back-off, after waiting for waited ns, in which nothing has moved. */
static void back_off(const struct wait_policy *policy, int64_t waited)
{
	if (waited < policy->spin_ns) {
		wait_pause();
	} else if (waited < policy->spin_ns + YIELD_NS) {
		sched_yield();
	} else {
		int64_t ns = waited / 64; /* about 1.5 % late at most */
		ns = ns < SLEEP_FIRST_NS ? SLEEP_FIRST_NS : ns > SLEEP_LAST_NS ? SLEEP_LAST_NS : ns;
		ns = policy->sleep_ns && ns > policy->sleep_ns ? policy->sleep_ns : ns;
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
	for (unsigned polls = 1; !(ret = poll(arg)); polls++) {
		if (polls % POLLS_PER_CLOCK == 0 || waited >= policy->spin_ns)
			waited = wait_now_ns() - start;
		uint64_t now = progress_of(policy);
		moved = now == seen ? moved : waited;
		seen = now;
		if (policy->timeout_ns > 0 && waited - moved > policy->timeout_ns)
			return CORALE_ETIMEDOUT;
		back_off(policy, waited - moved);
	}
	return ret;
}
