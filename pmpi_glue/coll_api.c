/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's collectives, in all their forms, by the rows of collectives.def, and MPI_Reduce_local, which folds as they do. MPI_Ibarrier has no buffers. */
#include "coll.h"
#include "door.h"

/* ENTRY(MPI_X, what turns the door by, parameters, arguments, the same by a record, its communicator, members of the record...) defines MPI_X. */
#define ENTRY(name, is_off, parameters, arguments, passed, of, ...)                                          \
	static int call_##name(const struct coll_call *call)                                                 \
	{                                                                                                    \
		return P##name passed;                                                                       \
	}                                                                                                    \
	PMPI_ENTRY(name, parameters, arguments)                                                              \
	{                                                                                                    \
		if (is_off || of == MPI_COMM_NULL)                                                           \
			return P##name arguments;                                                            \
		struct coll_call call = { .mpi = call_##name, .comm = of, __VA_ARGS__ };                     \
		coll_fill(&call);                                                                            \
		return coll_run(&call);                                                                      \
	}

/* form: (sides, operator, root) of a row. */
/* clang-format off */
#define PARAMETER(type, name, member) type name,
#define ARGUMENT(type, name, member) name,
#define PASSED(type, name, member) (type)call->member,
#define MEMBER(type, name, member) .member = name,
#define PARAMETERS(...) COLL_ARGUMENTS(PARAMETER, __VA_ARGS__)
#define ARGUMENTS(...) COLL_ARGUMENTS(ARGUMENT, __VA_ARGS__)
#define PASSED_OF(...) COLL_ARGUMENTS(PASSED, __VA_ARGS__)
#define MEMBERS(...) COLL_ARGUMENTS(MEMBER, __VA_ARGS__)
/* clang-format on */
#define BLOCKING(name, form, ...)                                                                            \
	ENTRY(name, !pmpi.on, (PARAMETERS form MPI_Comm comm), (ARGUMENTS form comm),                        \
	      (PASSED_OF form call->comm), comm, MEMBERS form __VA_ARGS__)
#define NONBLOCKING(name, form, ...)                                                                         \
	ENTRY(name, !pmpi.device, (PARAMETERS form MPI_Comm comm, MPI_Request * request),                    \
	      (ARGUMENTS form comm, request), (PASSED_OF form call->comm, call->request), comm,              \
	      MEMBERS form.request = request, __VA_ARGS__)
#define PERSISTENT(name, form, ...)                                                                          \
	ENTRY(name, !pmpi.device, (PARAMETERS form MPI_Comm comm, MPI_Info info, MPI_Request * request),     \
	      (ARGUMENTS form comm, info, request), (PASSED_OF form call->comm, call->info, call->request),  \
	      comm, MEMBERS form.request = request, .info = info, .is_persistent = 1, __VA_ARGS__)

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

static int call_barrier(const struct coll_call *call)
{
	return PMPI_Barrier(call->comm);
}

PMPI_ENTRY(MPI_Barrier, (MPI_Comm comm), (comm))
{
	if (!pmpi.on || comm == MPI_COMM_NULL)
		return PMPI_Barrier(comm);
	return coll_run(&(struct coll_call){ .function = PMPI_BARRIER, .mpi = call_barrier, .comm = comm });
}

/* No communicator's call: errors are MPI_COMM_WORLD's. */
#define REDUCE_LOCAL(name, COUNT, ...)                                                                       \
	ENTRY(name, !pmpi.device,                                                                            \
	      (const void *send, void *recv, COUNT recvcount, MPI_Datatype recvtype, MPI_Op op),             \
	      (send, recv, recvcount, recvtype, op),                                                         \
	      (call->send.at, (void *)call->recv.at, (COUNT)call->recv.count, call->recv.type, call->op),    \
	      MPI_COMM_WORLD, MEMBERS(BUFFER, ONE, OP, NO_ROOT).function = PMPI_REDUCE_LOCAL, __VA_ARGS__)
REDUCE_LOCAL(MPI_Reduce_local, int, .is_big = 0)
#if MPI_VERSION >= 4
REDUCE_LOCAL(MPI_Reduce_local_c, MPI_Count, .is_big = 1)
#endif
