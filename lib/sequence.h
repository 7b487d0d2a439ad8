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

/* Waits until everything submitted is complete (or the communicator has failed). */
void sequence_finish(struct comm *comm);

#endif
