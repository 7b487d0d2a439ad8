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

/* Calls that this rank refuses, and other ranks may make: without a word to them its next call would meet theirs of another place. */

/*
 * A call outside of groups has not started, for a reason that the line `why` has. It takes its number all the same, behind the calls on streams that come before it: ranks
 * that refuse it alike go on, and those that make it end with CORALE_EMISMATCH. A send to or receive from another rank on a GPU, where kernels count
 * messages, ends comm.
 */
void refuse_call(struct comm *comm, const struct call *call, struct corale_stream *stream, const char *why);

/* The same of what another door has refused, before it was a call of Corale's. in_group: the door's, so comm ends. */
void refuse_door_call(corale_comm *handle, corale_coll coll, int root, int in_group, const char *why);

/* MPI runs a collective over comm's ranks, of MPI's name, which takes a number of comm's: a rank that waits in Corale meanwhile finds that the calls differ. */
void refuse_left_to_mpi(corale_comm *handle, const char *name, uint64_t bytes);

/* Ends comm with CORALE_EMISMATCH, if other ranks may start what this one has refused. what: "a group". */
void refuse_end(struct comm *comm, const char *what, const char *why);

#endif
