/* Non-blocking collectives: Fortran's entries. */
#include "fortran.h"

#ifdef OPEN_MPI

#define AT(buffer) fortran_address(buffer)

/* call makes the request `made`. */
#define FORTRAN_REQUEST(name, NAME, parameters, call)                                                        \
	PMPI_EXPORT void ompi_##name##_f FORTRAN_PARAMETERS parameters;                                      \
	void ompi_##name##_f FORTRAN_PARAMETERS parameters                                                   \
	{                                                                                                    \
		MPI_Request made = MPI_REQUEST_NULL;                                                         \
		const int error = (call);                                                                    \
		if (!error)                                                                                  \
			*request = PMPI_Request_c2f(made);                                                   \
		if (ierr)                                                                                    \
			*ierr = error;                                                                       \
	}                                                                                                    \
	FORTRAN_ALIASES(name, NAME, parameters)

/* clang-format off */
FORTRAN_REQUEST(ibcast, IBCAST, (void *buffer, int *count, int *type, int *root, int *comm, int *request),
		MPI_Ibcast(AT(buffer), *count, F_TYPE(type), *root, F_COMM(comm), &made))
FORTRAN_REQUEST(ireduce, IREDUCE, (void *send, void *recv, int *count, int *type, int *op, int *root, int *comm, int *request),
		MPI_Ireduce(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), *root, F_COMM(comm), &made))
FORTRAN_REQUEST(iallreduce, IALLREDUCE, (void *send, void *recv, int *count, int *type, int *op, int *comm, int *request),
		MPI_Iallreduce(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm), &made))
FORTRAN_REQUEST(iscan, ISCAN, (void *send, void *recv, int *count, int *type, int *op, int *comm, int *request),
		MPI_Iscan(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm), &made))
FORTRAN_REQUEST(iexscan, IEXSCAN, (void *send, void *recv, int *count, int *type, int *op, int *comm, int *request),
		MPI_Iexscan(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm), &made))
FORTRAN_REQUEST(ireduce_scatter, IREDUCE_SCATTER, (void *send, void *recv, int *counts, int *type, int *op, int *comm, int *request),
		MPI_Ireduce_scatter(AT(send), AT(recv), counts, F_TYPE(type), F_OP(op), F_COMM(comm), &made))
FORTRAN_REQUEST(ireduce_scatter_block, IREDUCE_SCATTER_BLOCK, (void *send, void *recv, int *count, int *type, int *op, int *comm, int *request),
		MPI_Ireduce_scatter_block(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm), &made))
FORTRAN_REQUEST(iallgather, IALLGATHER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm, int *request),
		MPI_Iallgather(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(iallgatherv, IALLGATHERV, (void *send, int *ns, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm, int *request),
		MPI_Iallgatherv(AT(send), *ns, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(igather, IGATHER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *root, int *comm, int *request),
		MPI_Igather(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), *root, F_COMM(comm), &made))
FORTRAN_REQUEST(igatherv, IGATHERV, (void *send, int *ns, int *ts, void *recv, int *nr, int *dr, int *tr, int *root, int *comm, int *request),
		MPI_Igatherv(AT(send), *ns, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), *root, F_COMM(comm), &made))
FORTRAN_REQUEST(iscatter, ISCATTER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *root, int *comm, int *request),
		MPI_Iscatter(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), *root, F_COMM(comm), &made))
FORTRAN_REQUEST(iscatterv, ISCATTERV, (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *tr, int *root, int *comm, int *request),
		MPI_Iscatterv(AT(send), ns, ds, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), *root, F_COMM(comm), &made))
FORTRAN_REQUEST(ialltoall, IALLTOALL, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm, int *request),
		MPI_Ialltoall(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(ialltoallv, IALLTOALLV, (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm, int *request),
		MPI_Ialltoallv(AT(send), ns, ds, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(ineighbor_allgather, INEIGHBOR_ALLGATHER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm, int *request),
		MPI_Ineighbor_allgather(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(ineighbor_allgatherv, INEIGHBOR_ALLGATHERV, (void *send, int *ns, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm, int *request),
		MPI_Ineighbor_allgatherv(AT(send), *ns, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(ineighbor_alltoall, INEIGHBOR_ALLTOALL, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm, int *request),
		MPI_Ineighbor_alltoall(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm), &made))
FORTRAN_REQUEST(ineighbor_alltoallv, INEIGHBOR_ALLTOALLV, (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm, int *request),
		MPI_Ineighbor_alltoallv(AT(send), ns, ds, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm), &made))
/* clang-format on */

#endif
