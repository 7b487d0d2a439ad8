/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions, by a call's record: blocking, non-blocking and persistent ones. */
#include "coll.h"
#include "door.h"

#define COUNT(side) ((int)call->side.count)
#define COUNTS(array) ((const int *)(array))
#define DISPLS(array) ((const int *)(array))
#define AINT_DISPLS(array) ((const MPI_Aint *)(array))

#if PMPI_HAS_MPI4
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return call->is_persistent ? PMPI_##Name##_init(__VA_ARGS__, call->info, call->request)      \
		       : call->request     ? PMPI_I##name(__VA_ARGS__, call->request)                        \
					   : PMPI_##Name(__VA_ARGS__);
#else
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return call->request ? PMPI_I##name(__VA_ARGS__, call->request) : PMPI_##Name(__VA_ARGS__);
#endif

static int with_int_counts(const struct coll_call *call)
{
	switch (call->function) {
	case PMPI_BARRIER:
		return PMPI_Barrier(call->comm);
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local(call->send.at, call->recv.at, COUNT(recv), call->recv.type,
					 call->op);
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
}

#if MPI_VERSION >= 4
#undef COUNT
#undef COUNTS
#undef DISPLS
#undef CASE
#define COUNT(side) (call->side.count)
#define COUNTS(array) ((const MPI_Count *)(array))
#define DISPLS(array) ((const MPI_Aint *)(array))
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return call->is_persistent ? PMPI_##Name##_init_c(__VA_ARGS__, call->info, call->request)    \
		       : call->request     ? PMPI_I##name##_c(__VA_ARGS__, call->request)                    \
					   : PMPI_##Name##_c(__VA_ARGS__);

static int with_big_counts(const struct coll_call *call)
{
	switch (call->function) {
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local_c(call->send.at, call->recv.at, COUNT(recv), call->recv.type,
					   call->op);
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
}
#endif

int coll_mpi(const struct coll_call *call)
{
#if MPI_VERSION >= 4
	if (call->is_big)
		return with_big_counts(call);
#endif
	return with_int_counts(call);
}
