/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions that start persistent requests: what work does before its request starts. */
#include "request.h"

#include "door.h"

/* 0, or CORALE_E*, logged. */
static int prepare(MPI_Request request, MPI_Comm *comm)
{
	struct pmpi_pending *pending = pmpi_pending_claim(request);
	if (!pending)
		return 0;
	*comm = pending->comm;
	const int ret = pending->work->start ? pending->work->start(pending->arg) : 0;
	if (!ret) {
		pending->is_active = 1;
		pending->is_delivered = 0;
	}
	pmpi_pending_unclaim(pending);
	return ret;
}

/* With the lock, as nobody may look at a receive that is prepared and not started. */
static int start(int n, MPI_Request *requests)
{
	MPI_Comm comm = MPI_COMM_NULL;
	int failed = 0, ret = MPI_SUCCESS;
	pmpi_lock();
	for (int i = 0; i < n && !failed && atomic_load_explicit(&pmpi_pending_n, memory_order_relaxed); i++)
		failed = prepare(requests[i], &comm);
	if (!failed)
		ret = n == 1 ? PMPI_Start(requests) : PMPI_Startall(n, requests);
	pmpi_unlock();
	return failed ? pmpi_fail(comm) : ret;
}

PMPI_ENTRY(MPI_Start, (MPI_Request * request), (request))
{
	return start(1, request);
}

PMPI_ENTRY(MPI_Startall, (int n, MPI_Request *requests), (n, requests))
{
	return start(n, requests);
}
