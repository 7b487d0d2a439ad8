/*
 * The calls of a communicator as one sequence: tickets, signatures, and driving runs to their end.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include "state/comm.h"
#include "host/stream.h"
#include "together.h"

/*
 * On the host engine, whatever memory the communicator is for: takes the next ticket for one collective, or for n sends and receives that start
 * together, and executes it: here and now with stream NULL, else on the stream (the calls and their count arrays are copied; one job).
 * Returns the call's result, or of starting it.
 */
int sequence_host(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream);

/* Takes a ticket for each part and advances all of them together, here and now or as one job on the stream. */
int sequence_group(const struct together_part *parts, int n, struct corale_stream *stream);

/* The signature of the next collective; its call is published for others to read. */
uint64_t sequence_signature(struct comm *comm, const struct call *call);

/* The same of a send or receive: they count per ordered pair, and their elements travel as the edge. */
uint64_t sequence_pair_signature(struct comm *comm, const struct call *call);

/*
 * Another rank has found a mismatch before this rank began `call`, which is published all the same: with it the ranks can tell who is odd. No
 * earlier call is under way. CORALE_EMISMATCH, reported.
 */
int sequence_mismatch(struct comm *comm, const struct call *call);

/* Waits until everything submitted is complete (or the communicator has failed). */
void sequence_finish(struct comm *comm);

#endif
