/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a group: how each goes on, and in which order. */
#ifndef GROUPED_H
#define GROUPED_H

#include "host/stream.h"
#include "state/comm.h"

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

#endif
