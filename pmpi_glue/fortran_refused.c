/*
 * What refused.c refuses, for programs of Fortran with Open MPI, whose bindings call PMPI_ functions of C; and functions that
 * have no entries that stage: non-blocking and neighbour forms of Alltoallw, persistent collectives and MPI_Isendrecv of Open MPI 5. A call without device buffers goes to Open MPI's own entry, whose arguments are a1, a2 ... and ierr.
 */
#include <stddef.h>

#include "fortran.h"
#include "refused.h"

#ifdef OPEN_MPI

#define A1 void *a1
#define A2 A1, void *a2
#define A3 A2, void *a3
#define A4 A3, void *a4
#define A5 A4, void *a5
#define A6 A5, void *a6
#define A7 A6, void *a7
#define A8 A7, void *a8
#define A9 A8, void *a9
#define A10 A9, void *a10
#define A11 A10, void *a11
#define A12 A11, void *a12
#define A13 A12, void *a13
#define B1 a1
#define B2 B1, a2
#define B3 B2, a3
#define B4 B3, a4
#define B5 B4, a5
#define B6 B5, a6
#define B7 B6, a7
#define B8 B7, a8
#define B9 B8, a9
#define B10 B9, a10
#define B11 B10, a11
#define B12 B11, a12
#define B13 B12, a13

#define F_WINDOW(window) PMPI_Win_f2c(*(int *)(window))
#define F_FILE(file) PMPI_File_f2c(*(int *)(file))
#define F_BLOCK(buffer, count, type)                                                                         \
	USED(fortran_address(buffer), *(int *)(count), PMPI_Type_f2c(*(int *)(type)))
#define F_ONE(buffer, type) USED(fortran_address(buffer), 1, PMPI_Type_f2c(*(int *)(type)))
#define F_BYTES(buffer, bytes) USED(fortran_address(buffer), bytes, MPI_BYTE)

/* parameters, arguments: those of Fortran. kind, of: whose error handler is called. */
#define REFUSED_AS(name, NAME, function, parameters, arguments, kind, of, used, other)                       \
	extern void pmpi_##name##_ parameters __attribute__((weak));                                         \
	PMPI_EXPORT void ompi_##name##_f parameters;                                                         \
	void ompi_##name##_f parameters                                                                      \
	{                                                                                                    \
		const void *device = pmpi_refused_buffer(used, other);                                       \
		if (!device) {                                                                               \
			pmpi_##name##_ arguments;                                                            \
			return;                                                                              \
		}                                                                                            \
		const int error = pmpi_refuse_for_##kind(function, device, of);                              \
		if (ierr)                                                                                    \
			*ierr = error;                                                                       \
	}                                                                                                    \
	FORTRAN_SPELLINGS(name, NAME, parameters)

/* n: the number of arguments before ierr. */
#define REFUSED(name, NAME, function, n, kind, of, used, other)                                              \
	REFUSED_AS(name, NAME, function, (A##n, int *ierr), (B##n, ierr), kind, of, used, other)

/* The last argument is the length of the first one, a string. */
#define REFUSED_STRING(name, NAME, function, n, kind, of, used, other)                                       \
	REFUSED_AS(name, NAME, function, (A##n, int *ierr, size_t length), (B##n, ierr, length), kind, of,   \
		   used, other)

/* clang-format off */
REFUSED(buffer_attach, BUFFER_ATTACH, "MPI_Buffer_attach", 2, comm, MPI_COMM_WORLD, F_BYTES(a1, *(int *)a2), NO_OTHER)
REFUSED(pack, PACK, "MPI_Pack", 7, comm, F_COMM((int *)a7), F_BLOCK(a1, a2, a3), F_BYTES(a4, *(int *)a5))
REFUSED(unpack, UNPACK, "MPI_Unpack", 7, comm, F_COMM((int *)a7), F_BYTES(a1, *(int *)a2), F_BLOCK(a4, a5, a6))
REFUSED_STRING(pack_external, PACK_EXTERNAL, "MPI_Pack_external", 7, comm, MPI_COMM_WORLD, F_BLOCK(a2, a3, a4), F_BYTES(a5, *(MPI_Aint *)a6))
REFUSED_STRING(unpack_external, UNPACK_EXTERNAL, "MPI_Unpack_external", 7, comm, MPI_COMM_WORLD, F_BYTES(a2, *(MPI_Aint *)a3), F_BLOCK(a5, a6, a7))

REFUSED(win_attach, WIN_ATTACH, "MPI_Win_attach", 3, window, F_WINDOW(a1), F_BYTES(a2, *(MPI_Aint *)a3), NO_OTHER)
REFUSED(put, PUT, "MPI_Put", 8, window, F_WINDOW(a8), F_BLOCK(a1, a2, a3), NO_OTHER)
REFUSED(get, GET, "MPI_Get", 8, window, F_WINDOW(a8), F_BLOCK(a1, a2, a3), NO_OTHER)
REFUSED(accumulate, ACCUMULATE, "MPI_Accumulate", 9, window, F_WINDOW(a9), F_BLOCK(a1, a2, a3), NO_OTHER)
REFUSED(rput, RPUT, "MPI_Rput", 9, window, F_WINDOW(a8), F_BLOCK(a1, a2, a3), NO_OTHER)
REFUSED(rget, RGET, "MPI_Rget", 9, window, F_WINDOW(a8), F_BLOCK(a1, a2, a3), NO_OTHER)
REFUSED(raccumulate, RACCUMULATE, "MPI_Raccumulate", 10, window, F_WINDOW(a9), F_BLOCK(a1, a2, a3), NO_OTHER)
REFUSED(get_accumulate, GET_ACCUMULATE, "MPI_Get_accumulate", 12, window, F_WINDOW(a12), F_BLOCK(a1, a2, a3), F_BLOCK(a4, a5, a6))
REFUSED(rget_accumulate, RGET_ACCUMULATE, "MPI_Rget_accumulate", 13, window, F_WINDOW(a12), F_BLOCK(a1, a2, a3), F_BLOCK(a4, a5, a6))
REFUSED(fetch_and_op, FETCH_AND_OP, "MPI_Fetch_and_op", 7, window, F_WINDOW(a7), F_ONE(a1, a3), F_ONE(a2, a3))
REFUSED(compare_and_swap, COMPARE_AND_SWAP, "MPI_Compare_and_swap", 7, window, F_WINDOW(a7), F_ONE(a1, a4), F_ONE(a3, a4))

REFUSED(file_read, FILE_READ, "MPI_File_read", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_read_all, FILE_READ_ALL, "MPI_File_read_all", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_read_shared, FILE_READ_SHARED, "MPI_File_read_shared", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_read_ordered, FILE_READ_ORDERED, "MPI_File_read_ordered", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_read_at, FILE_READ_AT, "MPI_File_read_at", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_read_at_all, FILE_READ_AT_ALL, "MPI_File_read_at_all", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_iread, FILE_IREAD, "MPI_File_iread", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_iread_all, FILE_IREAD_ALL, "MPI_File_iread_all", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_iread_shared, FILE_IREAD_SHARED, "MPI_File_iread_shared", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_iread_at, FILE_IREAD_AT, "MPI_File_iread_at", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_iread_at_all, FILE_IREAD_AT_ALL, "MPI_File_iread_at_all", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_read_all_begin, FILE_READ_ALL_BEGIN, "MPI_File_read_all_begin", 4, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_read_ordered_begin, FILE_READ_ORDERED_BEGIN, "MPI_File_read_ordered_begin", 4, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_read_at_all_begin, FILE_READ_AT_ALL_BEGIN, "MPI_File_read_at_all_begin", 5, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_write, FILE_WRITE, "MPI_File_write", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_write_all, FILE_WRITE_ALL, "MPI_File_write_all", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_write_shared, FILE_WRITE_SHARED, "MPI_File_write_shared", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_write_ordered, FILE_WRITE_ORDERED, "MPI_File_write_ordered", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_write_at, FILE_WRITE_AT, "MPI_File_write_at", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_write_at_all, FILE_WRITE_AT_ALL, "MPI_File_write_at_all", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_iwrite, FILE_IWRITE, "MPI_File_iwrite", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_iwrite_all, FILE_IWRITE_ALL, "MPI_File_iwrite_all", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_iwrite_shared, FILE_IWRITE_SHARED, "MPI_File_iwrite_shared", 5, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_iwrite_at, FILE_IWRITE_AT, "MPI_File_iwrite_at", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_iwrite_at_all, FILE_IWRITE_AT_ALL, "MPI_File_iwrite_at_all", 6, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)
REFUSED(file_write_all_begin, FILE_WRITE_ALL_BEGIN, "MPI_File_write_all_begin", 4, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_write_ordered_begin, FILE_WRITE_ORDERED_BEGIN, "MPI_File_write_ordered_begin", 4, file, F_FILE(a1), F_BLOCK(a2, a3, a4), NO_OTHER)
REFUSED(file_write_at_all_begin, FILE_WRITE_AT_ALL_BEGIN, "MPI_File_write_at_all_begin", 5, file, F_FILE(a1), F_BLOCK(a3, a4, a5), NO_OTHER)

REFUSED(ialltoallw, IALLTOALLW, "MPI_Ialltoallw", 10, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(neighbor_alltoallw, NEIGHBOR_ALLTOALLW, "MPI_Neighbor_alltoallw", 9, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(ineighbor_alltoallw, INEIGHBOR_ALLTOALLW, "MPI_Ineighbor_alltoallw", 10, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))

#if PMPI_HAS_MPI4
REFUSED(bcast_init, BCAST_INIT, "MPI_Bcast_init", 7, comm, F_COMM((int *)a5), F_BYTES(a1, 1), NO_OTHER)
REFUSED(allreduce_init, ALLREDUCE_INIT, "MPI_Allreduce_init", 8, comm, F_COMM((int *)a6), F_BYTES(a1, 1), F_BYTES(a2, 1))
REFUSED(scan_init, SCAN_INIT, "MPI_Scan_init", 8, comm, F_COMM((int *)a6), F_BYTES(a1, 1), F_BYTES(a2, 1))
REFUSED(exscan_init, EXSCAN_INIT, "MPI_Exscan_init", 8, comm, F_COMM((int *)a6), F_BYTES(a1, 1), F_BYTES(a2, 1))
REFUSED(reduce_scatter_block_init, REDUCE_SCATTER_BLOCK_INIT, "MPI_Reduce_scatter_block_init", 8, comm, F_COMM((int *)a6), F_BYTES(a1, 1), F_BYTES(a2, 1))
REFUSED(reduce_scatter_init, REDUCE_SCATTER_INIT, "MPI_Reduce_scatter_init", 8, comm, F_COMM((int *)a6), F_BYTES(a1, 1), F_BYTES(a2, 1))
REFUSED(reduce_init, REDUCE_INIT, "MPI_Reduce_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), F_BYTES(a2, 1))
REFUSED(allgather_init, ALLGATHER_INIT, "MPI_Allgather_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(allgatherv_init, ALLGATHERV_INIT, "MPI_Allgatherv_init", 10, comm, F_COMM((int *)a8), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(alltoall_init, ALLTOALL_INIT, "MPI_Alltoall_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(alltoallv_init, ALLTOALLV_INIT, "MPI_Alltoallv_init", 11, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(alltoallw_init, ALLTOALLW_INIT, "MPI_Alltoallw_init", 11, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(neighbor_allgather_init, NEIGHBOR_ALLGATHER_INIT, "MPI_Neighbor_allgather_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(neighbor_allgatherv_init, NEIGHBOR_ALLGATHERV_INIT, "MPI_Neighbor_allgatherv_init", 10, comm, F_COMM((int *)a8), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(neighbor_alltoall_init, NEIGHBOR_ALLTOALL_INIT, "MPI_Neighbor_alltoall_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(neighbor_alltoallv_init, NEIGHBOR_ALLTOALLV_INIT, "MPI_Neighbor_alltoallv_init", 11, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(neighbor_alltoallw_init, NEIGHBOR_ALLTOALLW_INIT, "MPI_Neighbor_alltoallw_init", 11, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(gather_init, GATHER_INIT, "MPI_Gather_init", 10, comm, F_COMM((int *)a8), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(gatherv_init, GATHERV_INIT, "MPI_Gatherv_init", 11, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(scatter_init, SCATTER_INIT, "MPI_Scatter_init", 10, comm, F_COMM((int *)a8), F_BYTES(a1, 1), F_BYTES(a4, 1))
REFUSED(scatterv_init, SCATTERV_INIT, "MPI_Scatterv_init", 11, comm, F_COMM((int *)a9), F_BYTES(a1, 1), F_BYTES(a5, 1))
REFUSED(isendrecv, ISENDRECV, "MPI_Isendrecv", 12, comm, F_COMM((int *)a11), F_BYTES(a1, 1), F_BYTES(a6, 1))
REFUSED(isendrecv_replace, ISENDRECV_REPLACE, "MPI_Isendrecv_replace", 9, comm, F_COMM((int *)a8), F_BYTES(a1, 1), NO_OTHER)
REFUSED(psend_init, PSEND_INIT, "MPI_Psend_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), NO_OTHER)
REFUSED(precv_init, PRECV_INIT, "MPI_Precv_init", 9, comm, F_COMM((int *)a7), F_BYTES(a1, 1), NO_OTHER)
#endif
/* clang-format on */

/* All ranks make a window, so MPI_Win_create takes part without the memory that it refuses. */
static int create_window(void *base, MPI_Aint bytes, int unit, int *info, int *comm, int *window)
{
	MPI_Win made = MPI_WIN_NULL;
	const int error =
	    MPI_Win_create(fortran_address(base), bytes, unit, PMPI_Info_f2c(*info), F_COMM(comm), &made);
	if (made != MPI_WIN_NULL)
		*window = PMPI_Win_c2f(made);
	return error;
}

FORTRAN_ENTRY(win_create, WIN_CREATE,
	      (void *base, MPI_Aint *bytes, int *unit, int *info, int *comm, int *window),
	      create_window(base, *bytes, *unit, info, comm, window))

#endif
