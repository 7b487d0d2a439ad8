/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator ends, between the files of this folder. */
#ifndef ENDING_H
#define ENDING_H

#include "state/comm.h"

/* Why a communicator ends. */
struct ending {
	int code, culprit; /* CORALE_EINTERNAL and NOBODY where the word says nothing that can be */
	int how; /* presence_how(culprit) */
	uint64_t at; /* the call that failed, as window_position says; EVERYWHERE: all calls end */
};

enum { NOBODY = -1, EVERYWHERE = 1 };

/* How long this rank waits for what others know of a failure. */
enum { COLLECT_MS = 400 };

/* Fails comm, and says so on all ranks. */
void diagnose_fail(struct comm *comm, const struct ending *end, const char *text);
/* Fails comm by a text that begins with the call. Returns code. */
int diagnose_fail_call(struct comm *comm, const struct record *call, int code, int culprit,
		       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Only says so. */
void diagnose_spread(struct comm *comm, const struct ending *end);

#endif
