/* SPDX-License-Identifier: BSD-3-Clause */
/* Time in tests: the monotonic clock, and pauses. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double clock_s(void)
{
	return 1e-9 * (double)clock_ns();
}

static inline void clock_sleep_s(double seconds)
{
	const struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	nanosleep(&t, NULL);
}

static inline void clock_sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000l }, NULL);
}

#endif
