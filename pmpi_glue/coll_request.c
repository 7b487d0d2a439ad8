/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that MPI runs on host memory where a buffer is a device's. Of a non-blocking or persistent one the request brings the result to the device when the
 * program waits for it or tests it (request.h). So they never block, and ranks with device buffers and ranks without make the same call.
 */
#include <stdlib.h>

#include "base/log.h"
#include "coll.h"
#include "door.h"
#include "request.h"

struct kept {
	struct coll_call call;
	struct pmpi_pending pending;
};

static void release(void *kept)
{
	coll_end(kept); /* its first member */
	free(kept);
}

static int deliver(void *call, MPI_Status *status)
{
	(void)status;
	return coll_deliver(call);
}

/* A persistent call reads its buffers at each start. */
static int restart(void *call)
{
	return coll_stage(call);
}

static const struct pmpi_work work = { .start = restart, .deliver = deliver, .release = release };

/* error: MPI's. An MPI error code. */
static int end(struct coll_call *call, int failed, int error)
{
	const MPI_Comm comm = call->comm;
	release(call);
	return failed ? pmpi_fail(comm) : error;
}

int coll_staged(const struct coll_call *made)
{
	struct kept *kept = malloc(sizeof *kept);
	int is_complete = !made->request;
	if (!kept) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a collective of device buffers");
		return pmpi_fail(made->comm);
	}
	struct coll_call *call = &kept->call;
	*call = *made;
	if (coll_stage(call))
		return end(call, 1, MPI_SUCCESS);
	const int error = call->mpi(call);
	if (error)
		return end(call, 0, error);
	if (call->request)
		PMPI_Request_get_status(*call->request, &is_complete, MPI_STATUS_IGNORE);
	if (is_complete && !call->is_persistent)
		return end(call, coll_deliver(call), MPI_SUCCESS);
	pmpi_request_add(&kept->pending, *call->request, call->comm, call->is_persistent, &work, call);
	return MPI_SUCCESS;
}
