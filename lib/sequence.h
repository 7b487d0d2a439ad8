/*
 * The calls of a communicator as one sequence: tickets, signatures, and driving runs to their end.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include "comm.h"
#include "stream.h"

/*
 * Takes the next ticket for one collective, or for n sends and receives that start together, and executes it:
 * here and now with stream NULL, else on the stream (the calls and their count arrays are copied; one job).
 * Returns the call's result, or of starting it.
 */
int sequence_submit(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream);

/* The same on the host engine, whatever memory the communicator is for: what Corale itself tells its ranks. */
int sequence_host(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream);

/*
 * What is enqueued on a stream so far comes before what is enqueued on another from now on: for a group's sends and receives, which
 * start together. CORALE_ENOTSUP on host streams.
 */
int sequence_join(struct comm *comm, struct corale_stream *before, struct corale_stream *after);

/*
 * Sends to oneself: the k-th of a group meets the k-th receive from oneself. The first call of so many, from i on, that is one of them (n:
 * none is), and whether all of them have a counterpart of the same count and type: CORALE_EINVAL, CORALE_EMISMATCH.
 */
int sequence_next_own(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll);
int sequence_check_own(const struct comm *comm, const struct call *calls, int n);

/* The signature of the next collective; its call is published for others to read. */
uint64_t sequence_signature(struct comm *comm, const struct call *call);

/* The call of the last signature was not started: the next one has its place. */
void sequence_undo(struct comm *comm);

/* Waits until everything submitted is complete (or the communicator has failed). */
void sequence_finish(struct comm *comm);

#endif
