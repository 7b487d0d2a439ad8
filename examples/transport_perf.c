/*
 * Bandwidth of a transport between two ranks: rank 0 sends to rank 1 with several messages in flight, then both
 * send at once.
 *
 *   mpirun -n 2 transport_perf [-t ucx|mpi] [-m am|tag|put|auto] [-b BYTES] [-e BYTES] [-f FACTOR] [-s SECONDS] [-w WINDOW]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "net/transport.h"
#include "transport_mpi.h"
#include "base/wait.h"

enum { MOST_WINDOW = 64 };

static const struct wait_policy patience = { .spin_ns = 20000, .timeout_ns = 60000000000 };

struct options {
	const char *transport, *message;
	size_t least, most, factor;
	double seconds;
	int window;
};

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	(void)ctx;
	return MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, MPI_COMM_WORLD)
		   ? CORALE_ETRANSPORT
		   : 0;
}

static void on_control(void *ctx, int peer, const void *message, size_t bytes)
{
	(void)ctx, (void)peer, (void)message, (void)bytes;
}

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	(void)ctx;
	fprintf(stderr, "transport_perf: rank %d is lost (%s): %s\n", peer, corale_strerror(code), reason);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static struct transport *transport;

static int poll_done(void *arg)
{
	struct transport_request *request = arg;
	transport->ops->progress(transport);
	return atomic_load_explicit(&request->done, memory_order_acquire);
}

static void finish(struct transport_request *request)
{
	if (wait_until(&patience, poll_done, request) == 1 && !request->status)
		return;
	fprintf(stderr, "transport_perf: a message did not come\n");
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Exchanges count messages with the peer, window of them in flight each way; returns seconds. */
static double stream(int sends, int recvs, char *out, char *in, size_t bytes, int count, int window)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	struct transport_request send[MOST_WINDOW], recv[MOST_WINDOW], last;
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (int i = 0; i < count + window; i++) {
		if (i >= window && sends)
			finish(&send[i % window]);
		if (i >= window && recvs)
			finish(&recv[i % window]);
		if (i < count && recvs)
			transport->ops->recv(transport, !rank, 0, in + (size_t)(i % window) * bytes, bytes,
					     &recv[i % window]);
		if (i < count && sends)
			transport->ops->send(transport, !rank, 0, header, out + (size_t)(i % window) * bytes,
					     bytes, &send[i % window]);
	}
	/* The sender hears that the last one has come. */
	if (rank)
		transport->ops->send(transport, 0, 1, header, NULL, 0, &last);
	else
		transport->ops->recv(transport, 1, 1, NULL, 0, &last);
	finish(&last);
	return MPI_Wtime() - start;
}

/* GB/s from rank 0 to rank 1 (both: each way), of as many messages as take about the seconds asked for. */
static double bandwidth(const struct options *o, size_t bytes, int rank, int both, char *out, char *in)
{
	int sends = both || !rank, recvs = both || rank, count = o->window;
	double seconds = stream(sends, recvs, out, in, bytes, count, o->window);

	seconds = stream(sends, recvs, out, in, bytes, count, o->window);
	count = (int)(o->seconds / seconds * count) + o->window;
	MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
	seconds = stream(sends, recvs, out, in, bytes, count, o->window);
	return (double)bytes * count / seconds / 1e9;
}

static void run(const struct options *o, int rank)
{
	size_t room = o->most * (size_t)o->window;
	char *out = malloc(room), *in = malloc(room), text[200] = "";

	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(out, 1, room);
	memset(in, 2, room);
	stream(1, 1, out, in, o->least, o->window, o->window);
	transport->ops->describe(transport, !rank, text, sizeof(text));
	if (!rank)
		printf("# %s: %s; window %d\n# %12s %10s %10s\n", o->transport, text, o->window, "bytes",
		       "GB/s", "both ways");
	for (size_t bytes = o->least; bytes <= o->most; bytes *= o->factor) {
		double one = bandwidth(o, bytes, rank, 0, out, in),
		       both = bandwidth(o, bytes, rank, 1, out, in);
		if (!rank)
			printf("  %12zu %10.3f %10.3f\n", bytes, one, both);
		fflush(stdout);
	}
	free(out);
	free(in);
}

static int parse(int argc, char **argv, struct options *o)
{
	for (int c; (c = getopt(argc, argv, "t:m:b:e:f:s:w:")) != -1;) {
		switch (c) {
		case 't':
			o->transport = optarg;
			break;
		case 'm':
			o->message = optarg;
			break;
		case 'b':
			o->least = strtoull(optarg, NULL, 0);
			break;
		case 'e':
			o->most = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			o->factor = strtoull(optarg, NULL, 0);
			break;
		case 's':
			o->seconds = atof(optarg);
			break;
		case 'w':
			o->window = atoi(optarg);
			break;
		default:
			return -1;
		}
	}
	return o->least && o->factor > 1 && o->window > 0 && o->window <= MOST_WINDOW ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct options o = { "ucx", NULL, 1 << 16, 1 << 26, 4, 0.3, 4 };
	struct transport_mpi_ops over_mpi = { transport_mpi, MPI_COMM_WORLD };
	static const unsigned char needed[2] = { 1, 1 };
	const struct settings *settings;
	int rank, size, level;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (parse(argc, argv, &o) || size != 2 || settings_get(&settings)) {
		fprintf(stderr, "usage: mpirun -n 2 transport_perf [-t ucx|mpi] [-m am|tag|put|auto] [-b "
				"BYTES] [-e BYTES] "
				"[-f FACTOR] [-s SECONDS] [-w WINDOW]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	struct settings mine = *settings;
	if (o.message)
		snprintf(mine.ucx_message, sizeof(mine.ucx_message), "%s", o.message);
	const struct transport_ops *ops = strcmp(o.transport, "mpi") ? &transport_ucx : &over_mpi.ops;
	struct transport_params params = { .rank = rank,
					   .size = 2,
					   .comm_id = 1,
					   .needed = needed,
					   .allgather = allgather,
					   .settings = &mine,
					   .on_control = on_control,
					   .on_failure = on_failure };
	if (ops->open(ops, &params, &transport))
		MPI_Abort(MPI_COMM_WORLD, 1);
	run(&o, rank);
	ops->close(transport);
	MPI_Finalize();
	return 0;
}
