/* Blocking collectives, MPI_Init_thread: Fortran's entries. */
#include <stdlib.h>

#include "fortran.h"

#ifdef OPEN_MPI

#define AT(buffer) fortran_address(buffer)

/* clang-format off */
FORTRAN_ENTRY(barrier, BARRIER, (int *comm), MPI_Barrier(F_COMM(comm)))
FORTRAN_ENTRY(bcast, BCAST, (void *buffer, int *count, int *type, int *root, int *comm),
	      MPI_Bcast(AT(buffer), *count, F_TYPE(type), *root, F_COMM(comm)))
FORTRAN_ENTRY(reduce, REDUCE, (void *send, void *recv, int *count, int *type, int *op, int *root, int *comm),
	      MPI_Reduce(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), *root, F_COMM(comm)))
FORTRAN_ENTRY(allreduce, ALLREDUCE, (void *send, void *recv, int *count, int *type, int *op, int *comm),
	      MPI_Allreduce(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm)))
FORTRAN_ENTRY(scan, SCAN, (void *send, void *recv, int *count, int *type, int *op, int *comm),
	      MPI_Scan(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm)))
FORTRAN_ENTRY(exscan, EXSCAN, (void *send, void *recv, int *count, int *type, int *op, int *comm),
	      MPI_Exscan(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm)))
FORTRAN_ENTRY(reduce_scatter, REDUCE_SCATTER, (void *send, void *recv, int *counts, int *type, int *op, int *comm),
	      MPI_Reduce_scatter(AT(send), AT(recv), counts, F_TYPE(type), F_OP(op), F_COMM(comm)))
FORTRAN_ENTRY(reduce_scatter_block, REDUCE_SCATTER_BLOCK, (void *send, void *recv, int *count, int *type, int *op, int *comm),
	      MPI_Reduce_scatter_block(AT(send), AT(recv), *count, F_TYPE(type), F_OP(op), F_COMM(comm)))
FORTRAN_ENTRY(allgather, ALLGATHER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm),
	      MPI_Allgather(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(allgatherv, ALLGATHERV, (void *send, int *ns, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm),
	      MPI_Allgatherv(AT(send), *ns, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(gather, GATHER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *root, int *comm),
	      MPI_Gather(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), *root, F_COMM(comm)))
FORTRAN_ENTRY(gatherv, GATHERV, (void *send, int *ns, int *ts, void *recv, int *nr, int *dr, int *tr, int *root, int *comm),
	      MPI_Gatherv(AT(send), *ns, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), *root, F_COMM(comm)))
FORTRAN_ENTRY(scatter, SCATTER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *root, int *comm),
	      MPI_Scatter(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), *root, F_COMM(comm)))
FORTRAN_ENTRY(scatterv, SCATTERV, (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *tr, int *root, int *comm),
	      MPI_Scatterv(AT(send), ns, ds, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), *root, F_COMM(comm)))
FORTRAN_ENTRY(alltoall, ALLTOALL, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm),
	      MPI_Alltoall(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(alltoallv, ALLTOALLV, (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm),
	      MPI_Alltoallv(AT(send), ns, ds, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(neighbor_allgather, NEIGHBOR_ALLGATHER, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm),
	      MPI_Neighbor_allgather(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(neighbor_allgatherv, NEIGHBOR_ALLGATHERV, (void *send, int *ns, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm),
	      MPI_Neighbor_allgatherv(AT(send), *ns, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(neighbor_alltoall, NEIGHBOR_ALLTOALL, (void *send, int *ns, int *ts, void *recv, int *nr, int *tr, int *comm),
	      MPI_Neighbor_alltoall(AT(send), *ns, F_TYPE(ts), AT(recv), *nr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(neighbor_alltoallv, NEIGHBOR_ALLTOALLV, (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm),
	      MPI_Neighbor_alltoallv(AT(send), ns, ds, F_TYPE(ts), AT(recv), nr, dr, F_TYPE(tr), F_COMM(comm)))
FORTRAN_ENTRY(reduce_local, REDUCE_LOCAL, (void *in, void *inout, int *count, int *type, int *op),
	      MPI_Reduce_local(AT(in), AT(inout), *count, F_TYPE(type), F_OP(op)))
FORTRAN_ENTRY(init_thread, INIT_THREAD, (int *required, int *provided), MPI_Init_thread(NULL, NULL, *required, provided))
/* clang-format on */

/* A type for each block. */
static MPI_Datatype *types_of(const int *types, int n)
{
	MPI_Datatype *found = malloc(sizeof *found * (size_t)(n > 0 ? n : 1));
	for (int i = 0; found && i < n; i++)
		found[i] = PMPI_Type_f2c(types[i]);
	return found;
}

static int all_to_all_w(void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *dr, int *tr,
			MPI_Comm comm)
{
	int n = 0, is_inter = 0, error = MPI_ERR_NO_MEM;
	PMPI_Comm_test_inter(comm, &is_inter);
	if (is_inter)
		PMPI_Comm_remote_size(comm, &n);
	else
		PMPI_Comm_size(comm, &n);
	const int sends = AT(send) != MPI_IN_PLACE; /* else its other arguments are not looked at */
	MPI_Datatype *from = types_of(ts, sends ? n : 0), *to = types_of(tr, n);
	if (from && to)
		error = MPI_Alltoallw(AT(send), ns, ds, from, AT(recv), nr, dr, to, comm);
	free(from);
	free(to);
	return error;
}

FORTRAN_ENTRY(alltoallw, ALLTOALLW,
	      (void *send, int *ns, int *ds, int *ts, void *recv, int *nr, int *dr, int *tr, int *comm),
	      all_to_all_w(send, ns, ds, ts, recv, nr, dr, tr, F_COMM(comm)))

/* Without other parameters than ierr. */
#define FORTRAN_START_OR_END(name, NAME, call)                                                               \
	PMPI_EXPORT void ompi_##name##_f(int *ierr);                                                         \
	void ompi_##name##_f(int *ierr)                                                                      \
	{                                                                                                    \
		const int error = (call);                                                                    \
		if (ierr)                                                                                    \
			*ierr = error;                                                                       \
	}                                                                                                    \
	PMPI_EXPORT void mpi_##name(int *ierr) __attribute__((alias("ompi_" #name "_f")));                   \
	PMPI_EXPORT void mpi_##name##_(int *ierr) __attribute__((alias("ompi_" #name "_f")));                \
	PMPI_EXPORT void mpi_##name##__(int *ierr) __attribute__((alias("ompi_" #name "_f")));               \
	PMPI_EXPORT void MPI_##NAME(int *ierr) __attribute__((alias("ompi_" #name "_f")));

FORTRAN_START_OR_END(init, INIT, MPI_Init(NULL, NULL))
FORTRAN_START_OR_END(finalize, FINALIZE, MPI_Finalize())

#else

/* MPICH's mpi_f08 calls MPI_ functions, but for these. ierr is NULL where the program leaves it out. */
static void say(int *ierr, int error)
{
	if (ierr)
		*ierr = error;
}

PMPI_EXPORT void mpi_init_f08_(int *ierr);
void mpi_init_f08_(int *ierr)
{
	say(ierr, MPI_Init(NULL, NULL));
}

PMPI_EXPORT void mpi_init_thread_f08_(int *required, int *provided, int *ierr);
void mpi_init_thread_f08_(int *required, int *provided, int *ierr)
{
	say(ierr, MPI_Init_thread(NULL, NULL, *required, provided));
}

PMPI_EXPORT void mpi_finalize_f08_(int *ierr);
void mpi_finalize_f08_(int *ierr)
{
	say(ierr, MPI_Finalize());
}

#endif
