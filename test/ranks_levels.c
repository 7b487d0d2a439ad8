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
#include "comm/gpu.h"
#include "mpi_link.h"
#include "mpi_thread.h"
#include "mpi_world.h"
#include "transport_mpi.h"

enum { MAX_RANKS = 4 };

static struct transport_mpi_ops over_mpi;
static int rank, size;
static int cuda_support;

/* In place of MPI's own. */
int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void)
{
	return cuda_support;
}

static void report(int number, const char *name, int good)
{
	int all = 0;
	if (!good)
		fprintf(stderr, "# rank %d: %s: %s\n", rank, name, log_last_error());
	MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s %d - %s\n", all ? "ok" : "not ok", number, name);
	fflush(stdout);
}

static int refuses(int level, int calls_cuda, const char *word)
{
	char text[COMM_ERROR_BYTES / 2] = "";
	return !mpi_thread_check(level, calls_cuda, text, sizeof text) && strstr(text, word) &&
	       strstr(text, "build with UCX") && strlen(text) < sizeof text - 1;
}

static void decisions(int number)
{
	char text[8] = "";
	report(number, "only MPI_THREAD_MULTIPLE will do, of an MPI that does not call CUDA",
	       refuses(MPI_THREAD_SINGLE, 0, "gave MPI_THREAD_SINGLE,") &&
		   refuses(MPI_THREAD_FUNNELED, 0, "gave MPI_THREAD_FUNNELED,") &&
		   refuses(MPI_THREAD_SERIALIZED, 0, "gave MPI_THREAD_SERIALIZED,") &&
		   refuses(MPI_THREAD_SERIALIZED, 1, "ask MPI_Init_thread for it") &&
		   refuses(MPI_THREAD_MULTIPLE, 1, "OMPI_MCA_opal_cuda_support=0") &&
		   mpi_thread_check(MPI_THREAD_MULTIPLE, 0, text, sizeof text) && !text[0]);
}

/* As a CUDA communicator would be at this point. */
static void open_comm(struct comm *comm, struct topo *topo, const struct settings *settings)
{
	static const unsigned char needed[MAX_RANKS] = { 1, 1, 1, 1 };
	const struct transport_params params = { .rank = rank,
						 .size = size,
						 .comm_id = 1,
						 .needed = needed,
						 .allgather = mpi_world_allgather,
						 .settings = settings };
	topo->map.nodes = size;
	comm->rank = rank;
	comm->size = size;
	comm->topo = topo;
	comm->bootstrap = (corale_bootstrap){ rank, size, NULL, mpi_world_allgather };
	if (over_mpi.ops.open(&over_mpi.ops, &params, &comm->engine.transport))
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static int says(const char *word)
{
	return strstr(log_last_error(), word) != NULL;
}

static void agreement(int number, const struct settings *settings)
{
	static struct comm comm;
	static struct topo topo;
	open_comm(&comm, &topo, settings);
	struct mpi_transport *t = (struct mpi_transport *)comm.engine.transport;
	int ret = gpu_remote_check(&comm);
	report(number, "one rank with less is an error on all, which the others name",
	       ret == CORALE_ENOTSUP &&
		   (rank == 1 ? says("MPI gave MPI_THREAD_SERIALIZED") &&
				    says("MPI_THREAD_MULTIPLE is needed") && says("transport mpi")
			      : says("rank 1 could not carry messages of GPUs")));
	t->level = MPI_THREAD_MULTIPLE;
	report(number + 1, "with MPI_THREAD_MULTIPLE on all ranks it goes on", gpu_remote_check(&comm) == 0);
	comm.engine.transport->ops->close(comm.engine.transport);
}

int main(int argc, char **argv)
{
	const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK"),
		   *before = open_mpi ? open_mpi : mpich;
	const int wanted = before && atoi(before) == 1 ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
	const struct settings *settings;
	int level;
	MPI_Init_thread(&argc, &argv, wanted, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	const char *expected = getenv("TEST_RANKS");
	if (size < 2 || size > MAX_RANKS || (expected && atoi(expected) != size) || settings_get(&settings))
		MPI_Abort(MPI_COMM_WORLD, 1);
	over_mpi = (struct transport_mpi_ops){ transport_mpi, MPI_COMM_WORLD };
	int there = level == wanted, all;
	MPI_Allreduce(&there, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == 0)
		printf(all ? "1..3\n" : "1..0 # SKIP this MPI gives other levels than it is asked for\n");
	if (all) {
		decisions(1);
		agreement(2, settings);
	}
	MPI_Finalize();
	return 0;
}
