/* Driving runs to their end: the waits, the threads of channels, and what a failure means for the communicator. */
#ifndef DRIVE_H
#define DRIVE_H

#include "state/comm.h"

/*
 * Drives n runs of one communicator until all are done, in the calling thread and, where a single run has several
 * channels, in threads of the pool. after[i]: the run that must end before run i starts, or -1; NULL: none.
 * calls[i] is what run i executes. A failure ends the communicator; its code is returned, and then the transport holds none of
 * the caller's memory any more.
 */
int drive_runs(struct comm *comm, struct host_run *runs, const int *after, int n, const struct call *calls);

/* Of a thread that polls: whether what it moves stands still. */
struct drive_stall {
	unsigned polls; /* that found nothing to do */
	uint64_t actions; /* of the run, when it was last seen to move */
	int64_t since_ns;
	int gone; /* looks, one after the other, that found the awaited rank gone */
};

/* The same step by step, in the calling thread alone. */
struct drive {
	struct comm *comm;
	struct host_run *runs;
	const int *after;
	int nruns;
	const struct call *calls;
	int failed; /* the run that failed */
	struct drive_stall stall;
	_Atomic int stop; /* some channel has failed: all others end */
	_Atomic uint64_t progress; /* grows as the runs do */
	uint64_t seen; /* of progress, when last polled */
	int64_t polled_ns, waited_ns; /* when last polled; time without progress, as far as somebody polled */
};

void drive_start(struct drive *drive, struct comm *comm, struct host_run *runs, const int *after, int n,
		 const struct call *calls);
/* 1 when all runs are done, 0 when not, or the code that has ended the communicator, as above. Does not block but to end it. */
int drive_poll(struct drive *drive);

#endif
