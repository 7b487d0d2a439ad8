/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static const int ours[] = { SIGPIPE, SIGXFSZ };
enum { OURS = sizeof(ours) / sizeof(ours[0]) };

void signals_hold(struct signals_held *held)
{
	sigset_t set;
	sigemptyset(&set);
	for (int i = 0; i < OURS; i++)
		sigaddset(&set, ours[i]);
	sigpending(&held->pending); /* of the program, which has blocked them */
	pthread_sigmask(SIG_BLOCK, &set, &held->before);
}

void signals_drop(const struct signals_held *held)
{
	const struct timespec at_once = { 0, 0 };
	const int saved = errno;
	sigset_t sent;
	sigemptyset(&sent);
	for (int i = 0; i < OURS; i++)
		if (!sigismember(&held->pending, ours[i]))
			sigaddset(&sent, ours[i]);
	while (sigtimedwait(&sent, NULL, &at_once) > 0 || errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &held->before, NULL);
	errno = saved;
}
