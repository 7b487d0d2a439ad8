/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective, from the MPI function to what runs it. */
#include "base/log.h"
#include "call/runner.h"
#include "coll.h"
#include "door.h"
#include "request.h"
#include "statistics.h"

static void look_at(struct coll_side *side)
{
	side->at = side->buffer;
	side->ordinal = -1;
	if (side->blocks && side->buffer != MPI_IN_PLACE)
		side->ordinal = pmpi_ordinal(side->buffer);
}

static int has_device(const struct coll_call *call)
{
	return call->send.ordinal >= 0 || call->recv.ordinal >= 0;
}

/* ---- The route */

static size_t bytes_of(const struct coll_call *call, const struct coll_side *side)
{
	size_t bytes = 0;
	for (int i = 0; i < side->blocks; i++) {
		const MPI_Datatype type = coll_type(side, i);
		if (type != MPI_DATATYPE_NULL)
			bytes += coll_type_bytes(type) * (size_t)coll_count(call, side, i);
	}
	return bytes;
}

static size_t larger_bytes(const struct coll_call *call)
{
	const size_t in = bytes_of(call, &call->send), out = bytes_of(call, &call->recv);
	return in > out ? in : out;
}

/* Once a process for each reason, as it is alike at each call. */
static void warn(const struct coll_call *call, enum pmpi_reason reason)
{
	static _Atomic int said[PMPI_REASONS];
	static const char *const why[PMPI_REASONS] = {
		[PMPI_NO_ROUTE] = "Corale has no such call",
		[PMPI_TYPE_OR_OP] =
		    "Corale's communicators of this device do not reduce this type by this operator",
		[PMPI_HAS_REQUEST] = "calls with a request do",
	};
	if (why[reason] && !said[reason] && larger_bytes(call))
		log_once(&said[reason], LOG_WARN, pmpi.rank,
			 "%s of a device buffer goes through host memory, as %s; CORALE_DEBUG=info counts "
			 "such calls at MPI_Finalize, docs/mpi.md says which calls stay on the device",
			 pmpi_function_name(call->function), why[reason]);
}

/* What makes Corale's route impossible, or PMPI_NO_REASON; alike on all ranks. */
static enum pmpi_reason is_impossible(struct coll_call *call, const struct pmpi_comm *comm, size_t *bytes)
{
	if (!coll_kind(call)->is_run)
		return PMPI_NO_ROUTE;
	if (call->request)
		return PMPI_HAS_REQUEST;
	if (!comm || !comm->is_of_world || comm->size == 1)
		return PMPI_KIND_OF_COMM;
	if (!coll_is_eligible(call, bytes))
		return call->function == PMPI_BARRIER ? PMPI_NO_ROUTE : PMPI_TYPE_OR_OP;
	return comm->state == PMPI_CORE_NEVER ? PMPI_NO_CORE : PMPI_NO_REASON;
}

/* *comm: whose core runs the call; NULL: MPI does, and *reason says why. */
static int find_route(struct coll_call *call, struct pmpi_comm **comm, enum pmpi_reason *reason)
{
	size_t bytes;
	int is_routed = 0, error;
	struct pmpi_comm *found =
	    call->request || !coll_kind(call)->is_run ? NULL : pmpi_comm_find(call->comm);
	*comm = NULL;
	*reason = is_impossible(call, found, &bytes);
	if (*reason)
		return MPI_SUCCESS;
	error = pmpi_route(found, call->function, bytes, has_device(call), &is_routed);
	if (error || !is_routed) {
		*reason = PMPI_NO_VOTE;
		return error;
	}
	error =
	    pmpi_comm_open(found, call->recv.ordinal >= 0 ? call->recv.ordinal : call->send.ordinal, bytes);
	if (!error && found->state == PMPI_CORE_READY)
		*comm = found;
	else
		*reason = PMPI_NO_CORE;
	return error;
}

/* A call that Corale could run, and MPI does as votes have heard of host memory alone: a rank that has made another call waits in Corale, and finds that out. */
static void note_left(const struct coll_call *call)
{
	const struct pmpi_comm *comm = pmpi_comm_find(call->comm);
	if (comm && comm->state == PMPI_CORE_READY)
		refuse_left_to_mpi(comm->core, pmpi_function_name(call->function) + sizeof "MPI_" - 1,
				   larger_bytes(call));
}

static int run_routed(struct coll_call *call, struct pmpi_comm *comm)
{
	pmpi.routed++;
	const int ret = coll_corale(call, comm);
	pmpi.routed--;
	if (!ret)
		return MPI_SUCCESS;
	corale_comm_abort(comm->core); /* what this rank alone refuses must not keep the others waiting */
	return pmpi_fail(call->comm);
}

static void count(const struct coll_call *call, int is_routed, enum pmpi_reason reason, double begin)
{
	const enum pmpi_outcome outcome = is_routed          ? PMPI_IS_ROUTED
					  : has_device(call) ? PMPI_IS_STAGED
							     : PMPI_IS_PASSED;
	if (outcome == PMPI_IS_PASSED && (pmpi.mode == PMPI_MODE_DEVICE || reason == PMPI_NO_VOTE))
		reason = PMPI_HOST_MEMORY;
	pmpi_statistics_count(call->function, outcome, reason, larger_bytes(call), begin);
}

int coll_run(struct coll_call *call)
{
	struct pmpi_comm *comm;
	enum pmpi_reason reason;
	const double begin = pmpi_statistics_begin();
	look_at(&call->send);
	look_at(&call->recv);
	if (coll_is_wrong(call))
		return call->mpi(call);
	int error = find_route(call, &comm, &reason);
	if (error)
		return error;
	if (reason == PMPI_NO_VOTE)
		note_left(call);
	if (!comm && has_device(call))
		warn(call, reason);
	if (comm)
		error = run_routed(call, comm);
	else if (has_device(call))
		error = coll_staged(call);
	else
		error = call->mpi(call);
	pmpi_requests_progress();
	if (pmpi.counts)
		count(call, comm != NULL, reason, begin);
	return error;
}
