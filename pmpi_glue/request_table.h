/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of requests with work, for the functions that complete them (request.c). */
#ifndef PMPI_REQUEST_TABLE_H
#define PMPI_REQUEST_TABLE_H

#include <stdatomic.h>

#include "request.h"

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
 * The claimed work's operation is complete, with MPI's error: delivers, and takes what is not persistent from the table. An MPI error code. The error handler is
 * called for MPI_ERR_OTHER, and for no other one.
 */
int pmpi_pending_complete(struct pmpi_pending *claimed, MPI_Status *status, int error);
/* Delivers, and leaves all else. */
int pmpi_pending_deliver(struct pmpi_pending *claimed, MPI_Status *status, int error);
/* Takes the claimed work from the table: released at once if it is not active, else by pmpi_requests_progress, which then owns the request. 1: it does. */
int pmpi_pending_free(struct pmpi_pending *claimed);

#endif
