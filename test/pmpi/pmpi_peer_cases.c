/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases of messages by peer copies (CORALE_MPI_PEER) that random programs do not meet; test/pmpi/pmpi_peer.sh runs them by 2 ranks.
 * Usage: pmpi_peer_cases [sender_dies | receiver_dies]   without: all others
 * Each case is named as it starts. See case_alarm.h for one that hangs.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "case_alarm.h"
#include "pmpi_peer.h"

enum { BYTES = 100000, FEW = 1000, TAG = 5, SEVERAL = 8 };

static int rank, failed;
static char *in, *out; /* device memory, BYTES */

static void expect(int ok, const char *what)
{
	if (!ok)
		fprintf(stderr, "# rank %d: %s\n", rank, what);
	failed |= !ok;
}

static void fill(char *buffer, int value)
{
	put(buffer, BYTES, value);
}

static void expect_all(const char *buffer, int bytes, int value, const char *what)
{
	char *data = get(buffer, (size_t)bytes);
	int i = 0;
	while (i < bytes && data[i] == value)
		i++;
	free(data);
	expect(i == bytes, what);
}

/* Whether a short send ends without its receive. */
static int needs_no_match(void)
{
	const char *eager = getenv("CORALE_MPI_PEER_EAGER");
	return !eager || atoi(eager) >= FEW;
}

/* Both send first, as MPI alone lets them for few bytes. The first messages of an allocation are staged, later ones go by headers. */
static void both_send_first(void)
{
	if (!needs_no_match())
		return;
	for (int turn = 0; turn < SEVERAL; turn++) {
		MPI_Request request;
		fill(in, rank + turn);
		if (turn % 2) {
			MPI_Isend(in, FEW, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		} else {
			MPI_Send(in, FEW, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD);
		}
		fill(in, 99);
		MPI_Recv(out, FEW, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		expect_all(out, FEW, !rank + turn, "both send first");
	}
}

/* Of sends that need no match: cancelled, freed, and looked at beside another one. */
static void short_requests(void)
{
	MPI_Request requests[SEVERAL];
	MPI_Status status;
	int is_cancelled = 0, flag = 0, n = rank ? 0 : SEVERAL;
	if (!needs_no_match())
		return;
	fill(in, 6);
	for (int i = 0; i < n; i++)
		MPI_Isend(in, FEW, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[i]);
	if (!rank) {
		MPI_Cancel(&requests[0]);
		MPI_Wait(&requests[0], &status);
		MPI_Test_cancelled(&status, &is_cancelled);
		MPI_Request_free(&requests[1]);
		while (!flag)
			MPI_Request_get_status(requests[2], &flag, &status);
	}
	MPI_Bcast(&is_cancelled, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	fill(in, 0);
	for (int i = is_cancelled; rank && i < SEVERAL; i++) {
		MPI_Recv(out, FEW, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (i != 1)
			expect_all(out, FEW, 6, "a short message");
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The receiver waits for another call of the sender, between its receive and the end of that. */
static void receiver_is_elsewhere(void)
{
	MPI_Request request = MPI_REQUEST_NULL;
	if (rank)
		MPI_Irecv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	fill(in, 7);
	if (!rank)
		MPI_Send(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
	fill(in, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (rank)
		expect_all(out, BYTES, 7, "the receiver is elsewhere");
}

/* A copy that a test has started goes on while the receiver is elsewhere, and its sender waits for that. */
static void receiver_tests_once(void)
{
	MPI_Request request;
	int flag;
	fill(in, 9);
	if (rank)
		MPI_Irecv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	else
		MPI_Isend(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank)
		MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
	else
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (rank)
		expect_all(out, BYTES, 9, "the receiver tests once");
}

static void cancelled_receive(void)
{
	MPI_Request request;
	MPI_Status status;
	int is_cancelled = 0, count = 0;
	if (rank) {
		MPI_Irecv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
		MPI_Cancel(&request);
		MPI_Wait(&request, &status);
		MPI_Test_cancelled(&status, &is_cancelled);
		expect(is_cancelled, "a receive is cancelled");
	}
	MPI_Barrier(MPI_COMM_WORLD);
	fill(in, 8);
	if (!rank)
		MPI_Send(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
	else
		MPI_Recv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	if (rank) {
		MPI_Get_count(&status, MPI_BYTE, &count);
		expect(count == BYTES, "the count behind a cancelled receive");
		expect_all(out, BYTES, 8, "the message behind a cancelled receive");
	}
}

/* Whether MPI cancels a send or not: a later probe has the length of a later message. */
static void cancelled_send(void)
{
	MPI_Request request;
	MPI_Status status;
	int is_cancelled = 0, count = 0;
	if (!rank) {
		MPI_Isend(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
		MPI_Cancel(&request);
		MPI_Request_get_status(request, &count, &status);
		MPI_Bcast(&is_cancelled, 0, MPI_INT, 0, MPI_COMM_WORLD);
		MPI_Wait(&request, &status);
		MPI_Test_cancelled(&status, &is_cancelled);
		MPI_Send(&is_cancelled, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD);
		MPI_Send(in, FEW, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
		return;
	}
	MPI_Bcast(&is_cancelled, 0, MPI_INT, 0, MPI_COMM_WORLD);
	int is_there = 0;
	for (int i = 0; i < 1000 && !is_there; i++)
		MPI_Iprobe(0, TAG + 1, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
	if (!is_there) /* the send waits for its receive */
		MPI_Recv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	MPI_Recv(&is_cancelled, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (is_there && !is_cancelled)
		MPI_Recv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
	if (!is_there && is_cancelled)
		expect(0, "a message that was cancelled came");
	MPI_Probe(0, TAG, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	expect(count == FEW, "the count behind a cancelled send");
	MPI_Recv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Requests that the program frees: one call later the messages are there. */
static void freed_requests(void)
{
	MPI_Request requests[2];
	char few[FEW];
	fill(in, 40 + rank);
	MPI_Irecv(out, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(in, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[1]);
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
	for (int i = 0; i < 3; i++)
		MPI_Sendrecv(in, FEW, MPI_BYTE, !rank, TAG, few, FEW, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	expect_all(out, BYTES, 40 + !rank, "freed requests");
}

/* Each start takes the buffer's content of then. */
static void start_persistent(int bytes)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	MPI_Recv_init(out, bytes, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Send_init(in, bytes, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[1]);
	for (int i = 0; i < 3; i++) {
		int count = 0;
		fill(in, 70 + 2 * i + rank);
		MPI_Startall(2, requests);
		MPI_Waitall(2, requests, statuses);
		MPI_Get_count(&statuses[0], MPI_BYTE, &count);
		expect(count == bytes, "the count of a persistent receive");
		expect_all(out, bytes, 70 + 2 * i + !rank, "persistent requests");
	}
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
}

static void persistent_requests(void)
{
	start_persistent(BYTES);
	start_persistent(2); /* no header */
}

/* Looks at several requests complete none; the message is there when one has said so. */
static void looked_at_requests(void)
{
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
	MPI_Request requests[3];
	MPI_Status statuses[3];
	int flag = 0, n = 0, bytes = 0, indices[3];
	fill(in, 30 + rank);
	MPI_Irecv(out, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[0]);
	requests[1] = MPI_REQUEST_NULL;
	MPI_Isend(in, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[2]);
	while (!flag || n != 2)
		MPI_Request_get_status_any(2, requests, indices, &flag, statuses),
		    MPI_Request_get_status_some(3, requests, &n, indices, statuses);
	MPI_Get_count(&statuses[0], MPI_BYTE, &bytes);
	expect(indices[0] == 0 && indices[1] == 2 && bytes == BYTES, "a look at some requests");
	MPI_Request_get_status_all(3, requests, &flag, statuses);
	MPI_Get_count(&statuses[0], MPI_BYTE, &bytes);
	expect(flag && bytes == BYTES, "a look at all requests");
	expect_all(out, BYTES, 30 + !rank, "a message that was looked at");
	MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
	MPI_Request_get_status_any(3, requests, indices, &flag, statuses);
	expect(flag && indices[0] == MPI_UNDEFINED, "a look at no request");
#endif
}

/* Two of one tag, received in the other order. */
static void matched_messages(void)
{
	const int bytes[] = { BYTES, FEW };
	MPI_Request requests[2];
	MPI_Message messages[2];
	MPI_Status status;
	fill(in, 80 + rank);
	for (int i = 0; i < 2; i++)
		MPI_Isend(in, bytes[i], MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < 2; i++) {
		int count = 0;
		MPI_Mprobe(!rank, TAG, MPI_COMM_WORLD, &messages[i], &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		expect(count == bytes[i], "the count of a matched message");
	}
	for (int i = 1; i >= 0; i--) {
		fill(out, 0);
		MPI_Mrecv(out, BYTES, MPI_BYTE, &messages[i], &status);
		expect_all(out, bytes[i], 80 + !rank, "a matched message");
	}
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* As benchmarks do. */
static void overlapping_receives(void)
{
	MPI_Request requests[2 * SEVERAL];
	MPI_Status statuses[2 * SEVERAL];
	fill(in, 50 + rank);
	for (int i = 0; i < SEVERAL; i++)
		MPI_Irecv(out, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < SEVERAL; i++)
		MPI_Isend(in, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[SEVERAL + i]);
	MPI_Waitall(2 * SEVERAL, requests, statuses);
	expect_all(out, BYTES, 50 + !rank, "overlapping receives");
}

/* Of host memory: headers land in one place. */
static void overlapping_host_receives(void)
{
	static char host[BYTES];
	char *device = out;
	out = host;
	overlapping_receives();
	out = device;
}

/* Of an exchange whose send MPI refuses nothing stays behind that takes a later message. */
static void refused_exchange(void)
{
	static char taken[FEW];
	MPI_Status status;
	const int error = MPI_Sendrecv(in, FEW, MPI_BYTE, 99, TAG, taken, FEW, MPI_BYTE, !rank, TAG,
				       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	expect(error != MPI_SUCCESS, "an exchange with a rank that is not there");
	MPI_Barrier(MPI_COMM_WORLD);
	fill(in, 70 + rank);
	MPI_Sendrecv(in, BYTES, MPI_BYTE, !rank, TAG, out, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD,
		     &status);
	expect_all(out, BYTES, 70 + !rank, "a message behind a refused exchange");
}

/* Messages of a type with gaps are copied to device memory, each to its own; and gaps of the receive's type stay as they are. */
static void with_gaps(void)
{
	enum { ROWS = 4000, ROW = 8, STRIDE = 24, TYPED = (ROWS - 1) * STRIDE + ROW };
	MPI_Datatype rows;
	MPI_Request requests[2];
	char *sent[2] = { in, fake_device_alloc(0, BYTES) };
	MPI_Type_vector(ROWS, ROW, STRIDE, MPI_BYTE, &rows);
	MPI_Type_commit(&rows);
	for (int turn = 0; turn < SEVERAL; turn++) {
		for (int i = 0; i < 2; i++) {
			fill(sent[i], 10 + 2 * turn + i + rank);
			MPI_Isend(sent[i], 1, rows, !rank, TAG, MPI_COMM_WORLD, &requests[i]);
		}
		for (int i = 0; i < 2; i++) {
			fill(out, 1);
			MPI_Recv(out, 1, rows, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			char *data = get(out, BYTES);
			int at = 0;
			while (at < BYTES &&
			       data[at] == (at < TYPED && at % STRIDE < ROW ? 10 + 2 * turn + i + !rank : 1))
				at++;
			free(data);
			expect(at == BYTES, "a message of a type with gaps");
		}
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	}
	MPI_Type_free(&rows);
	fake_device_free(sent[1]);
}

/* What the other rank has freed is not mapped any more some calls later. */
static void freed_memory(void)
{
	const size_t before = fake_device_mapped();
	int is_gone = 0, all_gone = 0;
	for (int i = 0; i < SEVERAL; i++) {
		char *buffer = fake_device_alloc(0, BYTES);
		MPI_Sendrecv(buffer, BYTES, MPI_BYTE, !rank, TAG, out, BYTES, MPI_BYTE, !rank, TAG,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		fake_device_free(buffer);
	}
	const double end = MPI_Wtime() + 25;
	for (int goes_on = 1; goes_on;) {
		MPI_Sendrecv(in, BYTES, MPI_BYTE, !rank, TAG, out, BYTES, MPI_BYTE, !rank, TAG,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		is_gone = fake_device_mapped() <= before + 1; /* `in` may be new. */
		MPI_Allreduce(&is_gone, &all_gone, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		goes_on = !all_gone && MPI_Wtime() < end;
		MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	expect(all_gone, "freed memory stays mapped");
}

/* Finalize has messages to deliver. */
static void left_to_finalize(void)
{
	MPI_Request request;
	fill(in, 60 + rank);
	MPI_Irecv(out, BYTES, MPI_BYTE, !rank, TAG + 2, MPI_COMM_WORLD, &request);
	MPI_Request_free(&request);
	MPI_Isend(in, BYTES, MPI_BYTE, !rank, TAG + 2, MPI_COMM_WORLD, &request);
	MPI_Request_free(&request);
}

/* ---- A rank dies between the match of a message and its pull */

static void progress_for(double seconds)
{
	int flag;
	for (const double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
		MPI_Iprobe(!rank, TAG + 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void sender_dies(void)
{
	MPI_Request request;
	if (!rank) {
		MPI_Isend(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
		progress_for(0.2);
		raise(SIGKILL);
	}
	progress_for(0.6);
	const double begin = MPI_Wtime();
	const int ret = MPI_Recv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	printf("rank 1: error %d (%d) after %.1f s\n", ret, MPI_ERR_OTHER, MPI_Wtime() - begin);
}

static void receiver_dies(void)
{
	MPI_Request request;
	if (rank) {
		MPI_Irecv(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
		progress_for(0.4);
		raise(SIGKILL);
	}
	progress_for(0.1);
	MPI_Isend(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
	const double begin = MPI_Wtime();
	const int ret = MPI_Wait(&request, MPI_STATUS_IGNORE);
	printf("rank 0: error %d after %.1f s\n", ret, MPI_Wtime() - begin);
}

/* ---- All of them */

static void run_all(void)
{
#define CASE(name)                                                                                           \
	{                                                                                                    \
#name, name                                                                                  \
	}
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = { CASE(both_send_first),       CASE(short_requests),
		      CASE(receiver_is_elsewhere), CASE(receiver_tests_once),
		      CASE(cancelled_receive),     CASE(cancelled_send),
		      CASE(freed_requests),        CASE(persistent_requests),
		      CASE(looked_at_requests),    CASE(matched_messages),
		      CASE(overlapping_receives),  CASE(overlapping_host_receives),
		      CASE(refused_exchange),      CASE(with_gaps),
		      CASE(freed_memory),          CASE(left_to_finalize) };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (!rank)
			fprintf(stderr, "# %s\n", cases[i].name);
		case_begin(cases[i].name, rank);
		cases[i].run();
	}
	case_begin("MPI_Finalize", rank);
}

int main(int argc, char **argv)
{
	int all;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	in = fake_device_alloc(0, BYTES);
	out = fake_device_alloc(1, BYTES);
	/* Behind the first message the others are read where they lie. */
	MPI_Sendrecv(in, BYTES, MPI_BYTE, !rank, TAG, out, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	if (argc > 1) {
		strcmp(argv[1], "sender_dies") ? receiver_dies() : sender_dies();
		fflush(stdout);
		_exit(0);
	}
	run_all();
	MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	MPI_Finalize();
	expect_all(out, BYTES, 60 + !rank, "a message that MPI_Finalize delivers");
	return all || failed;
}
