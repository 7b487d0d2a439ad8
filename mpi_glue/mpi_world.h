/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs that open a transport by themselves give to it: an all-gather over MPI_COMM_WORLD, and a deaf ear for control messages. */
#ifndef MPI_WORLD_H
#define MPI_WORLD_H

#include <mpi.h>
#include <stddef.h>

#include "corale.h"

/* As corale_bootstrap.allgather; ctx is not looked at. */
static inline int mpi_world_allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	(void)ctx;
	return MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, MPI_COMM_WORLD)
		   ? CORALE_ETRANSPORT
		   : 0;
}

/* As transport_params.on_control. */
static inline void mpi_world_no_control(void *ctx, int peer, const void *message, size_t bytes)
{
	(void)ctx, (void)peer, (void)message, (void)bytes;
}

#endif
