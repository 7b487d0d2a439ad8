/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of cases: a case that takes too long (TEST_CASE_SECONDS, by scripts longer on a busy machine) ends the program, and each rank prints where it stands. */
#ifndef CASE_ALARM_H
#define CASE_ALARM_H

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CASE_SECONDS = 30 };

static struct {
	const char *name;
	int rank;
} running_case;

static void case_is_late(int signal)
{
	void *frames[64];
	char line[160];
	const int n = snprintf(line, sizeof line, "# rank %d hangs in case %s:\n", running_case.rank,
			       running_case.name);
	if (write(STDERR_FILENO, line, (size_t)n) > 0)
		backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
	sleep(1); /* so that the other ranks print, too */
	_exit(1);
}

static void case_begin(const char *name, int rank)
{
	running_case.name = name;
	running_case.rank = rank;
	signal(SIGALRM, case_is_late);
	const char *seconds = getenv("TEST_CASE_SECONDS");
	alarm(seconds ? (unsigned)atoi(seconds) : CASE_SECONDS);
}

#endif
