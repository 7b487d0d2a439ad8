/* SPDX-License-Identifier: BSD-3-Clause */
/* Begins and ends a test of ranks that MPI starts, and prints what all of them have found. */
#include "test/helpers/ranks.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int rank, size;
static int number, failed;

int ranks_open(int *argc, char ***argv, int level)
{
	const char *expected = getenv("TEST_RANKS");
	int given;
	MPI_Init_thread(argc, argv, level, &given);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (expected && atoi(expected) != size) {
		printf("Bail out! %d ranks, expected %s: another MPI's launcher\n", size, expected);
		exit(1);
	}
	return given;
}

void ranks_report(const char *name, int faults)
{
	int all;
	MPI_Allreduce(&faults, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	failed |= all != 0;
	number++;
	if (rank == 0)
		printf("%s %d - %s\n", all ? "not ok" : "ok", number, name);
	fflush(stdout);
}

int ranks_plan(void)
{
	if (rank == 0)
		printf("1..%d\n", number);
	fflush(stdout);
	return failed;
}

int ranks_close(void)
{
	ranks_plan();
	MPI_Finalize();
	return failed;
}
