/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong between the ranks of a CUDA communicator: what the cases share. */
#ifndef CUDA_FAULTS_H
#define CUDA_FAULTS_H

#include <cuda_runtime_api.h>

#include "corale.h"
#include "cuda_children.h"

enum {
	FAULTS_TIMEOUT_S = 3, /* of the communicators on which something goes wrong */
	FAULTS_SOON_S = 2, /* until every rank knows of a mismatch or an abort */
	FAULTS_STUCK_S = 12, /* a stream that is not idle by then never will be */
	FAULTS_STALL_S = 40, /* a case that takes longer hangs */
	FAULTS_BUFFER = 96 << 20 /* bytes of either buffer */
};

/* One rank's view of a case. */
struct faults_rank {
	int rank, size;
	struct cuda_group world; /* for the test's own words between the ranks */
	struct cuda_group fresh; /* of communicators made after the fault */
	corale_comm *comm;
	cudaStream_t stream;
	void *send, *recv; /* on the GPU */
	const char *name; /* of the case */
	int faults;
};

struct faults_case {
	const char *name;
	void (*run)(struct faults_rank *rank, const struct faults_case *c);
	int kind; /* of the function's own choice */
	size_t count; /* elements of 4 bytes */
	int alone; /* a rank dies in it */
	int cold; /* no large call has been made before */
	const char *not_over_nodes; /* why it says nothing there; NULL: it does */
	const char *words[2]; /* that must be in the error line of every rank */
};

/* ---- cuda_faults_rank.c ---- */

void faults_complain(struct faults_rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 1, or 0 with a complaint. */
int faults_cuda(struct faults_rank *rank, cudaError_t error, const char *what);
int faults_is(struct faults_rank *rank, int got, int expected, const char *what);

/* A communicator of a group; NULL with a complaint. */
corale_comm *faults_comm(struct faults_rank *rank, struct cuda_group *group, double timeout_s);
/* A sum of 4-byte integers with count elements on r->comm, enqueued. */
int faults_reduce(struct faults_rank *rank, size_t count);
/* One that must be right, waited for. */
void faults_good_reduce(struct faults_rank *rank, corale_comm *comm, int size, int contribution);

/* The first large call of a communicator, which waits for the others on the host because it makes memory that they share: so that
 * calls of the case wait on the GPU. */
void faults_first_large(struct faults_rank *rank);

/* Whether so many ranks are several nodes (CORALE_NODE_SIZE). */
int faults_over_nodes(int ranks);

/* Waits until the stream is idle without looking at the communicator. 0, or CORALE_INPROGRESS after limit_s. */
int faults_wait(struct faults_rank *rank, double limit_s);
/* As faults_wait, then what the communicator says; asks by one more call if it says nothing. */
int faults_outcome(struct faults_rank *rank, double limit_s);
/* The outcome within limit_s of begin must be code. */
void faults_expect(struct faults_rank *rank, int code, double begin, double limit_s);
/* The error line must have both words of the case. */
void faults_expect_words(struct faults_rank *rank, const struct faults_case *c);
/* The communicator refuses calls, goes away soon, and the ranks' GPUs work with another one. */
void faults_recover(struct faults_rank *rank);

/* ---- Cases: each is called on every rank with a communicator on which a call has worked. ---- */

void faults_mismatch(struct faults_rank *rank, const struct faults_case *c);
void faults_pair(struct faults_rank *rank, const struct faults_case *c);
void faults_abort(struct faults_rank *rank, const struct faults_case *c);
void faults_absent(struct faults_rank *rank, const struct faults_case *c);
void faults_death(struct faults_rank *rank, const struct faults_case *c);
void faults_late(struct faults_rank *rank, const struct faults_case *c);
void faults_use(struct faults_rank *rank, const struct faults_case *c);
void faults_after(struct faults_rank *rank, const struct faults_case *c);
void faults_capture(struct faults_rank *rank, const struct faults_case *c);
void faults_refused(struct faults_rank *rank, const struct faults_case *c);

enum { /* of faults_mismatch */
       FAULTS_COUNT,
       FAULTS_COUNT_FAR,
       FAULTS_TYPE,
       FAULTS_OP,
       FAULTS_ROOT,
       FAULTS_COLLECTIVE,
       FAULTS_ORDER,
       FAULTS_BARRIER,
       FAULTS_GRAPHS
};
enum { FAULTS_EDGE, FAULTS_MESSAGE, FAULTS_MESSAGE_TYPE }; /* of faults_pair */
enum { FAULTS_BY_WAITER, FAULTS_BY_ABSENT, FAULTS_BY_THREAD, FAULTS_IDLE }; /* of faults_abort */
enum { FAULTS_ALL_REDUCE, FAULTS_ALL_GATHER, FAULTS_BROADCAST, FAULTS_EXCHANGE, FAULTS_WAIT, FAULTS_REPLAY };
/* of faults_absent */
enum {
	FAULTS_KILLED_WAITED_FOR,
	FAULTS_KILLED_BUSY,
	FAULTS_KILLED_LARGE,
	FAULTS_EXITED,
	FAULTS_LEFT
}; /* of faults_death */
enum {
	FAULTS_JUST_LATE,
	FAULTS_OTHER_WORK,
	FAULTS_FIRST_CALLS,
	FAULTS_CAPTURE,
	FAULTS_CREATE,
	FAULTS_FREE
}; /* of faults_late */
enum {
	FAULTS_TWO_STREAMS,
	FAULTS_PLAIN_IN_CAPTURE,
	FAULTS_PLAIN_IN_VAIN,
	FAULTS_CAPTURED_SINCE,
	FAULTS_AROUND_CAPTURE,
	FAULTS_STREAM_DESTROYED,
	FAULTS_HANDLE_REUSED,
	FAULTS_PER_THREAD,
	FAULTS_PER_ENDED_THREAD,
	FAULTS_ARGUMENTS,
	FAULTS_OTHER_GPU,
	FAULTS_SPLIT,
	FAULTS_BUFFER_ELSEWHERE
}; /* of faults_use */
enum {
	FAULTS_GATHER,
	FAULTS_ALL_TO_ALL,
	FAULTS_FROM_LATE_ROOT,
	FAULTS_ALLOCATED,
	FAULTS_DEREGISTERED,
	FAULTS_FREED,
	FAULTS_REPLAYED_LATE,
	FAULTS_REPLAYED_ALLOCATED, /* so far: memory that a rank gives up */
	FAULTS_UNASKED,
	FAULTS_REPLAYED,
	FAULTS_RACED_LATE,
	FAULTS_RACED_ABORT,
	FAULTS_OUTLIVED,
	FAULTS_ALONE,
	FAULTS_LOST
}; /* of faults_after */
enum { FAULTS_OPENED, FAULTS_DESTROYED, FAULTS_IMPLICIT, FAULTS_INVALIDATED }; /* of faults_capture */
enum {
	FAULTS_THEN_ALLOC,
	FAULTS_THEN_REGISTER,
	FAULTS_THEN_SPLIT,
	FAULTS_GROUP_IN_CAPTURE,
	FAULTS_GROUP_ON_BAD_STREAM,
	FAULTS_GROUP_HALF_CAPTURED,
	FAULTS_ADDRESS_REUSED,
	FAULTS_PLAIN_MISMATCH,
	FAULTS_PLAIN_MISMATCH_PAIR
}; /* of faults_refused */

#endif
