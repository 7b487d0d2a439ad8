/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions, by a call's record: blocking and non-blocking ones. */
#include "coll.h"
#include "door.h"

#define COUNT(side) ((int)call->side.count)
#define COUNTS(array) ((const int *)(array))
#define DISPLS(array) ((const int *)(array))
#define AINT_DISPLS(array) ((const MPI_Aint *)(array))

static int blocking(const struct coll_call *call)
{
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return PMPI_##Name(__VA_ARGS__);
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
#undef CASE
}

static int non_blocking(const struct coll_call *call)
{
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return PMPI_I##name(__VA_ARGS__, call->request);
	switch (call->function) {
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
#undef CASE
}

#if PMPI_HAS_MPI4

static int persistent(const struct coll_call *call)
{
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return PMPI_##Name##_init(__VA_ARGS__, call->info, call->request);
	switch (call->function) {
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
#undef CASE
}

#endif

#if MPI_VERSION >= 4
#undef COUNT
#undef COUNTS
#undef DISPLS
#define COUNT(side) (call->side.count)
#define COUNTS(array) ((const MPI_Count *)(array))
#define DISPLS(array) ((const MPI_Aint *)(array))

static int big(const struct coll_call *call)
{
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return call->is_persistent ? PMPI_##Name##_init_c(__VA_ARGS__, call->info, call->request)    \
		       : call->request     ? PMPI_I##name##_c(__VA_ARGS__, call->request)                    \
					   : PMPI_##Name##_c(__VA_ARGS__);
	switch (call->function) {
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local_c(call->send.at, call->recv.at, COUNT(recv), call->recv.type,
					   call->op);
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
#undef CASE
}

#endif

int coll_mpi(const struct coll_call *call)
{
#if MPI_VERSION >= 4
	if (call->is_big)
		return big(call);
#endif
#if PMPI_HAS_MPI4
	if (call->is_persistent)
		return persistent(call);
#endif
	return call->request ? non_blocking(call) : blocking(call);
}
