/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The open group of the calling thread. All that can be refused is looked at before its first call starts. Broadcasts of each root in turn do not become one v-call:
 * collectives of a group run in call order, so a root may send what an earlier call has received, which that rank alone knows by its buffers.
 */
#ifndef GROUP_H
#define GROUP_H

#include "state/comm.h"
#include "host/stream.h"

/* 1 if a group is open; then the call was appended, or refused by the code `refused` (0: it was not). *ret: the result. A refusal is group_refuse's, and
 * ends comm, which may be NULL, at once. */
int group_append(struct comm *comm, const struct call *call, struct corale_stream *stream, int refused,
		 int *ret);

/* Calls of the communicator in the open group. */
size_t group_calls(const struct comm *comm);

/*
 * Refuses the open group, if there is one: at its end nothing starts, and the communicators of which it has taken calls fail with CORALE_EMISMATCH, as
 * other ranks may start theirs. why: the reason, for their lines.
 */
void group_refuse(int code, const char *why);

#endif
