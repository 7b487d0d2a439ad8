/*
 * Between two ranks: half a round trip of one message, and bandwidth, where rank 0 sends to rank 1, then both send at once. Messages
 * go from buffer to buffer through the slots of a link, as those of collectives do (-l), or over the transport's send and recv,
 * several in flight (-w). Both ranks poll without sleeping, so each needs a core of its own: mpirun --bind-to none.
 *
 *   mpirun -n 2 transport_perf [-t ucx|mpi] [-m am|tag|put|auto] [-b BYTES] [-e BYTES] [-f FACTOR] [-s SECONDS] [-w WINDOW] [-l 0|1]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "net/link.h"
#include "mpi_world.h"
#include "transport_mpi.h"
#include "base/wait.h"

enum { MOST_WINDOW = 64 };

static const struct wait_policy patience = { .spin_ns = 60000000000, .timeout_ns = 60000000000 };

struct options {
	const char *transport, *message;
	size_t least, most, factor;
	double seconds;
	int window, links;
};

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	(void)ctx;
	fprintf(stderr, "transport_perf: rank %d is lost (%s): %s\n", peer, corale_strerror(code), reason);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static struct transport *transport;
static struct link_table links;
static _Atomic size_t slots_used;

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

/* The sender hears that the last one has come. */
static void tell_last(int rank, struct transport_request *last)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	if (rank)
		transport->ops->send(transport, 0, 1, header, NULL, 0, last);
	else
		transport->ops->recv(transport, 1, 1, NULL, 0, last);
	finish(last);
}

/* ---- Over a link ---- */

struct flow {
	struct link *link;
	char *out, *in;
	size_t bytes, sent, received, to_send, to_receive; /* bytes: of a message; the rest: of all */
	int window;
};

/* Where byte `at` of all messages is; *left: bytes to the end of its message or slot. */
static char *place(const struct flow *f, char *buffers, size_t at, size_t *left)
{
	const size_t in_message = at % f->bytes, rest = f->bytes - in_message;
	*left = rest < f->link->slot_bytes ? rest : f->link->slot_bytes;
	return buffers + at / f->bytes % (size_t)f->window * f->bytes + in_message;
}

static int poll_flow(void *arg)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	struct flow *f = arg;
	size_t n;
	transport->ops->progress(transport);
	while (f->sent < f->to_send && link_room(f->link) > 0) {
		const char *from = place(f, f->out, f->sent, &n);
		if (!f->link->direct)
			memcpy(link_slot(f->link), from, n);
		if (link_post(f->link, header, f->link->direct ? from : NULL, n))
			return CORALE_EPEER;
		f->sent += n;
	}
	while (f->received < f->to_receive && link_ready(f->link) > 0) {
		char *to = place(f, f->in, f->received, &n);
		memcpy(to, link_next(f->link)->data, n);
		link_release(f->link);
		f->received += n;
	}
	return f->sent == f->to_send && f->received == f->to_receive &&
	       (!f->link->ops->sent || !f->link->out_open || f->link->ops->sent(f->link));
}

static void move(struct flow *f)
{
	if (wait_until(&patience, poll_flow, f) != 1)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static double stream_links(int sends, int recvs, char *out, char *in, size_t bytes, int count, int window)
{
	const size_t all = bytes * (size_t)count;
	struct flow f = { .out = out, .in = in, .bytes = bytes, .window = window };
	struct transport_request last;
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!(f.link = link_table_get(&links, !rank, 0)))
		MPI_Abort(MPI_COMM_WORLD, 1);
	f.to_send = sends ? all : 0;
	f.to_receive = recvs ? all : 0;
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	move(&f);
	tell_last(rank, &last);
	return MPI_Wtime() - start;
}

/* Seconds of so many round trips. */
static double bounce_links(char *out, char *in, size_t bytes, int count)
{
	struct flow f = { .out = out, .in = in, .bytes = bytes, .window = 1 };
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!(f.link = link_table_get(&links, !rank, 0)))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (int half = 0; half < 2 * count; half++) {
		if (half % 2 == rank)
			f.to_send += bytes;
		else
			f.to_receive += bytes;
		move(&f);
	}
	return MPI_Wtime() - start;
}

/* ---- Over send and recv ---- */

/* Exchanges count messages with the peer, window of them in flight each way; returns seconds. */
static double stream_messages(int sends, int recvs, char *out, char *in, size_t bytes, int count, int window)
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
	tell_last(rank, &last);
	return MPI_Wtime() - start;
}

static double bounce_messages(char *out, char *in, size_t bytes, int count)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	struct transport_request request;
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (int half = 0; half < 2 * count; half++) {
		if (half % 2 == rank)
			transport->ops->send(transport, !rank, 0, header, out, bytes, &request);
		else
			transport->ops->recv(transport, !rank, 0, in, bytes, &request);
		finish(&request);
	}
	return MPI_Wtime() - start;
}

static double stream(const struct options *o, int sends, int recvs, char *out, char *in, size_t bytes,
		     int count)
{
	return (o->links ? stream_links : stream_messages)(sends, recvs, out, in, bytes, count, o->window);
}

/* GB/s from rank 0 to rank 1 (both: each way), of as many messages as take about the seconds asked for. */
static double bandwidth(const struct options *o, size_t bytes, int rank, int both, char *out, char *in)
{
	int sends = both || !rank, recvs = both || rank, count = o->window;
	double seconds = stream(o, sends, recvs, out, in, bytes, count);

	seconds = stream(o, sends, recvs, out, in, bytes, count);
	count = (int)(o->seconds / seconds * count) + o->window;
	MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
	seconds = stream(o, sends, recvs, out, in, bytes, count);
	return (double)bytes * count / seconds / 1e9;
}

/* us of half a round trip. */
static double latency(const struct options *o, size_t bytes, char *out, char *in)
{
	enum { FEW = 10, MOST = 100000 };
	double (*bounce)(char *, char *, size_t, int) = o->links ? bounce_links : bounce_messages;
	bounce(out, in, bytes, FEW);
	double seconds = bounce(out, in, bytes, FEW);
	int count = seconds * MOST < o->seconds * FEW ? MOST : (int)(o->seconds / seconds * FEW) + 1;
	MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return bounce(out, in, bytes, count) / count / 2 * 1e6;
}

static void run(const struct options *o, int rank)
{
	size_t room = o->most * (size_t)o->window;
	char *out = malloc(room), *in = malloc(room), text[200] = "";

	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(out, 1, room);
	memset(in, 2, room);
	stream(o, 1, 1, out, in, o->least, o->window);
	transport->ops->describe(transport, !rank, text, sizeof(text));
	if (!rank)
		printf("# %s: %s; window %d, %s\n# %12s %10s %10s %10s\n", o->transport, text, o->window,
		       o->links ? "links" : "send and recv", "bytes", "us", "GB/s", "both ways");
	for (size_t bytes = o->least; bytes <= o->most; bytes *= o->factor) {
		double us = latency(o, bytes, out, in), one = bandwidth(o, bytes, rank, 0, out, in),
		       both = bandwidth(o, bytes, rank, 1, out, in);
		if (!rank)
			printf("  %12zu %10.2f %10.3f %10.3f\n", bytes, us, one, both);
		fflush(stdout);
	}
	free(out);
	free(in);
}

static int parse(int argc, char **argv, struct options *o)
{
	for (int c; (c = getopt(argc, argv, "t:m:b:e:f:s:w:l:")) != -1;) {
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
		case 'l':
			o->links = atoi(optarg);
			break;
		default:
			return -1;
		}
	}
	return o->least && o->factor > 1 && o->window > 0 && o->window <= MOST_WINDOW ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct options o = { "ucx", NULL, 1 << 16, 1 << 26, 4, 0.3, 4, 1 };
	struct transport_mpi_row over_mpi = transport_mpi(MPI_COMM_WORLD);
	static const unsigned char needed[2] = { 1, 1 };
	const struct settings *settings;
	int rank, size, level;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (parse(argc, argv, &o) || size != 2 || settings_get(&settings)) {
		fprintf(stderr, "usage: mpirun -n 2 transport_perf [-t ucx|mpi] [-m am|tag|put|auto] [-b "
				"BYTES] [-e BYTES] "
				"[-f FACTOR] [-s SECONDS] [-w WINDOW] [-l 0|1]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	struct settings mine = *settings;
	if (o.message)
		snprintf(mine.ucx_message, sizeof(mine.ucx_message), "%s", o.message);
	const struct transport_row *row = strcmp(o.transport, "mpi") ? &transport_ucx : &over_mpi.row;
	const corale_bootstrap bootstrap = { rank, 2, NULL, mpi_world_allgather };
	struct transport_params params = { .rank = rank,
					   .size = 2,
					   .comm_id = 1,
					   .needed = needed,
					   .settings = &mine,
					   .slots = { .lanes = 1,
						      .depth = 8,
						      .bytes = mine.slot_bytes,
						      .cap = mine.memory_cap,
						      .used = &slots_used },
					   .on_control = mpi_world_no_control,
					   .on_failure = on_failure };
	if (transport_open(row, &params, &bootstrap, &transport) ||
	    link_table_open(&links, transport, &params.slots, rank, size))
		MPI_Abort(MPI_COMM_WORLD, 1);
	run(&o, rank);
	transport_close(transport);
	link_table_close(&links);
	MPI_Finalize();
	return 0;
}
