/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures between nodes with MPI as the transport.
 * shapes: 2:1 3:2 4:1
 */
#include "ranks_faults.h"

int main(int argc, char **argv)
{
	return ranks_faults_main(argc, argv, "mpi");
}
