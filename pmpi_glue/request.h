/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the door does when a request of MPI starts and ends: a table from MPI_Request to work. The program waits and tests as ever, its own requests and those
 * with work mixed. While the table is empty that costs one look at a counter. Any thread.
 */
#ifndef PMPI_REQUEST_H
#define PMPI_REQUEST_H

#include <mpi.h>

/*
 * The lock of requests and of messages by peer copies; a thread may have it several times. Nothing that waits for another rank is called with it, and no error
 * handler. Without MPI_THREAD_MULTIPLE it is nothing.
 */
void pmpi_lock(void);
void pmpi_unlock(void);

/* Functions that can fail return 0 or a CORALE_E* code, logged: then the error handler of the request's communicator is called. */
struct pmpi_work {
	/* Persistent requests: before MPI_Start, which has the lock. NULL: nothing. */
	int (*start)(void *arg);
	/* Whether MPI may be asked to complete the request, which is active. NULL: always. */
	int (*is_ready)(void *arg, MPI_Request request);
	/*
	 * The operation is complete, and was not cancelled: results go to the program's buffers. Once for each operation. status: the program's too; error: MPI's.
	 * May also return MPI_ERR_TRUNCATE, not logged. NULL: nothing.
	 */
	int (*deliver)(void *arg, MPI_Status *status, int error);
	int is_repeated; /* deliver is called by each look at a complete request, as it writes to the status */
	/* MPI uses nothing of the operation any more; last of all. */
	void (*release)(void *arg);
};

/* Adds work to a request that MPI has made, and that was not complete at once: those that are may share one handle. 0; else CORALE_ENOMEM, logged: then release was not called. */
int pmpi_request_add(MPI_Request request, MPI_Comm comm, int is_persistent, const struct pmpi_work *work,
		     void *arg);

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

#endif
