/* SPDX-License-Identifier: BSD-3-Clause */
/* The portable transport between nodes: MPI point-to-point on the communicator's own duplicate. */
#ifndef TRANSPORT_MPI_H
#define TRANSPORT_MPI_H

#include <mpi.h>

#include "net/transport.h"

/* For communicators that were made over comm. */
struct transport_mpi_row {
	struct transport_row row; /* first: probe and open get its address */
	MPI_Comm comm;
	_Atomic unsigned char
	    *partners; /* [rank of comm]: 1 once a transport exchanges messages with it; NULL: not noted */
};

struct transport_mpi_row transport_mpi(MPI_Comm comm, _Atomic unsigned char *partners);

#endif
