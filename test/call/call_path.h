/* SPDX-License-Identifier: BSD-3-Clause */
/* What call_path.c has of call_path_mpi.c, which is there where an MPI is. */
#ifndef CALL_PATH_H
#define CALL_PATH_H

#include "corale.h"

#define UNTRACED __attribute__((no_instrument_function))

struct call_path_mpi {
	const void *send;
	void *recv;
	int count, rank, size;
	corale_comm *core;
	void *stream;
};
/* MPI_Allreduce */
__attribute__((weak)) int call_path_mpi(const struct call_path_mpi *call);

#endif
