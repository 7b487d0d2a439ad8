/* A collective, from the MPI function to what runs it. */
#include "base/log.h"
#include "coll.h"
#include "door.h"
#include "table.h"

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

/* By MPI, on host memory. */
static int run_staged(struct coll_call *call)
{
	int error;
	if (coll_stage_side(call, &call->send) || coll_stage_side(call, &call->recv))
		error = pmpi_fail(call->comm);
	else
		error = coll_mpi(call);
	if (!error && coll_deliver_side(call, &call->recv))
		error = pmpi_fail(call->comm);
	coll_unstage_side(&call->send);
	coll_unstage_side(&call->recv);
	return error;
}

/* *comm: whose core runs the call; NULL: MPI does. */
static int find_route(const struct coll_call *call, struct pmpi_comm **comm)
{
	size_t bytes;
	int is_routed = 0, error;
	*comm = NULL;
	if (call->request || call->comm == MPI_COMM_NULL || (int)call->function >= PMPI_ROUTED)
		return MPI_SUCCESS;
	struct pmpi_comm *found = pmpi_comm_find(call->comm);
	if (!found || !found->is_plain || found->state == PMPI_CORE_NEVER || !coll_is_eligible(call, &bytes))
		return MPI_SUCCESS;
	error = pmpi_route(found, call->function, bytes, has_device(call), &is_routed);
	if (!error && is_routed)
		error =
		    pmpi_comm_open(found, call->recv.ordinal >= 0 ? call->recv.ordinal : call->send.ordinal);
	if (!error && is_routed && found->state == PMPI_CORE_READY)
		*comm = found;
	return error;
}

static int run_routed(struct coll_call *call, struct pmpi_comm *comm)
{
	const int ret = coll_corale(call, comm);
	if (!ret)
		return MPI_SUCCESS;
	corale_comm_abort(comm->core); /* what this rank alone refuses must not keep the others waiting */
	return pmpi_fail(call->comm);
}

int coll_run(struct coll_call *call)
{
	struct pmpi_comm *comm;
	const double begin = pmpi_table_begin();
	look_at(&call->send);
	look_at(&call->recv);
	int error = find_route(call, &comm);
	if (error)
		return error;
	if (comm)
		error = run_routed(call, comm);
	else if (has_device(call))
		error = call->request ? coll_start(call) : run_staged(call);
	else
		error = coll_mpi(call);
	pmpi_table_end(call->function,
		       comm               ? PMPI_IS_ROUTED
		       : has_device(call) ? PMPI_IS_STAGED
					  : PMPI_IS_PASSED,
		       begin);
	return error;
}
