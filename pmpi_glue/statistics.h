/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of calls by function, size, what became of them and why, for the table that MPI_Finalize prints with CORALE_DEBUG=info. Any thread.
 */
#ifndef PMPI_STATISTICS_H
#define PMPI_STATISTICS_H

#include <stddef.h>

#include "base/wait.h"
#include "comm.h"
#include "door.h"

enum pmpi_outcome { PMPI_IS_ROUTED, PMPI_IS_STAGED, PMPI_IS_PASSED, PMPI_OUTCOMES };

/* Why Corale did not run a call. */
enum pmpi_reason {
	PMPI_NO_REASON, /* it did */
	PMPI_HOST_MEMORY, /* by default host buffers are passed on */
	PMPI_NO_ROUTE, /* of the function */
	PMPI_HAS_REQUEST, /* non-blocking or persistent */
	PMPI_TYPE_OR_OP, /* Corale lacks the type or operator, or there is no data */
	PMPI_KIND_OF_COMM, /* one rank, an intercommunicator, or ranks of another MPI_COMM_WORLD */
	PMPI_NO_CORE, /* a rank has no communicator of Corale: few calls or no device yet, CORALE_MPI_COMMS, or an error that was logged */
	PMPI_NO_VOTE, /* the last vote heard of no device memory */
	PMPI_REASONS
};

/* Around a call; bytes: of this rank's larger buffer. Free where nothing is counted. */
static inline double pmpi_statistics_begin(void)
{
	return pmpi.counts ? (double)wait_now_ns() : 0;
}
void pmpi_statistics_count(enum pmpi_function function, enum pmpi_outcome outcome, enum pmpi_reason reason,
			   size_t bytes, double begin);

/* This rank's table, to the log. */
void pmpi_statistics_print(void);

#endif
