/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the NCCL door share: NCCL's communicator over Corale's. Functions that return an ncclResult_t have logged the cause
 * of an error and kept it for ncclGetLastError.
 *
 * Threads: as NCCL's, one thread at a time makes calls on a communicator; Abort, GetAsyncError, Register, Deregister and queries may come
 * from any thread at any time. A handle is never freed, so the use of one that was destroyed is an error and no crash.
 */
#ifndef DOOR_H
#define DOOR_H

#include <stdatomic.h>

#include "base/call.h"
#include "comm/comm_doors.h"
#include "boot/boot_tcp.h"
#include "config.h"
#include "device.h"
#include "error.h"
#include "nccl.h"

enum { DOOR_MAGIC = 0x436f7261 };

enum door_state {
	DOOR_READY,
	DOOR_FINALIZED, /* no further calls */
	DOOR_REVOKED, /* calls were ended; children can be made */
	DOOR_MAKING, /* it is being made: another thread may ask how that stands, and abort it */
	DOOR_ENDED /* destroyed or aborted */
};

struct ncclComm {
	int magic;
	_Atomic int state; /* enum door_state */
	_Atomic int users; /* functions at work on core, for which its end waits */
	_Atomic int kept_error; /* the error that ended core is kept for ncclGetLastError */
	_Atomic int freed; /* core is gone */
	_Atomic int made; /* an ncclResult_t: ncclInProgress, then whether core was made */
	int rank, size;
	int ordinal; /* of the GPU */
	uint64_t splits; /* asked for so far; alike on all ranks */
	struct door_shrinks { /* the same of shrinks, for each set of ranks that stayed */
		struct door_shrinks *next;
		uint64_t number;
		int n, ranks[];
	} * shrinks;
	uint64_t calls; /* made so far; for the log */
	corale_comm *core;
	struct door_meeting *meeting; /* while core is being made */
	uint64_t id; /* equal on all ranks, unique */
	struct boot *boot; /* NULL: one rank */
	const struct door_device *device;
	struct door_config config;
	struct door_buffer *buffers; /* registered; memory.c */
	pthread_mutex_t lock; /* of buffers */
	struct ncclComm *next; /* all handles ever made stay reachable: they live as long as the process */
};

/* ---- comm_handle.c: handles */

/* A new communicator's handle, in state DOOR_MAKING, and used by the caller. NULL: no memory. */
struct ncclComm *door_create(int rank, int size, int ordinal, const struct door_config *config);

/*
 * Ends a handle's making, and the use of door_create. *result: success, with a core, or why there is none; set to an error if another thread
 * has aborted it. 1: it has failed, and the caller frees what it has; else an abort does.
 */
int door_made(struct ncclComm *comm, ncclResult_t *result);

/* For a function that does not take a communicator in that state; or what is no communicator. */
ncclResult_t door_refuse_comm(ncclComm_t comm, int state, const char *call);

/* Between these two core lives. call: the function's name. ncclInvalidArgument: no communicator, or it has ended. */
ncclResult_t door_enter(ncclComm_t comm, const char *call);
/* The same where a finalized or revoked communicator will do. */
ncclResult_t door_enter_any(ncclComm_t comm, const char *call);
void door_leave(ncclComm_t comm);

/* A communicator's rank and size; false if comm is NULL, not one of ours, or not ready. Any thread. */
bool door_comm_shape(ncclComm_t comm, int *rank, int *nranks);

/* A Corale function's result as NCCL's, with the text of what was logged. */
ncclResult_t door_result(ncclComm_t comm, int code);

/* ---- job.c: what may run in threads of its own at the end of a group */

enum door_job_kind { DOOR_INIT, DOOR_SPLIT, DOOR_SHRINK, DOOR_DESTROY };

struct door_job {
	enum door_job_kind kind;
	const char *call; /* the function's name */
	ncclResult_t result;
	char error[DOOR_ERROR_BYTES]; /* of this job, as its thread had it */
	int ordinal; /* of the GPU */
	ncclComm_t comm; /* the parent, or the one to be destroyed */
	ncclComm_t made; /* what INIT, SPLIT and SHRINK make. NULL: nothing, without a color */
	ncclComm_t
	    *out; /* where that is at once, so that another thread can abort it; NULL again if it fails */
	struct door_config config;
	int rank, size; /* INIT */
	ncclUniqueId id;
	int color, key; /* SPLIT */
	int *ranks, nranks; /* SHRINK: the parent's ranks that stay */
	uint64_t tag, making; /* SPLIT, SHRINK: for the bootstrap; for comm_begin_making */
	int alone; /* the calling thread has no other job until this one ends */
	int parent_error; /* SPLIT, SHRINK: what had ended the parent before */
	pthread_t thread;
};

/* Makes the handle of what a job makes. */
ncclResult_t door_job_prepare(struct door_job *job);
/* Runs it now, or appends it to this thread's group. */
ncclResult_t door_job_submit(const struct door_job *job);
/* Runs all of them at once, a thread each; the first error is the result. */
ncclResult_t door_jobs_run(struct door_job *jobs, int n);
/* For a group that has failed: destructions run all the same, because their handles can't be used any more; other jobs do not. Frees
 * the jobs' ranks. */
void door_jobs_drop(struct door_job *jobs, int n);
/* init.c, child.c, destroy.c */
void door_job_init(struct door_job *job);
/* For an INIT that fails before its ranks meet, as was logged last: the other ranks fail, too. */
void door_tell_failed(const struct door_job *job);
void door_job_split(struct door_job *job);
void door_job_shrink(struct door_job *job);
void door_job_destroy(struct door_job *job);

/* ---- creation_gather.c: the ranks of a communicator that is being made */

struct door_meeting {
	const struct door_job *job;
	struct boot *boot;
	const int *ranks; /* of the parent, in the bootstrap's order */
	int n;
	char failure[DOOR_ERROR_BYTES]; /* the first, which says most */
	unsigned char
	    *flags; /* of each rank: it can't come, if it has not; the same before; it had not come */
	int *missing; /* ranks of the parent */
	int64_t since_ns, next_look_ns; /* since when the same ranks can't come; not before */
	int64_t shown_ns; /* when it was last looked whom this rank waits for */
	int64_t asked_ns; /* when those that had not come were last asked whether they are there; 0: never */
	int asked, next_asked; /* how often; who is next; n: all have been */
};

/* An all-gather, to its end, or until one of those ranks can't come or the communicator is aborted. 0 or a CORALE_E*, logged. */
int door_meet(struct door_meeting *meeting, const void *in, size_t bytes, void *out);

/* ---- coll.c: one call */

/* As Corale takes it. Until it has been checked the count is NCCL's, in elements, and it has neither type nor operator. */
struct door_call {
	const char *name; /* "AllReduce" */
	ncclComm_t comm;
	cudaStream_t stream; /* NULL in host memory */
	int is_op_destroy; /* not a call, but it comes after those before it */
	struct call call;
};

/* As NCCL: without data nothing is sent, but by a pair. */
static inline int door_is_empty(const struct door_call *c)
{
	return !c->call.record.count && !call_is_pair(&c->call);
}

/* ---- group.c: this thread's group */

int door_grouping(void);
/* Calls of a communicator in this thread's open group. */
size_t door_group_calls(ncclComm_t comm);
ncclResult_t door_group_call(const struct door_call *call);
/* Makes a checked call. */
int door_issue(struct door_call *call);
ncclResult_t door_group_job(const struct door_job *job);
/* Returns result. If a function in the group has failed by it, so does the group's end, and the communicators whose calls are in the group end, as
 * Corale's group_refuse says. */
ncclResult_t door_group_fail(ncclResult_t result);

/* ---- destroy.c */

/* Frees what a handle has, when nobody uses it any more. */
void door_free(ncclComm_t comm);

/* ---- memory.c */

void door_forget_buffers(ncclComm_t comm);

/* ---- limits.c */

/* Where nothing says how many blocks a kernel has: several communicators at work side by side must fit on a GPU, and four of these do on 132 processors. Measured: docs/nccl.md. */
enum { DOOR_BLOCKS = 32 };

/* The most blocks of a kernel of a communicator with this configuration; pinned: one channel is asked for the sake of sums (door_fixes_order), which no
 * number of blocks changes here, so that limits nothing. 0: nothing says it. */
int door_max_blocks(const struct door_config *config, int pinned);
/* What raises the most of them where nothing says it. */
int door_least_blocks(const struct door_config *config);

/*
 * The pins by which programs of NCCL ask for sums that do not depend on size: batch-invariant modes of inference, deterministic training. 1 where the
 * variables and a communicator's configuration pin all of it: one channel, as the least and as the most (NCCL_MIN_ and _MAX_NCHANNELS
 * or _CTAS, minCTAs and maxCTAs), one algorithm of all_reduce, Tree or Ring (NCCL_ALGO), and its protocol Simple (NCCL_PROTO).
 */
int door_fixes_order(const struct door_config *config);

#endif
