/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which levels of MPI's threads let a thread of Corale's carry messages of GPUs: MPI_THREAD_MULTIPLE alone, and on all ranks. Here rank 1 asks MPI
 * for less than the others do.
 * shapes: 2:0 3:0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "comm/comm_create.h"
#include "mpi_thread.h"
#include "mpi_world.h"
#include "test/helpers/ranks.h"
#include "transport_mpi.h"

static int cuda_support;

/* In place of MPI's own. */
int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void)
{
	return cuda_support;
}

static void report(const char *name, int good)
{
	if (!good)
		fprintf(stderr, "# rank %d: %s: %s\n", rank, name, log_last_error());
	ranks_report(name, !good);
}

static int refuses(int level, int calls_cuda, const char *word)
{
	char text[COMM_ERROR_BYTES / 2] = "";
	return !mpi_thread_check(level, calls_cuda, text, sizeof text) && strstr(text, word) &&
	       strstr(text, "build with UCX") && strlen(text) < sizeof text - 1;
}

static void decisions(void)
{
	char text[8] = "";
	report("only MPI_THREAD_MULTIPLE will do, of an MPI that does not call CUDA",
	       refuses(MPI_THREAD_SINGLE, 0, "gave MPI_THREAD_SINGLE,") &&
		   refuses(MPI_THREAD_FUNNELED, 0, "gave MPI_THREAD_FUNNELED,") &&
		   refuses(MPI_THREAD_SERIALIZED, 0, "gave MPI_THREAD_SERIALIZED,") &&
		   refuses(MPI_THREAD_SERIALIZED, 1, "ask MPI_Init_thread for it") &&
		   refuses(MPI_THREAD_MULTIPLE, 1, "OMPI_MCA_opal_cuda_support=0") &&
		   mpi_thread_check(MPI_THREAD_MULTIPLE, 0, text, sizeof text) && !text[0]);
}

static int says(const char *word)
{
	return strstr(log_last_error(), word) != NULL;
}

/* As communicators over as many nodes would be at this point; 1 if they chose MPI. */
static int choose(int gpus)
{
	static struct settings settings;
	static char *none[] = { NULL };
	struct transport_mpi_row over_mpi = transport_mpi(MPI_COMM_WORLD, NULL);
	struct topo *topo = NULL;
	struct comm comm = { .rank = rank, .size = size, .wants_gpu = gpus, .transport_row = &over_mpi.row };
	const struct transport_row *chosen = NULL;
	struct hello mine, *hellos = NULL;
	comm.bootstrap = (corale_bootstrap){ rank, size, NULL, mpi_world_allgather };
	if (settings_parse(none, &settings))
		MPI_Abort(MPI_COMM_WORLD, 1);
	settings.node_size = 1;
	snprintf(settings.transport, sizeof settings.transport, "mpi");
	comm.settings = settings;
	hello_init(&mine, &comm.bootstrap, &settings, NULL, 0);
	mine.gpu = gpus;
	hello_probe(&mine, &settings, comm.transport_row);
	if (hello_exchange(&comm.bootstrap, &mine, &hellos) || hello_topology(hellos, size, &settings, &topo))
		MPI_Abort(MPI_COMM_WORLD, 1);
	comm.topo = topo;
	int ret = comm_choose_transport(&comm, hellos, &chosen);
	topo_destroy(topo);
	free(hellos);
	return ret ? ret : chosen == &over_mpi.row;
}

static void agreement(void)
{
	int ret = choose(1);
	report("GPUs: one rank with less is an error on all, which the others name",
	       ret == CORALE_ENOTSUP &&
		   (rank == 1 ? says("MPI gave MPI_THREAD_SERIALIZED") &&
				    says("MPI_THREAD_MULTIPLE is needed") && says("transport mpi")
			      : says("transport mpi can't be used: it does not connect rank 0 (host ") &&
				    says(" and rank 1 (host ")));
	report("hosts: any level will do", choose(0) == 1);
}

int main(int argc, char **argv)
{
	const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK"),
		   *before = open_mpi ? open_mpi : mpich;
	const int wanted = before && atoi(before) == 1 ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
	int there = ranks_open(&argc, &argv, wanted) == wanted, all;
	MPI_Allreduce(&there, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (all) {
		decisions();
		agreement();
		return ranks_close();
	}
	if (rank == 0)
		printf("1..0 # SKIP this MPI gives other levels than it is asked for\n");
	return MPI_Finalize();
}
