/* SPDX-License-Identifier: BSD-3-Clause */
/* What a case that fails says before its result: test/run/run-tests runs a program again that has failed by limits of time alone. */
#ifndef LATE_H
#define LATE_H

#include <stdio.h>

/* By the process that prints the results, on stdout, whose lines stay in order. late: how many of the faults are that something took too long. */
static inline void late_tell(int faults, int late)
{
	if (faults)
		printf("# %s\n", faults == late ? "a limit of time alone" : "more than a limit of time");
	fflush(stdout);
}

/* For an assertion. */
static inline int is_in_time(double seconds, double limit)
{
	late_tell(seconds >= limit, 1);
	return seconds < limit;
}

#endif
