/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking and persistent collectives: MPI runs them, on host memory where a buffer is a device's; the request brings the result to the device when the
 * program waits for it or tests it (request.h). So they never block, and ranks with device buffers and ranks without make the same call.
 */
#include <stdlib.h>

#include "base/log.h"
#include "coll.h"
#include "door.h"
#include "request.h"

static void release(void *call)
{
	coll_end(call);
	free(call);
}

static int deliver(void *call, MPI_Status *status, int error)
{
	(void)status, (void)error;
	return coll_deliver(call);
}

/* A persistent call reads its buffers at each start. */
static int restart(void *call)
{
	return coll_stage(call);
}

static const struct pmpi_work work = { .start = restart, .deliver = deliver, .release = release };

int coll_start(const struct coll_call *made)
{
	const MPI_Comm comm = made->comm;
	struct coll_call *call = malloc(sizeof *call);
	if (!call) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a non-blocking collective");
		return pmpi_fail(comm);
	}
	*call = *made;
	int failed = coll_stage(call), is_complete = 0;
	const int error = failed ? MPI_SUCCESS : coll_mpi(call);
	if (failed || error) {
		release(call);
		return failed ? pmpi_fail(comm) : error;
	}
	PMPI_Request_get_status(*call->request, &is_complete, MPI_STATUS_IGNORE);
	if (is_complete && !call->is_persistent) {
		failed = coll_deliver(call);
		release(call);
		return failed ? pmpi_fail(comm) : MPI_SUCCESS;
	}
	if (pmpi_request_add(*call->request, comm, call->is_persistent, &work, call))
		return pmpi_fail(comm); /* what is kept stays, as MPI may still write to it */
	return MPI_SUCCESS;
}
