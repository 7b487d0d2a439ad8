/* SPDX-License-Identifier: BSD-3-Clause */
/* From a call to its run by the host engine: plan, environment and binding. */
#ifndef START_H
#define START_H

#include "state/comm.h"

/* Runs of one communicator that are under way: their progress, who holds them up, and what a failure means for the communicator. */

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

/* Calls by the fast path of small messages (host/host_fast.h). */

/* A call that the fast path has begun and not ended. */
struct fast_begun {
	uint64_t signature; /* the call's; 0: nothing has begun */
	int steps; /* of the plan that are executed */
};

enum { FAST_PAIRS = 16 };

/*
 * Calls of one communicator without a stream, as far as that goes: npairs sends and receives that start together, or a collective. 1: they are
 * complete. 0: runs of their plans go on behind begun (FAST_PAIRS), where any of them has begun.
 */
int fast_at_once(struct comm *comm, const struct call *calls, int npairs, int ncalls,
		 struct fast_begun *begun);

/* What a run of a call has to know beside its plan. */
struct host_binding start_binding(const struct comm *comm, const struct call *call, const struct plan *plan,
				  uint64_t signature);

/* The run of one call with that signature; to be freed by progress_end. */
int start_run(struct comm *comm, const struct call *call, uint64_t signature, struct run_item *item);

/* Executes a collective of a communicator with one rank, which talks to nobody. 0 or CORALE_ESYSTEM: its buffers can't be used. */
int start_alone(struct comm *comm, const struct call *call);

/*
 * The runs of n sends and receives that start together: those of one ordered pair follow each other, those to oneself are executed at once.
 * begun: of each, or NULL. items: n of them; *used: how many there are, also after a failure.
 */
int start_pairs(struct comm *comm, const struct call *calls, int n, const struct fast_begun *begun,
		struct run_item *items, int *used);
/* The call before number i that is of the same ordered pair of ranks, or -1. */
int start_after(const struct call *calls, int i);

/* Buffers of host memory are looked at before a call that moves much: what can't be read or written is an error, not a signal in the library or UCX. */

/* 0, or CORALE_ESYSTEM with the buffer and its bytes logged. Of small calls, which would take notably longer: 0. */
int buffers_check(const struct comm *comm, const struct call *call);

/* Sends to oneself: the k-th of a group meets the k-th receive from oneself. */

/* The first of n calls, from i on, that is a send to oneself, or a receive from oneself, as coll says; n: none is. */
int self_next(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll);

/* Whether all of them have a counterpart of the same count and type: 0, or CORALE_EINVAL with the reason logged. */
int self_check(const struct comm *comm, const struct call *calls, int n);

/* Executes them, on hosts. 0 or CORALE_ESYSTEM: a buffer can't be used. */
int self_copy(const struct comm *comm, const struct call *calls, int n);

#endif
