/* SPDX-License-Identifier: BSD-3-Clause */
/* How communicators end. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/process.h"
#include "base/wait.h"
#include "door.h"
#include "export.h"

enum { NAP_NS = 200 * 1000 };
static const int64_t call_ns = 500000000ll; /* for which a destroy waits for another thread's call */
static const int64_t abort_ns = 100000000ll; /* for which an abort waits for its memory to be freed; */
static const int64_t exit_ns = 1000000000ll; /* and an exit, for what aborts have not freed */

static void nap(void)
{
	const struct timespec time = { 0, NAP_NS };
	nanosleep(&time, NULL);
}

/* The state that it was in; DOOR_ENDED: it has ended already. */
static int take(ncclComm_t comm)
{
	return atomic_exchange(&comm->state, DOOR_ENDED);
}

void door_free(ncclComm_t comm)
{
	const int64_t until = wait_now_ns() + call_ns;
	while (atomic_load(&comm->users) && wait_now_ns() < until)
		nap();
	if (atomic_load(&comm->users) && comm->core) /* another thread is in a call, which ends */
		comm_quit(comm->core);
	while (atomic_load(&comm->users))
		nap();
	corale_comm_destroy(comm->core);
	if (comm->boot)
		boot_close(comm->boot);
	door_forget_buffers(comm);
	while (comm->shrinks) {
		struct door_shrinks *s = comm->shrinks;
		comm->shrinks = s->next;
		free(s);
	}
	atomic_store(&comm->freed, 1);
}

static ncclResult_t check_abort(ncclComm_t comm, const char *call)
{
	if (comm->magic != DOOR_MAGIC)
		return door_refuse_comm(comm, 0, call);
	if (process_is_forked())
		return door_refuse(ncclInvalidUsage,
				   "nccl%s: rank %d's communicator %p is the parent process's: a forked "
				   "child can't end it, and need not",
				   call, comm->rank, (void *)comm);
	if (atomic_load(&comm->state) == DOOR_ENDED)
		return door_refuse(ncclInvalidArgument,
				   "nccl%s: rank %d's communicator %p was destroyed or aborted before", call,
				   comm->rank, (void *)comm);
	return ncclSuccess;
}

static ncclResult_t check(ncclComm_t comm, const char *call)
{
	const ncclResult_t result = check_abort(comm, call);
	const int unmade = result == ncclSuccess && atomic_load(&comm->state) == DOOR_MAKING;
	return unmade ? door_refuse_comm(comm, DOOR_MAKING, call) : result;
}

/* ---- In order -------------------------------------------------------------------------------------------------- */

DOOR_EXPORT(ncclCommFinalize);
ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
	int ready = DOOR_READY;
	if (!comm)
		return ncclSuccess;
	ncclResult_t result = check(comm, "CommFinalize");
	if (result == ncclSuccess && !atomic_compare_exchange_strong(&comm->state, &ready, DOOR_FINALIZED) &&
	    ready == DOOR_FINALIZED)
		result = door_refuse(ncclInvalidArgument,
				     "ncclCommFinalize: rank %d's communicator %p was finalized before",
				     comm->rank, (void *)comm);
	return result;
}

void door_job_destroy(struct door_job *job)
{
	door_free(job->comm);
}

DOOR_EXPORT(ncclCommDestroy);
ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	ncclResult_t result = check(comm, "CommDestroy");
	if (result == ncclSuccess && door_group_calls(comm))
		result = door_refuse(ncclInvalidUsage,
				     "ncclCommDestroy: the open group has %zu calls of rank %d's "
				     "communicator %p: end the group first (ncclGroupEnd)",
				     door_group_calls(comm), comm->rank, (void *)comm);
	if (result == ncclSuccess && take(comm) != DOOR_ENDED)
		result = door_job_submit(
		    &(struct door_job){ .kind = DOOR_DESTROY, .comm = comm, .ordinal = comm->ordinal });
	return door_group_fail(result);
}

/* ---- At once ---------------------------------------------------------------------------------------------------- */

static _Atomic int freeing; /* communicators whose threads below are at work */

/* Freeing waits until the GPU is idle, which another communicator's stuck call may delay, so an abort does not wait for it for long. */
static void *free_in_thread(void *arg)
{
	ncclComm_t comm = arg;
	if (!comm->device->select(comm->ordinal))
		door_free(comm);
	atomic_fetch_sub(&freeing, 1);
	return NULL;
}

/* A thread that frees while the CUDA runtime ends would crash the process. */
static void at_exit(void)
{
	const int64_t until = wait_now_ns() + exit_ns;
	while (!process_is_forked() && atomic_load(&freeing) && wait_now_ns() < until)
		nap();
}

static void register_exit(void)
{
	atexit(at_exit);
}

static ncclResult_t free_beside(ncclComm_t comm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_t thread;
	pthread_once(&once, register_exit);
	atomic_fetch_add(&freeing, 1);
	int error = process_thread(&thread, free_in_thread, comm);
	if (error) {
		atomic_fetch_sub(&freeing, 1);
		return door_refuse(ncclSystemError,
				   "ncclCommAbort: rank %d's calls were ended, but there is no thread to "
				   "free its memory: %s",
				   comm->rank, strerror(error));
	}
	pthread_detach(thread);
	return ncclSuccess;
}

DOOR_EXPORT(ncclCommAbort);
ncclResult_t pncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	ncclResult_t result = check_abort(comm, "CommAbort");
	const int state = result == ncclSuccess ? take(comm) : DOOR_ENDED;
	if (state == DOOR_ENDED)
		return result;
	if (state != DOOR_MAKING) /* else its making ends by itself */
		comm_quit(comm->core);
	result = free_beside(comm);
	const int64_t until = wait_now_ns() + abort_ns;
	while (result == ncclSuccess && !door_grouping() && !atomic_load(&comm->freed) &&
	       wait_now_ns() < until)
		nap();
	return result;
}

DOOR_EXPORT(ncclCommRevoke);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags)
{
	ncclResult_t result = comm ? check(comm, "CommRevoke") : ncclSuccess;
	if (!comm || result != ncclSuccess)
		return result;
	if (flags != NCCL_REVOKE_DEFAULT)
		return door_refuse(ncclInvalidArgument,
				   "ncclCommRevoke: flags %d; expected NCCL_REVOKE_DEFAULT", flags);
	result = door_enter_any(comm, "CommRevoke");
	if (result != ncclSuccess)
		return result;
	for (int state = DOOR_READY; state < DOOR_REVOKED;) /* never from destroyed to revoked */
		if (atomic_compare_exchange_weak(&comm->state, &state, DOOR_REVOKED))
			break;
	comm_revoke(comm->core);
	door_leave(comm);
	return result;
}
