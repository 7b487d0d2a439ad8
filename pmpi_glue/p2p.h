/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of point to point, counted. */
#ifndef PMPI_P2P_H
#define PMPI_P2P_H

#include <mpi.h>
#include <stddef.h>

#include "functions.h"

/* Behind a call that MPI has run (ret) as the program made it. Returns ret. */
int pmpi_p2p_passed(enum pmpi_function function, MPI_Count count, MPI_Datatype type, double begin, int ret);
/* Of one that is the door's: routed, or staged. */
void pmpi_p2p_count(enum pmpi_function function, int is_routed, size_t bytes, double begin);

#endif
