/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals that a system call of the library may send to its own thread: SIGPIPE by writing where nobody reads any more, SIGXFSZ by a file that
 * would grow beyond the limit of the process. Each ends the process without a word, where the call's error has a line.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>

struct signals_held {
	sigset_t before, pending;
};

/* From here on the thread gets neither. */
void signals_hold(struct signals_held *held);
/* Takes those that were sent since, which were for the library; then all is as before. Leaves errno. */
void signals_drop(const struct signals_held *held);

#endif
