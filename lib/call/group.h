/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The open group of the calling thread. All that can be refused is looked at before its first call starts. Broadcasts of each root in turn do not become one v-call:
 * collectives of a group run in call order, so a root may send what an earlier call has received, which that rank alone knows by its buffers.
 */
#ifndef GROUP_H
#define GROUP_H

#include <stddef.h>
#include <stdint.h>

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

/* The calls of a group: how each goes on, and in which order. */

/* How a call goes on, and in which order of these. */
enum dispatch {
	DISPATCH_GPU, /* by communicator: waves of sends and receives, each a launch a rank; then collectives as made */
	DISPATCH_SINGLE, /* on hosts: one call of a communicator whose collectives are on several streams, as made */
	DISPATCH_STREAM, /* on hosts: all of a stream's calls advance together */
	DISPATCH_BLOCKING /* the same without a stream */
};

struct grouped {
	corale_comm *handle; /* the communicator may be destroyed by another thread while the group is open */
	struct comm *comm;
	struct corale_stream *stream;
	struct corale_stream *held; /* the same of a host communicator */
	struct call call;
	size_t order; /* in which it was made */
	enum dispatch dispatch;
	uint32_t wave; /* of a send or receive on a GPU, else LAST_WAVE */
};
enum { LAST_WAVE = INT32_MAX };

/* Gives each call its dispatch and wave, refuses what has none, and puts the calls into the order in which they start. batch: room for n calls. 0, or an
 * error: nothing was started. */
int grouped_arrange(struct grouped *g, size_t n, struct call *batch);
/* How many of them are sends and receives. */
size_t grouped_pairs(const struct grouped *g, size_t n);
/* Calls from g on that are of the same communicator. */
size_t grouped_of_comm(const struct grouped *g, size_t n);
int grouped_no_memory(int rank, const char *what, size_t n);

/*
 * Waves of sends and receives. An engine of GPUs starts a limited number of a rank's sends and receives at a time, and a group may have any
 * number: so they start in waves, one behind the other. Both ends of a message put it at the same place of one order of all messages of
 * the communicator: by how many of the same pair and direction come before it, then by the distance from sender to receiver. A wave takes
 * the next ones of this order, and never divides those of equal place, which are a send and a receive of each rank. Then no wave
 * waits for a later one: of all messages that have not ended, the first in the order has both of its ends in waves that have started. Ranks
 * of one thread share their waves, because a thread that waits for the end of a wave waits for all of them.
 */

/* A send or receive of a rank. */
struct wave_call {
	int rank, peer, receives;
	uint32_t order; /* in which it was made */
	uint32_t wave; /* the result */
	uint32_t before, distance; /* its place */
};

/* Sorts the calls of some ranks of one communicator by wave: `most` of a rank in each. used: room for a word a rank. The number of waves. */
uint32_t waves_cut(struct wave_call *calls, size_t n, int size, uint32_t most, uint32_t *used);

#endif
