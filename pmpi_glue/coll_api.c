/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's collectives, in all their forms, by the rows of collectives.def, and MPI_Reduce_local, which folds as they do. MPI_Ibarrier has no buffers. */
#include "coll.h"
#include "door.h"

/* ENTRY(MPI_X, what turns the door by, parameters, arguments, members of the record...) defines MPI_X. */
#define ENTRY(name, is_off, parameters, arguments, ...)                                                      \
	PMPI_ENTRY(name, parameters, arguments)                                                              \
	{                                                                                                    \
		if (is_off || comm == MPI_COMM_NULL)                                                         \
			return P##name arguments;                                                            \
		struct coll_call call = { .comm = comm, __VA_ARGS__ };                                       \
		coll_fill(&call);                                                                            \
		return coll_run(&call);                                                                      \
	}

/* form: (sides, operator, root) of a row. */
/* clang-format off */
#define PARAMETER(type, name, member) type name,
#define ARGUMENT(type, name, member) name,
#define MEMBER(type, name, member) .member = name,
#define PARAMETERS(...) COLL_ARGUMENTS(PARAMETER, __VA_ARGS__)
#define ARGUMENTS(...) COLL_ARGUMENTS(ARGUMENT, __VA_ARGS__)
#define MEMBERS(...) COLL_ARGUMENTS(MEMBER, __VA_ARGS__)
/* clang-format on */
#define BLOCKING(name, form, ...)                                                                            \
	ENTRY(name, !pmpi.on, (PARAMETERS form MPI_Comm comm), (ARGUMENTS form comm),                        \
	      MEMBERS form __VA_ARGS__)
#define NONBLOCKING(name, form, ...)                                                                         \
	ENTRY(name, !pmpi.device, (PARAMETERS form MPI_Comm comm, MPI_Request * request),                    \
	      (ARGUMENTS form comm, request), MEMBERS form.request = request, __VA_ARGS__)
#define PERSISTENT(name, form, ...)                                                                          \
	ENTRY(name, !pmpi.device, (PARAMETERS form MPI_Comm comm, MPI_Info info, MPI_Request * request),     \
	      (ARGUMENTS form comm, info, request), MEMBERS form.request = request, .info = info,            \
	      .is_persistent = 1, __VA_ARGS__)

#define COUNT int
#define DISPL int
#define COLLECTIVE(NAME, blocking, nonblocking, SEND, RECV, OP, ROOT, ...)                                   \
	BLOCKING(blocking, (SEND, RECV, OP, ROOT), .function = PMPI_##NAME)                                  \
	NONBLOCKING(nonblocking, (SEND, RECV, OP, ROOT), .function = PMPI_##NAME)
#include "collectives.def"
#undef COLLECTIVE

#if PMPI_HAS_MPI4
#define COLLECTIVE(NAME, blocking, nonblocking, SEND, RECV, OP, ROOT, ...)                                   \
	PERSISTENT(blocking##_init, (SEND, RECV, OP, ROOT), .function = PMPI_##NAME)
#include "collectives.def"
#undef COLLECTIVE
#endif

#if MPI_VERSION >= 4
#undef COUNT
#undef DISPL
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define COLLECTIVE(NAME, blocking, nonblocking, SEND, RECV, OP, ROOT, ...)                                   \
	BLOCKING(blocking##_c, (SEND, RECV, OP, ROOT), .function = PMPI_##NAME, .is_big = 1)                 \
	NONBLOCKING(nonblocking##_c, (SEND, RECV, OP, ROOT), .function = PMPI_##NAME, .is_big = 1)           \
	PERSISTENT(blocking##_init_c, (SEND, RECV, OP, ROOT), .function = PMPI_##NAME, .is_big = 1)
#include "collectives.def"
#endif

PMPI_ENTRY(MPI_Barrier, (MPI_Comm comm), (comm))
{
	if (!pmpi.on || comm == MPI_COMM_NULL)
		return PMPI_Barrier(comm);
	return coll_run(&(struct coll_call){ .function = PMPI_BARRIER, .comm = comm });
}

/* No communicator's call: errors are MPI_COMM_WORLD's. */
static int reduce_local(struct coll_call *call)
{
	call->function = PMPI_REDUCE_LOCAL;
	call->comm = MPI_COMM_WORLD;
	coll_fill(call);
	return coll_run(call);
}

PMPI_ENTRY(MPI_Reduce_local, (const void *send, void *recv, int recvcount, MPI_Datatype recvtype, MPI_Op op),
	   (send, recv, recvcount, recvtype, op))
{
	if (!pmpi.device)
		return PMPI_Reduce_local(send, recv, recvcount, recvtype, op);
	return reduce_local(&(struct coll_call){ MEMBERS(BUFFER, ONE, OP, NO_ROOT) });
}

#if MPI_VERSION >= 4
PMPI_ENTRY(MPI_Reduce_local_c,
	   (const void *send, void *recv, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Op op),
	   (send, recv, recvcount, recvtype, op))
{
	if (!pmpi.device)
		return PMPI_Reduce_local_c(send, recv, recvcount, recvtype, op);
	return reduce_local(&(struct coll_call){ MEMBERS(BUFFER, ONE, OP, NO_ROOT).is_big = 1 });
}
#endif
