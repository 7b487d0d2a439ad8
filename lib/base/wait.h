/*
 * The one wait of the host side (P6): condition, abort, deadline, and a back-off that spins briefly,
 * then yields, then sleeps, so that ranks that share a core do not starve each other.
 */
#ifndef WAIT_H
#define WAIT_H

#include <stdint.h>

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

/* The pause of a loop that polls: lets another thread of the core run. */
void wait_pause(void);

/* Nanoseconds of a clock that only goes forward. */
int64_t wait_now_ns(void);

#endif
