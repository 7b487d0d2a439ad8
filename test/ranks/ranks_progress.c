/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Legal programs in which a rank waits in Corale for one that waits for MPI's progress here: they end because Corale's waits call MPI
 * (corale_set_progress). Without it the first one ends at the deadline.
 * shapes: 2:0 4:2
 */
#include <stdio.h>
#include <stdlib.h>

#include "corale_mpi.h"
#include "test/helpers/ranks.h"

enum { COUNT = 1 << 20 }; /* of int: MPI sends them by rendezvous */

static int *out, *in; /* COUNT each */
static corale_comm *comm;

static void progress(void *ctx)
{
	int found;
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

static int barrier(void)
{
	return corale_barrier(comm, NULL) != 0;
}

static int reduces(void)
{
	int mine = rank, sum = -1,
	    ret = corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
	return ret || sum != size * (size - 1) / 2;
}

/* Rank 0 has begun to send when it waits in Corale for rank 1, which receives first. */
static int isend_then_barrier(void)
{
	MPI_Request request;
	int fault = 0;
	if (rank == 0)
		MPI_Isend(out, COUNT, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
	if (rank == 1)
		MPI_Recv(in, COUNT, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	fault |= barrier();
	if (rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	return fault || (rank == 1 && in[COUNT - 1] != 0);
}

static int irecv_then_all_reduce(void)
{
	MPI_Request request;
	int fault = 0;
	if (rank == 0)
		MPI_Irecv(in, COUNT, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
	if (rank == 1)
		MPI_Send(out, COUNT, MPI_INT, 0, 0, MPI_COMM_WORLD);
	fault |= reduces();
	if (rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	return fault || (rank == 0 && in[COUNT - 1] != 1);
}

/* Rank 0 leaves the collective of MPI for later; all others end it before they come. */
static int iallreduce_then_all_reduce(void)
{
	MPI_Request request;
	int fault;
	MPI_Iallreduce(out, in, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	if (rank)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	fault = reduces();
	if (rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	return fault || in[COUNT - 1] != size * (size - 1) / 2;
}

static int ibcast_on_another(void)
{
	MPI_Request request;
	MPI_Comm other;
	int fault;
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Ibcast(rank ? in : out, COUNT, MPI_INT, 0, other, &request);
	if (rank)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	fault = barrier();
	if (rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Comm_free(&other);
	return fault || (rank && in[COUNT - 1] != 0);
}

static int accumulate_to_one_in_barrier(void)
{
	MPI_Win window;
	int fault;
	for (int i = 0; i < COUNT; i++)
		in[i] = 5;
	MPI_Win_create(in, (MPI_Aint)(COUNT * sizeof *in), sizeof *in, MPI_INFO_NULL, MPI_COMM_WORLD,
		       &window);
	if (rank == 1) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
		MPI_Accumulate(out, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, MPI_SUM, window);
		MPI_Win_unlock(0, window);
	}
	fault = barrier();
	MPI_Win_free(&window);
	return fault || (rank == 0 && in[COUNT - 1] != 6);
}

int main(int argc, char **argv)
{
	corale_config config;
	corale_config_init(&config);
	config.timeout_seconds = 20;
	ranks_open(&argc, &argv, MPI_THREAD_SINGLE);
	out = malloc(COUNT * sizeof *out);
	in = malloc(COUNT * sizeof *in);
	corale_set_progress(progress, NULL);
	if (!out || !in || corale_comm_create_mpi(MPI_COMM_WORLD, &config, &comm))
		return 1;
	for (int i = 0; i < COUNT; i++)
		out[i] = rank;
	ranks_report("MPI_Isend, then corale_barrier", isend_then_barrier());
	ranks_report("MPI_Irecv, then corale_all_reduce", irecv_then_all_reduce());
	ranks_report("MPI_Iallreduce, then corale_all_reduce", iallreduce_then_all_reduce());
	ranks_report("MPI_Ibcast on another communicator, then corale_barrier", ibcast_on_another());
	ranks_report("MPI_Accumulate to a rank in corale_barrier", accumulate_to_one_in_barrier());
	corale_comm_destroy(comm);
	free(out);
	free(in);
	return ranks_close();
}
