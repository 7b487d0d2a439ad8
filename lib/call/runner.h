/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs on the host engine: a group of parts, each of them calls of one communicator. A single call is a group of one part. Here tickets are
 * issued, and streams have their jobs. Ranks may fuse what others call one by one, so nothing in a group waits for anything else in it but the collectives of one
 * communicator, which share its queues. So all calls of a stream are advanced step by step in one thread; channels have threads of their own only where a group has one
 * part, and no sends beside collectives.
 */
#ifndef RUNNER_H
#define RUNNER_H

#include "host/stream.h"
#include "state/comm.h"

/* Calls of one communicator: sends and receives first, which start at once; then collectives, one after the other beside them. */
struct runner_part {
	struct comm *comm;
	const struct call *calls;
	int npairs, ncalls;
};

/*
 * Takes a ticket for each part, whatever memory its communicator is for, and advances all of them together, step by step: here and now with stream
 * NULL, else as one job of the stream, which copies the calls with their count arrays and keeps their persistent plans. A part starts when all that was
 * issued on its communicator before has ended. One that fails ends alone; the others go on. Returns the first part's error, or of starting:
 * then *started is 0, and nothing has happened.
 */
int runner_group(const struct runner_part *parts, int n, struct corale_stream *stream, int *started);

/* The same of one collective, or of n sends and receives that start together. */
int runner_call(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream);

/* In its turn a refused call takes its number, behind calls that have not ended. */
int runner_refused(struct comm *comm, const struct call *refused, struct corale_stream *stream);

/* Waits until everything submitted is complete (or the communicator has failed). */
void runner_finish(struct comm *comm);

#endif
