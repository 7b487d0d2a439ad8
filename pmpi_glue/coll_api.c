/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's blocking collectives, and MPI_Reduce_local, which folds as they do. */
#include "coll_fill.h"

#define COUNT int
#define DISPL int
#define WDISPL MPI_Aint
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	COLL_ENTRY(PI_##Name, parameters, !pmpi.on, arguments, fill, .function = PMPI_##NAME)
#include "coll_api.def"

PMPI_ENTRY(MPI_Barrier, (MPI_Comm comm), (comm))
{
	if (!pmpi.on || comm == MPI_COMM_NULL)
		return PMPI_Barrier(comm);
	return coll_run(&(struct coll_call){ .function = PMPI_BARRIER, .comm = comm });
}

/* No communicator's call: errors are MPI_COMM_WORLD's. */
static int reduce_local(struct coll_call *call, const void *in, void *inout, MPI_Count count,
			MPI_Datatype type)
{
	call->function = PMPI_REDUCE_LOCAL;
	call->comm = MPI_COMM_WORLD;
	coll_fill_all_reduce(call, in, inout, count, type, call->op);
	call->recv.is_read = 1;
	return coll_run(call);
}

PMPI_ENTRY(MPI_Reduce_local, (const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op),
	   (in, inout, count, type, op))
{
	if (!pmpi.device)
		return PMPI_Reduce_local(in, inout, count, type, op);
	return reduce_local(&(struct coll_call){ .op = op }, in, inout, count, type);
}

#if MPI_VERSION >= 4
PMPI_ENTRY(MPI_Reduce_local_c, (const void *in, void *inout, MPI_Count count, MPI_Datatype type, MPI_Op op),
	   (in, inout, count, type, op))
{
	if (!pmpi.device)
		return PMPI_Reduce_local_c(in, inout, count, type, op);
	return reduce_local(&(struct coll_call){ .op = op, .is_big = 1 }, in, inout, count, type);
}
#endif
