/* SPDX-License-Identifier: BSD-3-Clause */
/* Refusal of device buffers by functions that are not staged: a log line, and the error handler is called with MPI_ERR_BUFFER, which is returned. */
#ifndef PMPI_REFUSED_H
#define PMPI_REFUSED_H

#include <mpi.h>

/* A buffer of a call. */
struct used {
	const void *buffer;
	MPI_Count count;
	MPI_Datatype type;
};
#define USED(buffer, count, type) ((struct used){ buffer, count, type })
#define NO_OTHER USED(NULL, 0, MPI_BYTE)

/* That of both which is in device memory; NULL: neither. */
const void *pmpi_refused_buffer(struct used a, struct used b);

int pmpi_refuse_for_comm(const char *function, const void *buffer, MPI_Comm comm);
int pmpi_refuse_for_window(const char *function, const void *buffer, MPI_Win window);
int pmpi_refuse_for_file(const char *function, const void *buffer, MPI_File file);

#endif
