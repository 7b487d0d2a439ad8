/*
 * What two ranks see when the other dies or the link between them is cut; test/namespaces-test.sh starts it and
 * cuts. Rank 0 prints one line of TAP, without a number.
 *
 *   transport_fault die    rank 1 kills itself while rank 0 waits for its first message, and for the second of a link
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

enum { BYTES = 4 << 20 };

static const struct wait_policy deadline = { .spin_ns = 20000, .timeout_ns = 3000000000 };
static const struct wait_policy long_deadline = { .spin_ns = 20000, .timeout_ns = 30000000000 };

static struct transport *transport;
static struct link_table links;
static _Atomic int failures;
static unsigned char in[BYTES], out[BYTES];

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	(void)ctx;
	printf("# rank %d is lost (%s): %s\n", peer, corale_strerror(code), reason);
	failures++;
}

static int poll_done(void *arg)
{
	struct transport_request *request = arg;
	transport->ops->progress(transport);
	return atomic_load_explicit(&request->done, memory_order_acquire);
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

/* Nothing was ever sent to the peer but over a link, so its death is known by the connection alone. */
static int await_death(int rank)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	struct transport_request request;
	struct link *l = link_table_get(&links, !rank, 0);

	if (rank && (wait_until(&long_deadline, poll_room, l) != 1 || link_post(l, header, NULL, 100000)))
		MPI_Abort(MPI_COMM_WORLD, 3);
	if (!rank && (wait_until(&long_deadline, poll_ready, l) != 1 || link_release(l)))
		MPI_Abort(MPI_COMM_WORLD, 3);
	transport->ops->recv(transport, !rank, 0, in, BYTES, &request);
	double start = MPI_Wtime();
	if (rank) {
		usleep(500000);
		raise(SIGKILL);
	}
	int over_link = wait_until(&long_deadline, poll_ready, l);
	int ret = wait_until(&long_deadline, poll_done, &request);
	transport->ops->progress(transport);
	return report(ret == 1 && request.status == CORALE_EPEER && over_link == CORALE_EPEER &&
			  failures == 1,
		      "a peer that is killed is reported", since(start));
}

/* Both ways, several at once; returns 0, or what the first that failed says. */
static int exchange(int rank, struct transport_request *requests)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];

	for (int i = 0; i < 4; i++) {
		transport->ops->recv(transport, !rank, i, in, BYTES, &requests[i]);
		transport->ops->send(transport, !rank, i, header, out, BYTES, &requests[4 + i]);
	}
	for (int i = 0; i < 8; i++) {
		int ret = wait_until(&deadline, poll_done, &requests[i]);
		if (ret < 0 || requests[i].status)
			return ret < 0 ? ret : requests[i].status;
	}
	return 0;
}

static int await_cut(int rank)
{
	struct transport_request requests[8];
	double start = MPI_Wtime();
	int ret = 0, all = 1;

	if (!rank)
		printf("# running\n");
	fflush(stdout);
	while (!ret && since(start) < 60)
		ret = exchange(rank, requests);
	start = MPI_Wtime();
	transport->ops->fail(transport, CORALE_ETIMEDOUT);
	double seconds = since(start);
	for (int i = 0; i < 8; i++)
		all &= requests[i].done;
	if (rank)
		return 1;
	return report(ret == CORALE_ETIMEDOUT && all && seconds < 5,
		      "a cut link is found by the deadline, and every request ends", seconds);
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
		.slots = { .lanes = 1, .depth = 4, .bytes = 1 << 20, .cap = 1 << 30 },
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
