/* The portable transport between nodes: MPI point-to-point on the communicator's own duplicate. */
#ifndef TRANSPORT_MPI_H
#define TRANSPORT_MPI_H

#include <mpi.h>

#include "net/transport.h"

struct transport_mpi_ops {
	struct transport_ops ops; /* first: open gets its address */
	MPI_Comm comm;
};

extern const struct transport_ops transport_mpi;

#endif
