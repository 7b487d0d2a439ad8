/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the door does when a request of MPI starts and ends: a table from MPI_Request to work. The program waits and tests as ever, its own requests and those
 * with work mixed. While the table is empty that costs one look at a counter. Any thread.
 */
#ifndef PMPI_REQUEST_H
#define PMPI_REQUEST_H

#include <mpi.h>

#include "door.h"

/*
 * The lock of requests and of messages by peer copies; a thread may have it several times. Nothing that waits for another rank is called with it, and no error
 * handler. Without MPI_THREAD_MULTIPLE it is nothing.
 */
void pmpi_lock_threads(void);
void pmpi_unlock_threads(void);
static inline void pmpi_lock(void)
{
	if (pmpi.thread_level == MPI_THREAD_MULTIPLE)
		pmpi_lock_threads();
}
static inline void pmpi_unlock(void)
{
	if (pmpi.thread_level == MPI_THREAD_MULTIPLE)
		pmpi_unlock_threads();
}

/* Functions that can fail return 0 or a CORALE_E* code, logged: then the error handler of the request's communicator is called. */
struct pmpi_work {
	/* Persistent requests: before MPI_Start, which has the lock. NULL: nothing. */
	int (*start)(void *arg);
	/* Whether MPI may be asked to complete the request, which is active. NULL: always. */
	int (*is_ready)(void *arg, MPI_Request request);
	/*
	 * Where no other request has work, and one thread calls MPI, MPI_Wait may wait in MPI, which is faster: this does behind it what is_ready would have done. ret: MPI's.
	 * NULL: it may not.
	 */
	void (*follow)(void *arg, const MPI_Status *status, int ret);
	/*
	 * The operation is complete, and was not cancelled: results go to the program's buffers. Once for each operation. status: the program's too.
	 * May also return MPI_ERR_TRUNCATE, not logged. NULL: nothing.
	 */
	int (*deliver)(void *arg, MPI_Status *status);
	int is_repeated; /* deliver is called by each look at a complete request, as it writes to the status */
	/* MPI uses nothing of the operation any more; last of all. */
	void (*release)(void *arg);
};

/* A request with work. Its memory is a part of what the work is done for, until release. */
struct pmpi_pending {
	MPI_Request request;
	MPI_Comm comm;
	const struct pmpi_work *work;
	void *arg;
	int is_persistent, is_active, is_delivered;
	int is_claimed; /* by a function that may complete it */
	int is_hidden; /* from MPI, in that function */
	struct pmpi_pending *next; /* of its bucket, or of freed requests */
};

/* Adds work to a request that MPI has made, and that was not complete at once: those that are may share one handle. */
void pmpi_request_add(struct pmpi_pending *pending, MPI_Request request, MPI_Comm comm, int is_persistent,
		      const struct pmpi_work *work, void *arg);

/* A turn of a loop that waits: others' messages go on. */
void pmpi_go_on(int *turn);
/* MPI_Wait, inside the door. */
int pmpi_wait_for(MPI_Request *request, MPI_Status *status);
/* MPI_Request_get_status, inside the door. */
int pmpi_look_at(MPI_Request request, int *flag, MPI_Status *status);

/* At the end of calls. Requests that the program has freed while they were active: those that are complete are delivered and released. Copies of messages end. */
void pmpi_requests_progress(void);
/* At MPI_Finalize. */
void pmpi_requests_end(void);

/* ---- The table, for the functions that complete requests (request.c) */

extern _Atomic long pmpi_pending_n; /* in the table */

/*
 * The unclaimed work of a request, claimed; NULL: none. A handle that MPI has given back and out again, before the first thread has taken its work from the table, is told from its
 * earlier life.
 */
struct pmpi_pending *pmpi_pending_claim(MPI_Request request);
void pmpi_pending_unclaim(struct pmpi_pending *claimed);

/* Whether MPI may complete the request. NULL: it has no work. */
int pmpi_pending_is_ready(const struct pmpi_pending *claimed);
/*
 * The claimed work's operation is complete: delivers, and takes what is not persistent from the table. An MPI error code. The error handler is
 * called for MPI_ERR_OTHER, and for no other one.
 */
int pmpi_pending_complete(struct pmpi_pending *claimed, MPI_Status *status);
/* Delivers, and leaves all else. */
int pmpi_pending_deliver(struct pmpi_pending *claimed, MPI_Status *status);
/* Takes the claimed work from the table: released at once if it is not active, else by pmpi_requests_progress, which then owns the request. 1: it does. */
int pmpi_pending_free(struct pmpi_pending *claimed);

#endif
