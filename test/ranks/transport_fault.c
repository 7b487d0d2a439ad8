/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two ranks see when the other dies or the link between them is cut; test/ranks/namespaces-test.sh starts it and
 * cuts. Rank 0 prints one line of TAP, without a number.
 *
 *   transport_fault die    rank 1 kills itself while rank 0 waits for its second message
 *   transport_fault cut    both exchange until nothing comes any more, then give up
 *   transport_fault available   one process: exit status 0 if this build has UCX
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "mpi_world.h"
#include "net/link.h"
#include "base/wait.h"
#include "net/ucx/transport_ucx.h"

enum { BYTES = 1 << 20, LINKS = 4 };

static const struct wait_policy deadline = { .spin_ns = 20000, .timeout_ns = 3000000000 };
static const struct wait_policy long_deadline = { .spin_ns = 20000, .timeout_ns = 30000000000 };

static struct transport *transport;
static struct link_table links;
static _Atomic int failures;
static unsigned char out[BYTES];
static const unsigned char header[TRANSPORT_HEADER_BYTES];

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	printf("# rank %d is lost (%s): %s\n", peer, corale_strerror(code), reason);
	failures++;
}

static double since(double start)
{
	return MPI_Wtime() - start;
}

static int report(int good, const char *what, double seconds)
{
	printf("%s - %s, after %.2f s\n", good ? "ok" : "not ok", what, seconds);
	fflush(stdout);
	return good;
}

static int poll_room(void *link)
{
	transport->ops->progress(transport);
	return link_room(link);
}

static int poll_ready(void *link)
{
	transport->ops->progress(transport);
	return link_ready(link);
}

static int await_death(int rank)
{
	struct link *l = link_table_get(&links, !rank, 0);

	if (rank && (wait_until(&long_deadline, poll_room, l) != 1 || link_post(l, header, NULL, 100000)))
		MPI_Abort(MPI_COMM_WORLD, 3);
	if (!rank && (wait_until(&long_deadline, poll_ready, l) != 1 || link_release(l)))
		MPI_Abort(MPI_COMM_WORLD, 3);
	double start = MPI_Wtime();
	if (rank) {
		usleep(500000);
		raise(SIGKILL);
	}
	int ret = wait_until(&long_deadline, poll_ready, l);
	transport->ops->progress(transport);
	return report(ret == CORALE_EPEER && failures == 1, "a peer that is killed is reported",
		      since(start));
}

/* Both ways on each link, from the user's memory; 1 when so many messages were posted and taken on each. */
static int poll_exchange(void *arg)
{
	const uint64_t until = *(const uint64_t *)arg;
	int rank, all = 1;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	transport->ops->progress(transport);
	for (int index = 0; index < LINKS; index++) {
		struct link *l = link_table_get(&links, !rank, index);
		int ret = l->posted < until ? link_room(l) : 0;
		if (ret > 0)
			ret = link_post(l, header, out, BYTES);
		if (ret >= 0 && link_taken(l) < until && (ret = link_ready(l)) > 0)
			ret = link_release(l);
		if (ret < 0)
			return ret;
		all &= l->posted == until && link_taken(l) == until;
	}
	return all;
}

static int await_cut(int rank)
{
	double start = MPI_Wtime();
	int ret = 1;

	if (!rank)
		printf("# running\n");
	fflush(stdout);
	for (uint64_t until = 1; ret == 1 && since(start) < 60; until++)
		ret = wait_until(&deadline, poll_exchange, &until);
	start = MPI_Wtime();
	transport->ops->fail(transport, CORALE_ETIMEDOUT);
	double seconds = since(start);
	if (rank)
		return 1;
	return report(ret == CORALE_ETIMEDOUT && seconds < 5,
		      "a cut link is found by the deadline, and the transport ends", seconds);
}

int main(int argc, char **argv)
{
	static const unsigned char needed[2] = { 1, 1 };
	const struct settings *settings;
	int rank, size, level;

	if (argc == 2 && !strcmp(argv[1], "available")) {
		char why_not[200];
		return !transport_ucx.probe(&transport_ucx, 0, why_not, sizeof(why_not));
	}
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 2 || size != 2 || settings_get(&settings))
		MPI_Abort(MPI_COMM_WORLD, 2);
	struct transport_params params = {
		.rank = rank,
		.size = 2,
		.comm_id = 1,
		.needed = needed,
		.settings = settings,
		.slots = { .links = LINKS, .depth = 4, .bytes = BYTES, .cap = 1 << 30 },
		.on_control = mpi_world_no_control,
		.on_failure = on_failure
	};
	const corale_bootstrap bootstrap = { rank, 2, NULL, mpi_world_allgather };
	if (transport_open(&transport_ucx, &params, &bootstrap, &transport) ||
	    link_table_open(&links, transport, &params.slots, rank, size))
		MPI_Abort(MPI_COMM_WORLD, 1);
	int good = strcmp(argv[1], "cut") ? await_death(rank) : await_cut(rank);
	double start = MPI_Wtime();
	transport_close(transport);
	link_table_close(&links);
	if (!rank)
		report(since(start) < 5, "close does not hang", since(start));
	if (strcmp(argv[1], "cut"))
		_exit(!good); /* MPI_Finalize would wait for the dead */
	MPI_Finalize();
	return !good;
}
