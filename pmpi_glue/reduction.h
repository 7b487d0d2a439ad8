/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's predefined types and operators that Corale has. */
#ifndef PMPI_REDUCTION_H
#define PMPI_REDUCTION_H

#include <mpi.h>

#include "corale.h"

/* 1: Corale has a reduction of this type by this operator. Ranks pass the same ones, so the answer is alike on all. */
int pmpi_reduction_find(MPI_Datatype type, MPI_Op op, corale_type *corale_type_out, corale_op *corale_op_out);

#endif
