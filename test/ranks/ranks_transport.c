/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transports between processes: UCX by every way of large messages, and MPI.
 * shapes: 2:0 4:0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "test/helpers/transport_cases.h"
#include "mpi_world.h"
#include "transport_mpi.h"
#include "net/ucx/transport_ucx.h"

enum { MAX_RANKS = 64 };

static struct settings settings;
static struct transport_mpi_row over_mpi;

static void barrier(struct cases_rank *me)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void run(const struct transport_row *row, int number, struct cases_rank *me)
{
	static uint64_t comm_ids = 1000;
	unsigned char needed[MAX_RANKS];
	struct transport_params params = { .rank = me->rank,
					   .size = me->size,
					   .comm_id = comm_ids++,
					   .needed = needed,
					   .settings = &settings,
					   .slots = cases_slots(me),
					   .on_control = cases_on_control,
					   .on_failure = cases_on_failure,
					   .handler_ctx = me };
	for (int r = 0; r < me->size; r++)
		needed[r] = r != me->rank;
	const corale_bootstrap bootstrap = { me->rank, me->size, NULL, mpi_world_allgather };
	if (transport_open(row, &params, &bootstrap, &me->t))
		abort();
	me->ops = me->t->ops;
	cases_run(number, me);
	transport_close(me->t);
}

/* Runs all cases that fit; MPI does not tell of a peer that left. Returns the number so far. */
static int run_all(const char *name, const struct transport_row *row, const char *message, int rank, int size,
		   int count)
{
	for (int i = 0; i < cases_count(); i++) {
		struct cases_rank me = { .rank = rank, .size = size, .barrier = barrier };
		int fits = cases_ranks(i) == 0 || cases_ranks(i) == size;
		if (!fits || (row == &over_mpi.row && (!strcmp(cases_name(i), "departure"))))
			continue;
		snprintf(settings.ucx_message, sizeof(settings.ucx_message), "%s", message);
		run(row, i, &me);
		MPI_Barrier(MPI_COMM_WORLD);
		count++;
		if (rank == 0)
			printf("ok %d - %s%s: %s\n", count, name, message, cases_name(i));
		fflush(stdout);
	}
	return count;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = { "am", "tag", "put", "auto" };
	static char *none[] = { NULL };
	char why_not[200];
	int rank, size, level, count = 0;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	const char *expected = getenv("TEST_RANKS");
	if (size > MAX_RANKS || (expected && atoi(expected) != size) || settings_parse(none, &settings))
		MPI_Abort(MPI_COMM_WORLD, 1);
	over_mpi = transport_mpi(MPI_COMM_WORLD, NULL);
	count = run_all("mpi, ", &over_mpi.row, "auto", rank, size, count);
	const char *devices = getenv("CORALE_NET_DEVICES");
	snprintf(settings.net_devices, sizeof(settings.net_devices), "%s", devices ? devices : "");
	for (int i = 0; i < 4 && transport_ucx.probe(&transport_ucx, 0, why_not, sizeof(why_not)); i++)
		count = run_all("ucx by ", &transport_ucx, ways[i], rank, size, count);
	if (rank == 0)
		printf("1..%d\n", count);
	MPI_Finalize();
	return 0;
}
