/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a run of more than some seconds is, on the terminal that it was started from. It is the terminal itself and not standard error: launchers
 * of MPI put pipes before that.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "perf.h"

enum { QUIET_SECONDS = 5 };

static int terminal = -1, is_shown;

/* Where a process in the background may not write to its terminal there is none. */
void perf_progress_open(struct perf_job *job)
{
	struct termios state;
	job->began = MPI_Wtime();
	if (job->rank)
		return;
	terminal = open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (terminal >= 0 && (tcgetattr(terminal, &state) || state.c_lflag & TOSTOP)) {
		close(terminal);
		terminal = -1;
	}
}

static void show(const char *text)
{
	char line[128];
	const int length = snprintf(line, sizeof line, "\r\033[K%s", text);
	if (write(terminal, line, (size_t)length) < length)
		terminal = -1; /* it is gone, or takes no more: then there is no progress to be seen */
}

void perf_progress_show(const struct perf_job *job, size_t bytes)
{
	char text[100], of[24] = "";
	const double seconds = MPI_Wtime() - job->began;
	if (terminal < 0 || seconds < QUIET_SECONDS)
		return;
	if (job->options->cycles)
		snprintf(of, sizeof of, " of %d", job->lines * job->options->cycles);
	snprintf(text, sizeof text, "line %d%s: %s, %zu bytes, %.0f s so far", job->line, of, job->coll->name,
		 bytes, seconds);
	show(text);
	is_shown = 1;
}

/* Before a line is printed. */
void perf_progress_hide(void)
{
	if (terminal >= 0 && is_shown)
		show("");
	is_shown = 0;
}
