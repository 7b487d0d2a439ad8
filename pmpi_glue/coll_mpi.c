/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions, by a call's record: blocking, non-blocking and persistent ones. */
#include "coll.h"
#include "door.h"

/* The words of collectives.def's last column. A block each way has one count and type. */
#define BLOCK(side) call->side.at, COUNT_OF(side), call->side.type
#define BLOCKS(side) call->side.at, COUNTS(call->side.counts), DISPLS(call->side.displs), call->side.type
#define BLOCKS_OF_TYPES(side)                                                                                \
	call->side.at, COUNTS(call->side.counts), DISPLS(call->side.displs), call->side.types
#define BLOCKS_AT(side)                                                                                      \
	call->side.at, COUNTS(call->side.counts), (const MPI_Aint *)call->side.displs, call->side.types
#define BUFFERS call->send.at, BLOCK(recv)
#define BUFFERS_OF_COUNTS call->send.at, call->recv.at, COUNTS(call->counts), call->recv.type
/* clang-format off */
#define AND_REQUEST(...) (__VA_ARGS__, call->request)
#define AND_INFO(...) (__VA_ARGS__, call->info, call->request)
/* clang-format on */

#define COUNT_OF(side) ((int)call->side.count)
#define COUNTS(array) ((const int *)(array))
#define DISPLS(array) ((const int *)(array))
#if PMPI_HAS_MPI4
#define PERSISTENT(blocking, passed) call->is_persistent ? P##blocking##_init AND_INFO passed:
#else
#define PERSISTENT(blocking, passed)
#endif
#define COLLECTIVE(NAME, blocking, nonblocking, parameters, arguments, fill, passed)                         \
	case PMPI_##NAME:                                                                                    \
		return PERSISTENT(blocking, passed) call->request ? P##nonblocking AND_REQUEST passed        \
								  : P##blocking passed;

static int with_int_counts(const struct coll_call *call)
{
	switch (call->function) {
	case PMPI_BARRIER:
		return PMPI_Barrier(call->comm);
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local(BUFFERS, call->op);
#include "collectives.def"
	default:
		return MPI_ERR_INTERN;
	}
}

#if MPI_VERSION >= 4
#undef COUNT_OF
#undef COUNTS
#undef DISPLS
#undef COLLECTIVE
#define COUNT_OF(side) (call->side.count)
#define COUNTS(array) ((const MPI_Count *)(array))
#define DISPLS(array) ((const MPI_Aint *)(array))
#define COLLECTIVE(NAME, blocking, nonblocking, parameters, arguments, fill, passed)                         \
	case PMPI_##NAME:                                                                                    \
		return call->is_persistent ? P##blocking##_init_c AND_INFO passed                            \
		       : call->request     ? P##nonblocking##_c AND_REQUEST passed                           \
					   : P##blocking##_c passed;

static int with_big_counts(const struct coll_call *call)
{
	switch (call->function) {
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local_c(BUFFERS, call->op);
#include "collectives.def"
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
