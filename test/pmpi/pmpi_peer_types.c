/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types of all shapes at both ends of messages by peer copies (CORALE_MPI_PEER), by each function that sends and each that receives, in time and late, whole and truncated; and more
 * of them than device memory for copies takes. Every byte is compared, those between the type's, too. test/pmpi/pmpi_peer.sh runs it by 2 ranks.
 * Usage: pmpi_peer_types [whole]   whole: no message is truncated, as MPI's own are not all alike
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmpi_peer.h"

enum { BYTES = 24000, SPAN = 8 * BYTES, BASE = SPAN / 2, TAG = 3, GAP = 0x5a, SECONDS = 60 };

static int rank, failed, truncates = 1;
static MPI_Comm comm;

static void wrong(const char *what, int is, int expected)
{
	if (failed++ < 5)
		fprintf(stderr, "# rank %d: %s: %d, not %d\n", rank, what, is, expected);
}

/* ---- Shapes: where byte i of a message is, from the buffer's address ------------------------------------ */

enum shape { WHOLE, ROWS, BACKWARDS, BEFORE, RESIZED, ABSOLUTE, SHAPES };
static const char *const shape_names[] = { "whole",
					   "rows",
					   "rows backwards",
					   "blocks before the address",
					   "elements that are resized",
					   "absolute addresses" };

static ptrdiff_t place(enum shape shape, int bytes, int i)
{
	switch (shape) {
	case ROWS:
		return i / 8 * 24 + i % 8;
	case BACKWARDS:
		return -(i / 8) * 20 + i % 8;
	case BEFORE:
	case ABSOLUTE:
		return i < bytes / 2 ? i - bytes : i + 5;
	case RESIZED:
		return i / 4 * 11 - 7 + i % 4;
	default:
		return i;
	}
}

/* bytes: a multiple of 8. *at: the buffer's address for MPI. */
static MPI_Datatype make_type(enum shape shape, int bytes, const char *base, void **at, int *count)
{
	MPI_Datatype type = MPI_BYTE, part;
	MPI_Aint here = 0;
	*at = (void *)(uintptr_t)base;
	*count = 1;
	if (shape == WHOLE) {
		*count = bytes;
		return type;
	}
	if (shape == ROWS || shape == BACKWARDS) {
		MPI_Type_create_hvector(bytes / 8, 8, shape == ROWS ? 24 : -20, MPI_BYTE, &type);
	} else if (shape == RESIZED) {
		const int length = 4;
		const MPI_Aint before = -7;
		MPI_Type_create_hindexed(1, &length, &before, MPI_BYTE, &part);
		MPI_Type_create_resized(part, -9, 11, &type);
		MPI_Type_free(&part);
		*count = bytes / 4;
	} else {
		if (shape == ABSOLUTE) {
			MPI_Get_address(base, &here);
			*at = MPI_BOTTOM;
		}
		const int lengths[] = { bytes / 2, bytes - bytes / 2 };
		const MPI_Aint places[] = { here - bytes, here + bytes / 2 + 5 };
		MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &type);
	}
	MPI_Type_commit(&type);
	return type;
}

static void free_type(MPI_Datatype *type)
{
	if (*type != MPI_BYTE)
		MPI_Type_free(type);
}

static char byte_of(int message, int i)
{
	return (char)(i * 7 + message * 31 + i / 251);
}

/* ---- Functions ------------------------------------------------------------------------------------------ */

enum sending { SEND, SSEND, BSEND, ISEND, IBSEND, START, REPLACE, SENDINGS };
static const char *const sending_names[] = { "Send",   "Ssend", "Bsend",           "Isend",
					     "Ibsend", "Start", "Sendrecv_replace" };
enum receiving { RECV, LATE, MRECV, STARTED, RECEIVINGS };
static const char *const receiving_names[] = { "Recv", "Irecv, Barrier, Wait", "Mrecv",
					       "Start, Barrier, Wait" };

struct scene {
	enum sending sending;
	enum receiving receiving;
	enum shape from, to;
	int from_memory, to_memory, room, message;
};

static void fill(char *base, const struct scene *s)
{
	char *data = get(base - BASE, SPAN);
	for (int i = 0; i < BYTES; i++)
		data[BASE + place(s->from, BYTES, i)] = byte_of(s->message, i);
	fake_device_copy(base - BASE, data, SPAN);
	free(data);
}

static char *allocate(int memory, int value)
{
	char *buffer = memory < FAKE_DEVICES ? fake_device_alloc(memory, SPAN) : malloc(SPAN);
	put(buffer, SPAN, value);
	return buffer + BASE;
}

static void release(char *base)
{
	if (fake_device_ordinal(base) >= 0)
		fake_device_free(base - BASE);
	else
		free(base - BASE);
}

static void send(const struct scene *s, int to)
{
	static MPI_Request request;
	char *base = allocate(s->from_memory, 1);
	void *at;
	int count;
	MPI_Datatype type = make_type(s->from, BYTES, base, &at, &count);
	request = MPI_REQUEST_NULL;
	if (s->sending == START) { /* the content is that of the start */
		MPI_Send_init(at, count, type, to, TAG, comm, &request);
		fill(base, s);
		MPI_Start(&request);
	} else {
		fill(base, s);
	}
	if (s->sending == SEND)
		MPI_Send(at, count, type, to, TAG, comm);
	if (s->sending == SSEND)
		MPI_Ssend(at, count, type, to, TAG, comm);
	if (s->sending == BSEND)
		MPI_Bsend(at, count, type, to, TAG, comm);
	if (s->sending == ISEND)
		MPI_Isend(at, count, type, to, TAG, comm, &request);
	if (s->sending == IBSEND)
		MPI_Ibsend(at, count, type, to, TAG, comm, &request);
	if (s->sending == REPLACE)
		MPI_Sendrecv_replace(at, count, type, to, TAG, MPI_PROC_NULL, TAG, comm, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	put(base - BASE, SPAN, 0x77); /* the send is complete */
	if (s->sending == START)
		MPI_Request_free(&request);
	free_type(&type);
	release(base);
}

static void check(const struct scene *s, const char *base, const MPI_Status *status, int error)
{
	const int is_truncated = s->room < BYTES;
	int count = -1, class = error;
	if (error)
		MPI_Error_class(error, &class);
	if (class != (is_truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
		wrong("error", class, is_truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
	MPI_Get_elements(status, MPI_BYTE, &count);
	if (!is_truncated && (count != BYTES || status->MPI_SOURCE != 0 || status->MPI_TAG != TAG))
		wrong("count", count, BYTES);
	char *data = get(base - BASE, SPAN), *expected = malloc(SPAN);
	memset(expected, GAP, SPAN);
	for (int i = 0; i < s->room; i++)
		expected[BASE + place(s->to, s->room, i)] = byte_of(s->message, i);
	for (int i = 0; i < SPAN; i++)
		if (data[i] != expected[i]) {
			wrong("byte", data[i], expected[i]);
			break;
		}
	free(expected);
	free(data);
}

static void receive(const struct scene *s)
{
	char *base = allocate(s->to_memory, GAP);
	MPI_Request request = MPI_REQUEST_NULL;
	MPI_Message message;
	MPI_Status status;
	void *at;
	int count, error = MPI_SUCCESS;
	MPI_Datatype type = make_type(s->to, s->room, base, &at, &count);
	if (s->receiving == LATE)
		MPI_Irecv(at, count, type, 0, TAG, comm, &request);
	if (s->receiving == STARTED) {
		MPI_Recv_init(at, count, type, 0, TAG, comm, &request);
		MPI_Start(&request);
	}
	if (s->receiving == LATE || s->receiving == STARTED) {
		MPI_Barrier(comm);
		error = MPI_Wait(&request, &status);
	} else if (s->receiving == MRECV) {
		MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status);
		error = MPI_Mrecv(at, count, type, &message, &status);
	} else {
		error = MPI_Recv(at, count, type, MPI_ANY_SOURCE, TAG, comm, &status);
	}
	check(s, base, &status, error);
	if (s->receiving == STARTED)
		MPI_Request_free(&request);
	free_type(&type);
	release(base);
}

static void run(const struct scene *s)
{
	const int before = failed;
	if (!rank)
		send(s, 1);
	if (!rank && (s->receiving == LATE || s->receiving == STARTED))
		MPI_Barrier(comm);
	if (rank)
		receive(s);
	if (failed && !before)
		fprintf(stderr, "# %s of %s (memory %d) to %s into %s (memory %d), room %d of %d\n",
			sending_names[s->sending], shape_names[s->from], s->from_memory,
			receiving_names[s->receiving], shape_names[s->to], s->to_memory, s->room, BYTES);
}

static void all_shapes(void)
{
	for (int n = 0; n < SHAPES * SHAPES; n++)
		for (int sending = 0; sending < SENDINGS; sending++) {
			const int turn =
			    n + sending; /* each receive and memory with each shape, not all with all */
			const struct scene s = { .sending = (enum sending)sending,
						 .receiving = (enum receiving)(turn % RECEIVINGS),
						 .from = (enum shape)(n / SHAPES),
						 .to = (enum shape)(n % SHAPES),
						 .from_memory = turn % FAKE_DEVICES,
						 .to_memory = turn / 2 % (FAKE_DEVICES + 1),
						 .room = turn % 5 || !truncates ? BYTES : BYTES / 16 * 8,
						 .message = turn };
			run(&s);
		}
}

/* ---- More unmatched messages than device memory for copies takes, and a communicator that is freed --------- */

static void many_unmatched(void)
{
	enum { MANY = 6, ROW = 1 << 20, ROWS_N = 33, STRIDE = ROW + 8, SHIFT = 16 };
	const size_t span = (size_t)ROWS_N * STRIDE + MANY * SHIFT, bytes = (size_t)ROWS_N * ROW;
	MPI_Request requests[MANY];
	MPI_Status statuses[MANY];
	MPI_Datatype type;
	MPI_Type_create_hvector(ROWS_N, ROW, STRIDE, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	char *device = fake_device_alloc(0, span), *host = malloc(span);
	for (size_t i = 0; i < span; i++)
		host[i] = (char)(i * 13 + i / 4099);
	if (!rank) {
		fake_device_copy(device, host, span);
		for (int k = 0; k < MANY; k++)
			MPI_Isend(device + k * SHIFT, 1, type, 1, TAG + k, comm, &requests[k]);
		MPI_Barrier(comm);
		MPI_Waitall(MANY, requests, statuses);
	} else {
		MPI_Barrier(comm);
		for (int k = MANY - 1; k >= 0; k--) {
			MPI_Recv(device, (int)bytes, MPI_BYTE, 0, TAG + k, comm, MPI_STATUS_IGNORE);
			char *data = get(device, bytes);
			for (int row = 0; row < ROWS_N; row++)
				if (memcmp(data + (size_t)row * ROW, host + k * SHIFT + (size_t)row * STRIDE,
					   ROW)) {
					wrong("a row of many messages, of message", k, -1);
					break;
				}
			free(data);
		}
	}
	free(host);
	fake_device_free(device);
	MPI_Type_free(&type);
}

static void freed_communicator(void)
{
	const MPI_Comm before = comm;
	const struct scene s = { .sending = ISEND,
				 .from = ROWS,
				 .to = BACKWARDS,
				 .from_memory = 0,
				 .to_memory = 0,
				 .room = BYTES,
				 .message = 5 };
	char *base[2] = { allocate(0, 1), allocate(0, GAP) };
	MPI_Datatype types[2];
	MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	MPI_Status statuses[2];
	void *at[2];
	int counts[2];
	MPI_Comm_dup(before, &comm);
	types[0] = make_type(s.from, BYTES, base[0], &at[0], &counts[0]);
	types[1] = make_type(s.to, BYTES, base[1], &at[1], &counts[1]);
	fill(base[0], &s);
	if (rank)
		MPI_Irecv(at[1], counts[1], types[1], 0, TAG, comm, &requests[1]);
	else
		MPI_Isend(at[0], counts[0], types[0], 1, TAG, comm, &requests[0]);
	free_type(&types[0]);
	free_type(&types[1]);
	MPI_Comm_free(&comm);
	MPI_Waitall(2, requests, statuses);
	if (rank)
		check(&s, base[1], &statuses[1], MPI_SUCCESS);
	release(base[0]);
	release(base[1]);
	comm = before;
}

/* Each message comes as often as it was not cancelled, and what follows is not mistaken for it. */
static void cancelled_and_freed(void)
{
	struct scene s = { .sending = ISEND,
			   .receiving = RECV,
			   .from = RESIZED,
			   .to = ROWS,
			   .from_memory = 0,
			   .to_memory = 1,
			   .room = BYTES };
	for (s.message = 0; s.message < 8; s.message++) {
		char *base = allocate(0, 1);
		int is_cancelled = 0, count;
		void *at;
		MPI_Datatype type = make_type(s.from, BYTES, base, &at, &count);
		if (!rank) {
			MPI_Request request;
			MPI_Status status;
			fill(base, &s);
			MPI_Isend(at, count, type, 1, TAG, comm, &request);
			if (s.message % 2) {
				MPI_Request_free(&request);
			} else {
				MPI_Cancel(&request);
				for (int flag = 0, i = 0; i < 100 && !flag; i++)
					MPI_Request_get_status(request, &flag, &status);
				MPI_Request_free(&request);
			}
			MPI_Send(&is_cancelled, 1, MPI_INT, 1, TAG + 1, comm);
		} else {
			MPI_Recv(&is_cancelled, 1, MPI_INT, 0, TAG + 1, comm, MPI_STATUS_IGNORE);
			int flag = 0;
			for (int i = 0; i < 100 && !flag; i++)
				MPI_Iprobe(0, TAG, comm, &flag, MPI_STATUS_IGNORE);
			if (flag)
				receive(&s);
			else if (s.message % 2)
				wrong("a freed send, of message", s.message, -1);
		}
		MPI_Barrier(comm);
		free_type(&type);
		release(base);
	}
}

int main(int argc, char **argv)
{
	static char buffered[16 * (BYTES + MPI_BSEND_OVERHEAD)];
	int all;
	MPI_Init(&argc, &argv);
	alarm(SECONDS);
	truncates = argc < 2;
	comm = MPI_COMM_WORLD;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Buffer_attach(buffered, sizeof buffered);
	all_shapes();
	many_unmatched();
	freed_communicator();
	cancelled_and_freed();
	void *detached;
	int bytes;
	MPI_Buffer_detach(&detached, &bytes);
	MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_MAX, comm);
	MPI_Finalize();
	return all > 0;
}
