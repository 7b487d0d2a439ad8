/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one wait of the host side (P6): condition, abort, deadline, and a back-off that spins briefly,
 * then yields, then sleeps, so that ranks that share a core do not starve each other. All waits of the program's threads for other ranks are
 * here, because they call the program's progress function.
 */
#ifndef WAIT_H
#define WAIT_H

#include <poll.h>
#include <pthread.h>
#include <stdint.h>

/* Where the program has set a progress function: */
enum {
	WAIT_HOOK_NS = 20000, /* between two calls of it in one thread */
	WAIT_HOOK_SELDOM_NS =
	    1000000, /* the same in short waits: MPI_Iprobe takes 0.3 us, but 12 us where it yields the core to other ranks */
	WAIT_HOOK_SLEEP_NS = 50000 /* the longest sleep */
};

struct wait_policy {
	int64_t spin_ns; /* polls without giving up the core */
	int64_t timeout_ns; /* <= 0: never; counted anew whenever *progress has changed */
	int64_t sleep_ns; /* the longest sleep; 0: as long as other threads keep things moving */
	const _Atomic uint64_t *progress; /* may be NULL */
};

/*
 * Calls poll(arg) until it returns non-zero and returns that: > 0 is success, < 0 a CORALE_E* code (the
 * condition looks at its abort word itself). CORALE_ETIMEDOUT when the policy's time is over since the start, or since the last progress.
 */
int wait_until(const struct wait_policy *policy, int (*poll)(void *arg), void *arg);

/* For a loop that waits otherwise: calls the program's progress function if it is time. The caller holds no lock. */
void wait_progress(void);

/* Waits on a condition variable under its lock, at most until until_ns of wait_now_ns (INT64_MAX: no limit). It may return earlier, so the caller looks, and
 * waits again. */
void wait_changed(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t until_ns);

/* poll(2), for so many milliseconds, not less than 0. */
int wait_poll(struct pollfd *fds, nfds_t n, int ms);

/* The pause of a loop that polls: lets another thread of the core run. */
void wait_pause(void);

/* Nanoseconds of a clock that only goes forward. */
int64_t wait_now_ns(void);

/* The program's progress function (corale_set_progress), which waits of its threads call. */

/* Whether waits of this thread call it: it is set, and this is neither a thread of the library nor a wait within the function. Any thread. */
int hook_is_set(void);

#endif
