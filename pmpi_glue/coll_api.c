/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's collectives, in all their forms, and MPI_Reduce_local, which folds as they do. MPI_Ibarrier has no buffers. */
#include "coll_fill.h"

/* ENTRY(MPI_X, parameters, what turns the door by, arguments, fill, members of the record...) defines MPI_X. */
#define ENTRY(name, parameters, is_off, arguments, fill, ...)                                                \
	PMPI_ENTRY(name, parameters, arguments)                                                              \
	{                                                                                                    \
		if (is_off || comm == MPI_COMM_NULL)                                                         \
			return P##name arguments;                                                            \
		struct coll_call call = { .comm = comm, .op = MPI_OP_NULL, __VA_ARGS__ };                    \
		fill;                                                                                        \
		return coll_run(&call);                                                                      \
	}
/* clang-format off */
#define WITH_REQUEST(...) (__VA_ARGS__, MPI_Request *request)
#define WITH_REQUEST_ARGUMENT(...) (__VA_ARGS__, request)
#define WITH_INFO(...) (__VA_ARGS__, MPI_Info info, MPI_Request *request)
#define WITH_INFO_ARGUMENT(...) (__VA_ARGS__, info, request)
/* clang-format on */
#define WDISPL MPI_Aint

#define COUNT int
#define DISPL int
#define COLLECTIVE(NAME, blocking, nonblocking, parameters, arguments, fill, ...)                            \
	ENTRY(blocking, parameters, !pmpi.on, arguments, fill, .function = PMPI_##NAME)                      \
	ENTRY(nonblocking, WITH_REQUEST parameters, !pmpi.device, WITH_REQUEST_ARGUMENT arguments, fill,     \
	      .function = PMPI_##NAME, .request = request)
#include "collectives.def"
#undef COLLECTIVE

#if PMPI_HAS_MPI4
#define COLLECTIVE(NAME, blocking, nonblocking, parameters, arguments, fill, ...)                            \
	ENTRY(blocking##_init, WITH_INFO parameters, !pmpi.device, WITH_INFO_ARGUMENT arguments, fill,       \
	      .function = PMPI_##NAME, .request = request, .info = info, .is_persistent = 1)
#include "collectives.def"
#undef COLLECTIVE
#endif

#if MPI_VERSION >= 4
#undef COUNT
#undef DISPL
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define COLLECTIVE(NAME, blocking, nonblocking, parameters, arguments, fill, ...)                            \
	ENTRY(blocking##_c, parameters, !pmpi.on, arguments, fill, .function = PMPI_##NAME, .is_big = 1)     \
	ENTRY(nonblocking##_c, WITH_REQUEST parameters, !pmpi.device, WITH_REQUEST_ARGUMENT arguments, fill, \
	      .function = PMPI_##NAME, .request = request, .is_big = 1)                                      \
	ENTRY(blocking##_init_c, WITH_INFO parameters, !pmpi.device, WITH_INFO_ARGUMENT arguments, fill,     \
	      .function = PMPI_##NAME, .request = request, .info = info, .is_persistent = 1, .is_big = 1)
#include "collectives.def"
#endif

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
