/* SPDX-License-Identifier: BSD-3-Clause */
/* Scenes of blocking functions and of requests. */
#include <stdlib.h>
#include <string.h>

#include "pmpi_p2p.h"

enum { TAG = 3, OTHER_TAG = 4, N = 1000 };

/* ---- Blocking ------------------------------------------------------------------------------------------ */

/* To the right, one after the other, so that sends may wait for their receives. */
static void pass(struct run *r, __typeof__(&PMPI_Send) send, int bytes)
{
	MPI_Status status;
	if (rank)
		r->mpi->Recv(r->b[1], bytes, MPI_BYTE, left(), TAG, r->comm, &status);
	if (rank < size - 1)
		send(r->b[0], bytes, MPI_BYTE, right(), TAG, r->comm);
	if (rank)
		note_status(r, &status, MPI_BYTE);
}

static void sends(struct run *r)
{
	const int sizes[] = { 0, 1, 1000, 100000, BUFFER_BYTES };
	for (int i = 0; i < 5; i++) {
		pass(r, r->mpi->Send, sizes[i]);
		pass(r, r->mpi->Ssend, sizes[i]);
		pass(r, r->mpi->Bsend, sizes[i]);
		poke(r, 0, 0, i);
	}
}

/* The receive is there, as a message that is sent behind it shows. */
static void ready_sends(struct run *r)
{
	MPI_Request requests[2];
	r->mpi->Irecv(r->b[1], N, MPI_BYTE, left(), TAG, r->comm, &requests[0]);
	r->mpi->Irecv(r->b[2], N, MPI_BYTE, left(), OTHER_TAG, r->comm, &requests[1]);
	PMPI_Barrier(r->comm);
	r->mpi->Rsend(r->b[0], N, MPI_BYTE, right(), TAG, r->comm);
	MPI_Request ready;
	r->mpi->Irsend(r->b[0], N / 2, MPI_BYTE, right(), OTHER_TAG, r->comm, &ready);
	r->mpi->Wait(&ready, MPI_STATUS_IGNORE);
	r->mpi->Waitall(2, requests, no_statuses);
}

static void exchanges(struct run *r)
{
	const int counts[] = { 0, 1, 777, 50000 };
	MPI_Status status;
	for (int i = 0; i < 4; i++) {
		r->mpi->Sendrecv(r->b[0], counts[i], MPI_INT, right(), TAG, r->b[1], 60000, MPI_INT, left(),
				 TAG, r->comm, &status);
		note_status(r, &status, MPI_INT);
		r->mpi->Sendrecv_replace(r->b[2], counts[i], MPI_DOUBLE, left(), TAG, right(), TAG, r->comm,
					 &status);
		note_status(r, &status, MPI_DOUBLE);
	}
	r->mpi->Sendrecv_replace(r->b[3], 10, MPI_DOUBLE, left(), TAG, right(), TAG, r->comm,
				 MPI_STATUS_IGNORE);
}

/* A message that is shorter than the buffer leaves the rest of it. */
static void short_messages(struct run *r)
{
	MPI_Status status;
	MPI_Request request;
	r->mpi->Irecv(r->b[1], BUFFER_BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, r->comm, &request);
	r->mpi->Send(r->b[0], 10 + rank, MPI_BYTE, right(), TAG + rank, r->comm);
	r->mpi->Wait(&request, &status);
	note_status(r, &status, MPI_BYTE);
	note_status(r, &status, MPI_INT);
}

static void to_nobody(struct run *r)
{
	MPI_Status status;
	MPI_Request requests[2];
	r->mpi->Send(r->b[0], N, MPI_BYTE, MPI_PROC_NULL, TAG, r->comm);
	r->mpi->Recv(r->b[1], N, MPI_BYTE, MPI_PROC_NULL, TAG, r->comm, &status);
	note_status(r, &status, MPI_BYTE);
	r->mpi->Isend(r->b[0], N, MPI_BYTE, MPI_PROC_NULL, TAG, r->comm, &requests[0]);
	r->mpi->Irecv(r->b[1], N, MPI_BYTE, MPI_PROC_NULL, TAG, r->comm, &requests[1]);
	r->mpi->Waitall(2, requests, no_statuses);
	/* A line that is no ring: the ends have one neighbour. */
	const int up = rank < size - 1 ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL;
	r->mpi->Sendrecv(r->b[0], N, MPI_BYTE, up, TAG, r->b[2], N, MPI_BYTE, down, TAG, r->comm, &status);
	note_status(r, &status, MPI_BYTE);
	r->mpi->Sendrecv_replace(r->b[3], N, MPI_BYTE, down, TAG, up, TAG, r->comm, &status);
	note_status(r, &status, MPI_BYTE);
}

/* Messages of all ranks to the last one, whose lengths only a probe tells. */
static void wildcards(struct run *r)
{
	const int last = size - 1;
	MPI_Status status;
	if (rank != last)
		r->mpi->Send(r->b[0], 100 * (rank + 1), MPI_INT, last, 40 + rank, r->comm);
	for (int i = 0; rank == last && i < last; i++) {
		int count;
		MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, r->comm, &status);
		PMPI_Get_count(&status, MPI_INT, &count);
		r->mpi->Recv(r->b[1] + 10000 * status.MPI_SOURCE, count, MPI_INT, MPI_ANY_SOURCE,
			     status.MPI_TAG, r->comm, &status);
	}
	PMPI_Barrier(r->comm);
}

static void matched_probes(struct run *r)
{
	MPI_Request send, receive;
	MPI_Message message;
	MPI_Status status;
	int is_there = 0;
	r->mpi->Isend(r->b[0], N, MPI_INT, right(), TAG, r->comm, &send);
	MPI_Mprobe(left(), TAG, r->comm, &message, &status);
	r->mpi->Mrecv(r->b[1], N + 5, MPI_INT, &message, &status);
	note_status(r, &status, MPI_INT);
	r->mpi->Wait(&send, MPI_STATUS_IGNORE);
	r->mpi->Isend(r->b[0], 2 * N, MPI_INT, right(), TAG, r->comm, &send);
	while (!is_there)
		MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, r->comm, &is_there, &message, MPI_STATUS_IGNORE);
	r->mpi->Imrecv(r->b[2], 2 * N, MPI_INT, &message, &receive);
	r->mpi->Wait(&receive, &status);
	note_status(r, &status, MPI_INT);
	r->mpi->Wait(&send, MPI_STATUS_IGNORE);
	MPI_Mprobe(MPI_PROC_NULL, TAG, r->comm, &message, MPI_STATUS_IGNORE);
	r->mpi->Mrecv(r->b[3], N, MPI_INT, &message, &status);
	note_status(r, &status, MPI_INT);
}

/* An error of MPI is MPI's. */
static void truncated(struct run *r)
{
	MPI_Request request;
	int error_class = -1;
	r->mpi->Isend(r->b[0], 2000, MPI_BYTE, right(), TAG, r->comm, &request);
	const int error = r->mpi->Recv(r->b[1], 1000, MPI_BYTE, left(), TAG, r->comm, MPI_STATUS_IGNORE);
	MPI_Error_class(error, &error_class);
	note(r, error_class == MPI_ERR_TRUNCATE);
	r->mpi->Wait(&request, MPI_STATUS_IGNORE);
	/* What such a receive leaves in its buffer is not defined: the next message hides it. */
	r->mpi->Sendrecv(r->b[0], 2000, MPI_BYTE, right(), TAG, r->b[1], 2000, MPI_BYTE, left(), TAG, r->comm,
			 MPI_STATUS_IGNORE);
}

const struct scene blocking_scenes[] = { { "sends of three modes", sends },
					 { "ready sends", ready_sends },
					 { "exchanges", exchanges },
					 { "messages shorter than their buffers", short_messages },
					 { "MPI_PROC_NULL", to_nobody },
					 { "wildcards and probes", wildcards },
					 { "matched probes", matched_probes },
					 { "a truncated message", truncated },
					 { NULL, NULL } };

/* ---- Requests ------------------------------------------------------------------------------------------ */

enum { PIECES = 24 };

/* Piece i of both neighbours' messages. The sizes are from 0 to 30 KB. */
static int piece_bytes(int i)
{
	return i * i * 53;
}

/* A send and a receive for each piece, in any order: 2 * PIECES requests. */
static void post(struct run *r, MPI_Request *requests)
{
	for (int i = 0; i < PIECES; i++) {
		const size_t at = (size_t)i * 32768;
		__typeof__(&PMPI_Isend) modes[] = { r->mpi->Isend, r->mpi->Issend, r->mpi->Ibsend };
		r->mpi->Irecv(r->b[1 + i % 2] + at, piece_bytes(i), MPI_BYTE, left(), i, r->comm,
			      &requests[2 * i]);
		modes[i % 3](r->b[i % 2 ? 0 : 3] + at, piece_bytes(i), MPI_BYTE, right(), i, r->comm,
			     &requests[2 * i + 1]);
	}
}

static void wait_all(struct run *r)
{
	MPI_Request requests[2 * PIECES];
	MPI_Status statuses[2 * PIECES];
	post(r, requests);
	r->mpi->Waitall(2 * PIECES, requests, statuses);
	for (int i = 0; i < 2 * PIECES; i++) {
		note(r, requests[i] == MPI_REQUEST_NULL);
		if (i % 2 == 0)
			note_status(r, &statuses[i], MPI_BYTE);
	}
	post(r, requests);
	r->mpi->Waitall(2 * PIECES, requests, no_statuses);
}

static void one_by_one(struct run *r)
{
	MPI_Request requests[2 * PIECES];
	MPI_Status status;
	post(r, requests);
	for (int i = 0; i < 2 * PIECES; i++) {
		int flag = 0;
		if (i % 3)
			r->mpi->Wait(&requests[i], i % 2 ? MPI_STATUS_IGNORE : &status);
		else
			while (!flag)
				r->mpi->Test(&requests[i], &flag, i % 2 ? MPI_STATUS_IGNORE : &status);
		if (i % 2 == 0)
			note_status(r, &status, MPI_BYTE);
	}
}

static void any(struct run *r)
{
	MPI_Request requests[2 * PIECES];
	int index, flag, done = 0, sum = 0;
	post(r, requests);
	for (int i = 0; i < PIECES; i++, done++) {
		r->mpi->Waitany(2 * PIECES, requests, &index, MPI_STATUS_IGNORE);
		sum += index;
	}
	while (done < 2 * PIECES) {
		r->mpi->Testany(2 * PIECES, requests, &index, &flag, MPI_STATUS_IGNORE);
		if (flag) {
			sum += index;
			done++;
		}
	}
	note(r, sum);
	r->mpi->Waitany(2 * PIECES, requests, &index, MPI_STATUS_IGNORE);
	note(r, index == MPI_UNDEFINED);
}

static void some(struct run *r)
{
	MPI_Request requests[2 * PIECES];
	MPI_Status statuses[2 * PIECES];
	int indices[2 * PIECES], count, done = 0, bytes = 0;
	post(r, requests);
	for (int turn = 0; done < 2 * PIECES; turn++, done += count) {
		(turn % 2 ? r->mpi->Waitsome : r->mpi->Testsome)(2 * PIECES, requests, &count, indices,
								 statuses);
		for (int i = 0; i < count; i++) {
			int got;
			PMPI_Get_count(&statuses[i], MPI_BYTE, &got);
			bytes += indices[i] % 2 ? 0 : got;
		}
	}
	note(r, bytes);
	r->mpi->Testsome(2 * PIECES, requests, &count, indices, no_statuses);
	note(r, count == MPI_UNDEFINED);
}

static void test_all(struct run *r)
{
	MPI_Request requests[2 * PIECES];
	int flag = 0;
	post(r, requests);
	while (!flag)
		r->mpi->Testall(2 * PIECES, requests, &flag, no_statuses);
	for (int i = 0; i < 2 * PIECES; i++)
		note(r, requests[i] == MPI_REQUEST_NULL);
}

static void look(struct run *r)
{
	MPI_Request request, send;
	MPI_Status status;
	int flag = 0;
	r->mpi->Irecv(r->b[1], N, MPI_BYTE, left(), TAG, r->comm, &request);
	r->mpi->Isend(r->b[0], N, MPI_BYTE, right(), TAG, r->comm, &send);
	while (!flag)
		r->mpi->Request_get_status(request, &flag, &status);
	note(r, peek(r, 1, 0));
	note(r, peek(r, 1, N - 1));
	note_status(r, &status, MPI_BYTE);
	poke(r, 1, 5, 77); /* the data is delivered once */
	r->mpi->Wait(&request, &status);
	note_status(r, &status, MPI_BYTE);
	r->mpi->Wait(&send, MPI_STATUS_IGNORE);
}

static void freed(struct run *r)
{
	MPI_Request request;
	for (int i = 0; i < 20; i++) {
		r->mpi->Isend(r->b[0] + 100 * i, 20000, MPI_BYTE, right(), TAG, r->comm, &request);
		r->mpi->Request_free(&request);
		note(r, request == MPI_REQUEST_NULL);
	}
	for (int i = 0; i < 20; i++)
		r->mpi->Recv(r->b[1] + 20000 * i, 20000, MPI_BYTE, left(), TAG, r->comm, MPI_STATUS_IGNORE);
	PMPI_Barrier(r->comm);
}

/* A receive that is freed while it is active: the message comes, and its buffer has it soon behind. */
static void freed_receive(struct run *r)
{
	MPI_Request request, none = MPI_REQUEST_NULL;
	int flag;
	poke(r, 1, 99, 0);
	poke(r, 0, 99, 1);
	r->mpi->Irecv(r->b[1], 100, MPI_BYTE, left(), TAG, r->comm, &request);
	r->mpi->Request_free(&request);
	r->mpi->Send(r->b[0], 100, MPI_BYTE, right(), TAG, r->comm);
	while (!peek(r, 1, 99)) {
		MPI_Iprobe(MPI_ANY_SOURCE, OTHER_TAG, r->comm, &flag, MPI_STATUS_IGNORE);
		r->mpi->Test(&none, &flag, MPI_STATUS_IGNORE);
	}
	PMPI_Barrier(r->comm);
}

static void cancelled(struct run *r)
{
	MPI_Request request;
	MPI_Status status;
	int flag;
	r->mpi->Irecv(r->b[1], N, MPI_BYTE, left(), TAG, r->comm, &request);
	MPI_Cancel(&request);
	r->mpi->Wait(&request, &status);
	MPI_Test_cancelled(&status, &flag);
	note(r, flag);
}

static void persistent(struct run *r)
{
	MPI_Request requests[5];
	int flag, index;
	MPI_Status status;
	r->mpi->Recv_init(r->b[1], N, MPI_INT, left(), 0, r->comm, &requests[0]);
	r->mpi->Send_init(r->b[0], N, MPI_INT, right(), 0, r->comm, &requests[1]);
	r->mpi->Recv_init(r->b[2], N, MPI_INT, left(), 1, r->comm, &requests[2]);
	r->mpi->Ssend_init(r->b[3], N, MPI_INT, right(), 1, r->comm, &requests[3]);
	r->mpi->Bsend_init(r->b[0], N, MPI_INT, right(), 2, r->comm, &requests[4]);
	for (int turn = 0; turn < 4; turn++) {
		MPI_Request receive;
		poke(r, 0, 1, turn);
		poke(r, 3, 1, turn);
		r->mpi->Irecv(r->b[1] + 8 * N, N, MPI_INT, left(), 2, r->comm, &receive);
		r->mpi->Startall(4, requests);
		r->mpi->Start(&requests[4]);
		r->mpi->Wait(&requests[0], &status);
		note_status(r, &status, MPI_INT);
		poke(r, 1, 2, -turn); /* a wait of an inactive request delivers nothing */
		r->mpi->Wait(&requests[0], MPI_STATUS_IGNORE);
		for (flag = 0; !flag;)
			r->mpi->Testall(5, requests, &flag, no_statuses);
		r->mpi->Waitany(5, requests, &index, MPI_STATUS_IGNORE);
		note(r, index == MPI_UNDEFINED);
		r->mpi->Wait(&receive, MPI_STATUS_IGNORE);
	}
	for (int i = 0; i < 5; i++)
		r->mpi->Request_free(&requests[i]);
}

/* A persistent request that is freed while it is active. */
static void freed_persistent(struct run *r)
{
	MPI_Request request;
	r->mpi->Send_init(r->b[0], N, MPI_INT, right(), 0, r->comm, &request);
	r->mpi->Start(&request);
	r->mpi->Request_free(&request);
	note(r, request == MPI_REQUEST_NULL);
	r->mpi->Recv(r->b[1], N, MPI_INT, left(), 0, r->comm, MPI_STATUS_IGNORE);
	PMPI_Barrier(r->comm);
}

/* The program may change gaps of a type while a receive into it is active. */
static void gaps(struct run *r)
{
	MPI_Datatype type;
	MPI_Request requests[2];
	MPI_Type_vector(100, 2, 5, MPI_INT, &type);
	MPI_Type_commit(&type);
	r->mpi->Irecv(r->b[1], 3, type, left(), TAG, r->comm, &requests[0]);
	for (int i = 0; i < 100; i++)
		poke(r, 1, (size_t)i * 20 + 9, i);
	PMPI_Barrier(r->comm);
	r->mpi->Isend(r->b[0], 2, type, right(), TAG, r->comm, &requests[1]);
	MPI_Type_free(&type); /* while both are active */
	r->mpi->Waitall(2, requests, no_statuses);
}

const struct scene request_scenes[] = { { "MPI_Waitall", wait_all },
					{ "MPI_Wait and MPI_Test", one_by_one },
					{ "MPI_Waitany and MPI_Testany", any },
					{ "MPI_Waitsome and MPI_Testsome", some },
					{ "MPI_Testall", test_all },
					{ "MPI_Request_get_status", look },
					{ "freed sends", freed },
					{ "a freed receive", freed_receive },
					{ "a cancelled receive", cancelled },
					{ "persistent requests", persistent },
					{ "a freed persistent request", freed_persistent },
					{ "gaps change while a receive is active", gaps },
					{ NULL, NULL } };
