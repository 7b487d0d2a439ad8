/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions, by a call's record: blocking, non-blocking and persistent ones. */
#include "coll.h"
#include "door.h"

/* clang-format off */
#define PASSED(type, name, member) (type)call->member,
#define ARGUMENTS(...) COLL_ARGUMENTS(PASSED, __VA_ARGS__) call->comm
/* clang-format on */

#define COUNT int
#define DISPL int
#if PMPI_HAS_MPI4
#define PERSISTENT(blocking, ...)                                                                            \
	call->is_persistent ? P##blocking##_init(ARGUMENTS(__VA_ARGS__), call->info, call->request):
#else
#define PERSISTENT(blocking, ...)
#endif
#define COLLECTIVE(NAME, blocking, nonblocking, SEND, RECV, OP, ROOT, ...)                                   \
	case PMPI_##NAME:                                                                                    \
		return PERSISTENT(blocking, SEND, RECV, OP, ROOT) call->request                              \
			   ? P##nonblocking(ARGUMENTS(SEND, RECV, OP, ROOT), call->request)                  \
			   : P##blocking(ARGUMENTS(SEND, RECV, OP, ROOT));

static int with_int_counts(const struct coll_call *call)
{
	const struct coll_side *recv = &call->recv;
	switch (call->function) {
	case PMPI_BARRIER:
		return PMPI_Barrier(call->comm);
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local(call->send.at, (void *)recv->at, (int)recv->count, recv->type,
					 call->op);
#include "collectives.def"
	default:
		return MPI_ERR_INTERN;
	}
}

#if MPI_VERSION >= 4
#undef COUNT
#undef DISPL
#undef COLLECTIVE
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define COLLECTIVE(NAME, blocking, nonblocking, SEND, RECV, OP, ROOT, ...)                                   \
	case PMPI_##NAME:                                                                                    \
		return call->is_persistent ? P##blocking##_init_c(ARGUMENTS(SEND, RECV, OP, ROOT),           \
								  call->info, call->request)                 \
		       : call->request ? P##nonblocking##_c(ARGUMENTS(SEND, RECV, OP, ROOT), call->request)  \
				       : P##blocking##_c(ARGUMENTS(SEND, RECV, OP, ROOT));

static int with_big_counts(const struct coll_call *call)
{
	const struct coll_side *recv = &call->recv;
	switch (call->function) {
	case PMPI_REDUCE_LOCAL:
		return PMPI_Reduce_local_c(call->send.at, (void *)recv->at, recv->count, recv->type,
					   call->op);
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
