/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that are forgotten: MPI_Finalize comes before corale_comm_destroy, which then finds nothing to do, and a split one dies with
 * the process. Every rank must end with 0. */
#include <corale_mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	float mine = 1, sum = 0;
	corale_comm *comm, *child;
	MPI_Init(&argc, &argv);
	int ret = corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &comm);
	if (!ret)
		ret = corale_comm_split(comm, 0, 0, &child);
	if (!ret)
		ret = corale_all_reduce(&mine, &sum, 1, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	MPI_Finalize();
	if (!ret)
		corale_comm_destroy(comm);
	return ret || sum < 2;
}
