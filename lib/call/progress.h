/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of one communicator that are under way: their progress, who holds them up, and what a failure means for the communicator. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "state/comm.h"

struct run_item {
	const struct call *call;
	int after; /* the item that must end before this one starts, or -1 */
	struct host_run run;
};

/* Whether the runs that a thread polls stand still. */
struct stall {
	unsigned polls,
	    looks; /* that found nothing to do; since the last look at the clock, and at other ranks */
	int steps; /* the thread comes and goes, so it may do something else meanwhile */
	int gone; /* looks, one after the other, that found the awaited rank gone, or its call refused */
	uint64_t actions; /* executed, when last seen to move */
	int64_t since_ns; /* then */
	int64_t looked_ns, waited_ns; /* the last look; time since then in which somebody polled */
};

struct progress {
	struct comm *comm;
	struct run_item *items;
	int n;
	int alone; /* the calling thread has nothing else to move: the channels of a single run may have threads of their own */
	struct stall stall;
	uint64_t actions; /* of all runs, as last polled */
	_Atomic int stop; /* a channel has failed: all others end */
};

/*
 * 1 when all runs are done, 0 when not, or the code that has ended the communicator: progress_let_go is next. Does not block but to end it, or
 * alone. polls: how many times this one counts where time is looked at now and then only.
 */
int progress_poll(struct progress *progress, int polls);

/* Runs have failed with code, which has ended the communicator: waits until neither the transport nor another rank of this process uses the
 * callers' buffers any more. */
void progress_let_go(struct comm *comm, int code);

/* Frees the runs; NULL or none is allowed. */
void progress_end(struct progress *progress);

/* One poll of so many looks at the clock. */
enum { PROGRESS_POLLS_PER_CLOCK = 32 };

#endif
