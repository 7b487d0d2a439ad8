/* SPDX-License-Identifier: BSD-3-Clause */
/* A test that dies of a signal says where. */
#ifndef CRASH_H
#define CRASH_H

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void crash_say(int signal_number, siginfo_t *info, void *context)
{
	void *frames[64];
	char line[96];
	const int n = snprintf(line, sizeof line, "# process %d: signal %d, address %p\n", (int)getpid(),
			       signal_number, info->si_addr);
	(void)context;
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) > 0)
		backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
	raise(signal_number); /* by its default: the handler is taken off when it runs */
}

/* At a program's start, after libraries that handle signals themselves. */
static inline void crash_expect(void)
{
	const int signals[] = { SIGSEGV, SIGBUS };
	void *frame[1];
	backtrace(frame, 1); /* loads what it needs now */
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		struct sigaction action = { .sa_sigaction = crash_say,
					    .sa_flags = SA_SIGINFO | (int)SA_RESETHAND | SA_NODEFER };
		sigaction(signals[i], &action, NULL);
	}
}

#endif
