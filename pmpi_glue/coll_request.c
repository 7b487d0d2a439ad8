/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking and persistent collectives: MPI runs them, on host memory where a buffer is a device's; the request brings the result to the device when the
 * program waits for it or tests it (request.h). So they never block, and ranks with device buffers and ranks without make the same call.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coll.h"
#include "door.h"
#include "request.h"

/* What the copies of a side look at later, as arrays and types are the program's to change or free. */
struct kept_side {
	MPI_Datatype own; /* a duplicate of the type; MPI_DATATYPE_NULL: none is needed */
	MPI_Datatype *types; /* the same of each block's */
	void *counts, *displs;
};

/* A call that its request keeps. */
struct kept {
	struct coll_call call;
	struct kept_side send, recv; /* send: of persistent calls */
};

static int is_predefined(MPI_Datatype type)
{
	int integers, addresses, types, combiner = MPI_COMBINER_NAMED;
	return type == MPI_DATATYPE_NULL ||
	       PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) ||
	       combiner == MPI_COMBINER_NAMED;
}

static MPI_Datatype keep_type(MPI_Datatype type)
{
	MPI_Datatype own = MPI_DATATYPE_NULL;
	if (!is_predefined(type))
		PMPI_Type_dup(type, &own);
	return own;
}

static void *copy_of(const void *array, size_t bytes)
{
	void *copy = array ? malloc(bytes ? bytes : 1) : NULL;
	return copy ? memcpy(copy, array, bytes) : NULL;
}

static int keep_side(const struct coll_call *call, struct coll_side *side, struct kept_side *kept)
{
	const size_t n = (size_t)side->blocks;
	kept->own = side->types ? MPI_DATATYPE_NULL : keep_type(side->type);
	if (kept->own != MPI_DATATYPE_NULL)
		side->type = kept->own;
	kept->counts = copy_of(side->counts, n * (call->is_big ? sizeof(MPI_Count) : sizeof(int)));
	kept->displs = copy_of(side->displs, n * (coll_has_addresses(call) ? sizeof(MPI_Aint) : sizeof(int)));
	kept->types = copy_of(side->types, n * sizeof(MPI_Datatype));
	if ((side->counts && !kept->counts) || (side->displs && !kept->displs) ||
	    (side->types && !kept->types))
		return log_error(CORALE_ENOMEM, pmpi.rank,
				 "no memory for the arrays of a non-blocking collective");
	for (size_t i = 0; kept->types && i < n; i++) {
		const MPI_Datatype own = keep_type(kept->types[i]);
		if (own != MPI_DATATYPE_NULL)
			kept->types[i] = own;
	}
	side->counts = kept->counts;
	side->displs = kept->displs;
	side->types = kept->types;
	return 0;
}

static void free_type(MPI_Datatype type)
{
	if (!is_predefined(type))
		PMPI_Type_free(&type);
}

static void release_side(struct coll_side *side, struct kept_side *kept)
{
	coll_unstage_side(side);
	free_type(kept->own);
	for (int i = 0; kept->types && i < side->blocks; i++)
		free_type(kept->types[i]);
	free(kept->types);
	free(kept->counts);
	free(kept->displs);
}

static void release(void *arg)
{
	struct kept *kept = arg;
	release_side(&kept->call.send, &kept->send);
	release_side(&kept->call.recv, &kept->recv);
	free(kept);
}

static int deliver(void *arg, MPI_Status *status, int error)
{
	struct kept *kept = arg;
	(void)status, (void)error;
	return coll_deliver_side(&kept->call, &kept->call.recv);
}

/* A persistent call reads its buffers at each start. */
static int restart(void *arg)
{
	struct kept *kept = arg;
	const int ret = coll_restage_side(&kept->call, &kept->call.send);
	return ret ? ret : coll_restage_side(&kept->call, &kept->call.recv);
}

static const struct pmpi_work work = { .deliver = deliver, .release = release };
static const struct pmpi_work persistent_work = { .start = restart, .deliver = deliver, .release = release };

static int keep(struct kept *kept)
{
	struct coll_call *call = &kept->call;
	int ret = keep_side(call, &call->recv, &kept->recv);
	return ret || !call->is_persistent ? ret : keep_side(call, &call->send, &kept->send);
}

/* MPI is given the program's own arrays and types, of which it keeps what it needs. */
static int begin(struct kept *kept)
{
	struct coll_call *call = &kept->call;
	const MPI_Comm comm = call->comm;
	if (coll_stage(call)) {
		release(kept);
		return pmpi_fail(comm);
	}
	const int error = coll_mpi(call);
	if (error) {
		release(kept);
		return error;
	}
	if (keep(kept) || pmpi_request_add(*call->request, call->comm, call->is_persistent,
					   call->is_persistent ? &persistent_work : &work, kept))
		return pmpi_fail(comm); /* what is kept stays, as MPI may still write to it */
	return MPI_SUCCESS;
}

int coll_start(struct coll_call *call)
{
	struct kept *kept = malloc(sizeof *kept);
	if (!kept) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a non-blocking collective");
		return pmpi_fail(call->comm);
	}
	*kept = (struct kept){ .call = *call, .send.own = MPI_DATATYPE_NULL, .recv.own = MPI_DATATYPE_NULL };
	return begin(kept);
}
