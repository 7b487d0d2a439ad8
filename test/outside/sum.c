/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of MPI alone, for corale-run --mpi: prints twice the number of ranks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	double mine = 2, sum;
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("%g\n", sum);
	MPI_Finalize();
	return 0;
}
