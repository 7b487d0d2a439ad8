/* Driving runs to their end: the waits, the threads of channels, and what a failure means for the communicator. */
#ifndef DRIVE_H
#define DRIVE_H

#include "comm.h"

/*
 * Drives n runs of one communicator until all are done, in the calling thread and, where a single run has several
 * channels, in threads of the pool. after[i]: the run that must end before run i starts, or -1; NULL: none.
 * calls[i] is what run i executes. A failure ends the communicator; its code is returned.
 */
int drive_runs(struct comm *comm, struct host_run *runs, const int *after, int n, const struct call *calls);

#endif
