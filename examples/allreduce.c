/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest program: every rank contributes its number, every rank gets the sum. */
#include <stdio.h>

#include <corale_mpi.h>

#include "about.h"

static const char usage[] = "usage: mpirun -n RANKS allreduce [--help | --version]\n"
			    "Every rank prints the sum of what all ranks contributed.";

int main(int argc, char **argv)
{
	int level, rank, ret;
	float sum[4] = { 0 };
	corale_comm *comm;

	if (about(argc, argv, usage))
		return 0;
	if (argc > 1)
		return fprintf(stderr, "%s\n", usage) < 0 ? 1 : 2;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	ret = corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &comm);
	if (ret)
		MPI_Abort(MPI_COMM_WORLD, 1); /* the library has said why */
	rank = corale_comm_rank(comm);
	for (int i = 0; i < 4; i++)
		sum[i] = (float)(rank + i);
	ret = corale_all_reduce(sum, sum, 4, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	printf("rank %d: %s: %g %g %g %g\n", rank, corale_strerror(ret), sum[0], sum[1], sum[2], sum[3]);
	corale_comm_destroy(comm);
	MPI_Finalize();
	return ret != 0;
}
