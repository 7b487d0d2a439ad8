/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that the MPI door must not change: legal ones that need MPI to go on while a collective waits, ranks with other kinds of memory than their peers, more
 * communicators than Corale makes, derived types, neighbours, intercommunicators, threads. Buffers are the fake device's that is loaded in front.
 * Usage: pmpi_cases CASE; rank 0 prints "ok", or what was wrong. The cases "sizes": calls that end with errors, and "die": rank 0 dies in a call, the others print after how long they returned an error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "case_alarm.h"

enum { N = 20000 };

/* Persistent collectives: Open MPI has them from 5 on, though it says that it is MPI 3.1. */
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
#define HAS_PERSISTENT 1
#else
#define HAS_PERSISTENT 0
#endif

static void *(*device_alloc)(int, size_t);
static void (*device_free)(void *), (*device_copy)(void *, const void *, size_t);
static int rank, size;

static double *doubles(int is_device, int n, double value)
{
	double *host = malloc(sizeof(double) * (size_t)n), *at = host;
	for (int i = 0; i < n; i++)
		host[i] = value;
	if (is_device) {
		at = device_alloc(0, sizeof(double) * (size_t)n);
		device_copy(at, host, sizeof(double) * (size_t)n);
		free(host);
	}
	return at;
}

static int differ(int is_device, const double *at, int n, double value)
{
	double *host = malloc(sizeof(double) * (size_t)n);
	int wrong = 0;
	if (is_device)
		device_copy(host, at, sizeof(double) * (size_t)n);
	else
		memcpy(host, at, sizeof(double) * (size_t)n);
	for (int i = 0; i < n; i++)
		wrong += host[i] != value;
	free(host);
	return wrong;
}

static void release(int is_device, double *at)
{
	if (is_device)
		device_free(at);
	else
		free(at);
}

static int all_reduce(MPI_Comm comm, int is_device, int n)
{
	int ranks, wrong;
	MPI_Comm_size(comm, &ranks);
	double *in = doubles(is_device, n, 1), *out = doubles(is_device, n, 0);
	MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm);
	wrong = differ(is_device, out, n, ranks);
	release(is_device, in);
	release(is_device, out);
	return wrong;
}

/* ---- MPI goes on while Corale waits */

/* A message that is only sent while its sender is in MPI. */
static int send_then_reduce(void)
{
	const int n = 1 << 20, from = (rank + size - 1) % size, to = (rank + 1) % size;
	double *message = doubles(0, n, rank), *got = doubles(0, n, -1);
	MPI_Request request;
	int wrong = all_reduce(MPI_COMM_WORLD, 1, N);
	if (size == 1)
		return wrong;
	if (rank % 2 == 0 && to != 0) {
		MPI_Isend(message, n, MPI_DOUBLE, to, 0, MPI_COMM_WORLD, &request);
		wrong += all_reduce(MPI_COMM_WORLD, 1, N);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else {
		if (rank % 2 == 1) {
			MPI_Recv(got, n, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			wrong += differ(0, got, n, from);
		}
		wrong += all_reduce(MPI_COMM_WORLD, 1, N);
	}
	free(message);
	free(got);
	return wrong;
}

static int broadcast_beside(void)
{
	MPI_Comm other;
	MPI_Request request;
	double *data = doubles(0, N, rank == 0 ? 7 : 0);
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	int wrong = all_reduce(MPI_COMM_WORLD, 1, N);
	MPI_Ibcast(data, N, MPI_DOUBLE, 0, other, &request);
	if (rank == size - 1)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	wrong += all_reduce(MPI_COMM_WORLD, 1, N);
	if (rank != size - 1)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	wrong += differ(0, data, N, 7);
	free(data);
	MPI_Comm_free(&other);
	return wrong;
}

/* ---- Kinds of memory */

static int alternating(void)
{
	int wrong = 0;
	for (int i = 0; i < 300; i++)
		wrong += all_reduce(MPI_COMM_WORLD, i % 2, 64);
	return wrong;
}

static int late_device(void)
{
	int wrong = 0;
	for (int i = 0; i < 700; i++)
		wrong += all_reduce(MPI_COMM_WORLD, i > 350 && (i + rank) % 3 == 0, 16);
	return wrong;
}

static int device_on_one_rank(void)
{
	int wrong = 0;
	for (int i = 0; i < 100; i++)
		wrong += all_reduce(MPI_COMM_WORLD, rank == i % size, 8 << i % 10);
	return wrong;
}

/* ---- Communicators */

static int many_communicators(void)
{
	enum { COMMS = 12 };
	MPI_Comm comms[COMMS];
	int wrong = 0;
	for (int i = 0; i < COMMS; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? rank % 2 : 0, i % 3 ? rank : -rank, &comms[i]);
		wrong += all_reduce(comms[i], 1, 100);
	}
	for (int i = 0; i < COMMS; i++) {
		wrong += all_reduce(comms[i], 1, 100);
		if (i % 2)
			MPI_Comm_free(&comms[i]); /* the others are there at MPI_Finalize */
	}
	return wrong + all_reduce(MPI_COMM_SELF, 1, 100);
}

/* Of so many calls on a duplicate Corale runs those behind the second; of the next one those behind the ninth at the earliest, as the first has earned nothing. */
static int few_calls(void)
{
	static const int calls[] = { 2, 5, 8, 20 };
	int wrong = 0;
	for (int i = 0; i < 4; i++) {
		MPI_Comm comm;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int k = 0; k < calls[i]; k++)
			wrong += all_reduce(comm, 1, 100);
		MPI_Comm_free(&comm);
	}
	return wrong;
}

static int short_lived(void)
{
	int wrong = 0;
	for (int i = 0; i < 40; i++) {
		MPI_Comm comm;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		wrong += all_reduce(comm, 1, 100);
		MPI_Comm_free(&comm);
	}
	return wrong;
}

static int intercommunicator(void)
{
	MPI_Comm half, inter;
	int wrong, mine = rank % 2;
	double *in = doubles(1, 100, 1 + mine), *out = doubles(1, 100, 0);
	if (size < 2)
		return 0;
	MPI_Comm_split(MPI_COMM_WORLD, mine, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - mine, 3, &inter);
	MPI_Allreduce(in, out, 100, MPI_DOUBLE, MPI_SUM, inter);
	int remote;
	MPI_Comm_remote_size(inter, &remote);
	wrong = differ(1, out, 100, (2 - mine) * remote);
	MPI_Bcast(mine ? out : in, 100, MPI_DOUBLE, mine ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
	if (mine)
		wrong += differ(1, out, 100, 1);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
	release(1, in);
	release(1, out);
	return wrong;
}

/* ---- Types and topologies */

/* Every second element; the ones between stay as they are. */
static int vector_type(void)
{
	MPI_Datatype vector;
	int wrong = 0;
	double *data = doubles(1, N, -1), *host = malloc(N * sizeof *host), *twos = doubles(1, N / 2, 2);
	MPI_Type_vector(N / 2, 1, 2, MPI_DOUBLE, &vector);
	MPI_Type_commit(&vector);
	for (int i = 0; i < 3; i++) {
		if (rank == 0)
			MPI_Bcast(twos, N / 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
		else
			MPI_Bcast(data, 1, vector, 0, MPI_COMM_WORLD);
	}
	device_copy(host, data, N * sizeof *host);
	for (int i = 0; i < N; i++)
		wrong += host[i] != (rank && i % 2 == 0 ? 2 : -1);
	MPI_Type_free(&vector);
	free(host);
	release(1, data);
	release(1, twos);
	return wrong;
}

static int neighbours(void)
{
	MPI_Comm line;
	const int periods = 0;
	int wrong = 0, below, above;
	double *mine = doubles(1, 10, rank), *got = doubles(1, 20, -5);
	MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periods, 0, &line);
	MPI_Cart_shift(line, 0, 1, &below, &above);
	MPI_Neighbor_allgather(mine, 10, MPI_DOUBLE, got, 10, MPI_DOUBLE, line);
	wrong += differ(1, got, 10, below == MPI_PROC_NULL ? -5 : below);
	wrong += differ(1, got + 10, 10, above == MPI_PROC_NULL ? -5 : above);
	MPI_Comm_free(&line);
	release(1, mine);
	release(1, got);
	return wrong;
}

static void twice(void *in, void *out, int *n, MPI_Datatype *type)
{
	for (int i = 0; i < *n; i++)
		((double *)out)[i] += 2 * ((double *)in)[i];
}

static int user_operator(void)
{
	MPI_Op op;
	int wrong, all;
	double *in = doubles(1, 100, 1), *out = doubles(1, 100, 0);
	MPI_Op_create(twice, 1, &op);
	MPI_Allreduce(in, out, 100, MPI_DOUBLE, op, MPI_COMM_WORLD);
	double first;
	device_copy(&first, out, sizeof first);
	wrong = differ(1, out, 100, first) + (size == 2 && first != 3);
	MPI_Op_free(&op);
	struct pair {
		double value;
		int at;
	} pair = { rank, rank }, *pairs = device_alloc(0, sizeof pair), *most = device_alloc(0, sizeof pair);
	device_copy(pairs, &pair, sizeof pair);
	MPI_Allreduce(pairs, most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	device_copy(&pair, most, sizeof pair);
	wrong += pair.at != size - 1;
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return wrong;
}

/* The gaps of pairs, and the elements behind the last one, stay as they are. */
static int reduce_local(void)
{
	struct pair {
		double value;
		int at, gap;
	} mine[3] = { { 1, 1, 10 }, { 5, 2, 11 }, { 9, 9, 12 } }, other[2] = { { 2, 3, 20 }, { 4, 4, 21 } },
	  *in = device_alloc(0, sizeof other), *inout = device_alloc(1, sizeof mine);
	int wrong = 0;
	device_copy(in, other, sizeof other);
	device_copy(inout, mine, sizeof mine);
	MPI_Reduce_local(in, inout, 2, MPI_DOUBLE_INT, MPI_MAXLOC);
	device_copy(mine, inout, sizeof mine);
	wrong += mine[0].value != 2 || mine[0].at != 3 || mine[0].gap != 10;
	wrong += mine[1].value != 5 || mine[1].at != 2 || mine[1].gap != 11 || mine[2].value != 9;
	double *sum = doubles(1, 100, 1), *host = doubles(0, 100, 2);
	MPI_Reduce_local(host, sum, 99, MPI_DOUBLE, MPI_SUM);
	wrong += differ(1, sum, 99, 3) + differ(1, sum + 99, 1, 1);
#if MPI_VERSION >= 4
	MPI_Reduce_local_c(sum, host, 99, MPI_DOUBLE, MPI_SUM);
#else
	MPI_Reduce_local(sum, host, 99, MPI_DOUBLE, MPI_SUM);
#endif
	wrong += differ(0, host, 99, 5) + differ(0, host + 99, 1, 2);
	device_free(in);
	device_free(inout);
	release(1, sum);
	free(host);
	return wrong;
}

/* ---- Persistent collectives */

#if HAS_PERSISTENT
/* A call that completes requests finds nothing to do for one that has not been started, whatever the program has put into the buffer since. */
static int inactive(void)
{
	double *in = doubles(1, N, 1), *out = doubles(1, N, 0), *own = doubles(1, N, -3);
	MPI_Request request;
	MPI_Status status;
	int flag = 0, wrong = 0;
	MPI_Allreduce_init(in, out, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	for (int i = 0; i < 2; i++) {
		MPI_Start(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		wrong += differ(1, out, N, size);
		device_copy(out, own, N * sizeof *out);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
		MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
		MPI_Waitall(1, &request, &status);
		wrong += differ(1, out, N, -3);
	}
	MPI_Request_free(&request);
	release(1, in);
	release(1, out);
	release(1, own);
	return wrong;
}

/* Persistent collectives take what is in device memory when they start. (No Allgather: that of MPICH 4.0.2 on two ranks takes what the first start took.) */
static int persistent(void)
{
	int wrong = 0;
	double *in = doubles(1, N, 0), *out = doubles(1, N, 0), *most = doubles(1, N, 0);
	MPI_Request requests[2];
	MPI_Allreduce_init(in, out, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
	MPI_Allreduce_init(in, most, N, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
	for (int turn = 1; turn <= 3; turn++) {
		double *host = doubles(0, N, turn);
		device_copy(in, host, sizeof(double) * N);
		free(host);
		MPI_Startall(2, requests);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		wrong += differ(1, out, N, turn * size) + differ(1, most, N, turn);
	}
	for (int i = 0; i < 2; i++)
		MPI_Request_free(&requests[i]);
	device_free(in);
	device_free(out);
	device_free(most);
	return wrong;
}
#endif

/* ---- Threads, each with a communicator of its own, in an order of their own */

static void *thread(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	int wrong = 0;
	for (int i = 0; i < 100; i++)
		wrong += all_reduce(comm, i % 3 != 0, 100);
	return (void *)(size_t)wrong;
}

static int threads(void)
{
	MPI_Comm comms[2];
	pthread_t others[2];
	void *wrong[2];
	for (int i = 0; i < 2; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < 2; i++)
		pthread_create(&others[(i + rank) % 2], NULL, thread, &comms[(i + rank) % 2]);
	for (int i = 0; i < 2; i++)
		pthread_join(others[i], &wrong[i]);
	for (int i = 0; i < 2; i++)
		MPI_Comm_free(&comms[i]);
	return (int)(size_t)wrong[0] + (int)(size_t)wrong[1];
}

/* ---- A rank dies */

static int die(void)
{
	double begin;
	int error = MPI_SUCCESS;
	double *in = doubles(1, N, 1), *out = doubles(1, N, 0);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 5; i++)
		MPI_Allreduce(in, out, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		raise(SIGKILL);
	begin = MPI_Wtime();
	while (!error)
		error = MPI_Allreduce(in, out, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Error_class(error, &error);
	printf("rank %d: %s after %.3f s\n", rank, error == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "another error",
	       MPI_Wtime() - begin);
	fflush(stdout);
	_exit(0);
}

/* ---- What programs do wrong, and what they may do */

static int is_not(int error, int class)
{
	MPI_Error_class(error, &error);
	return error != class;
}

/* MPI says what is wrong with a call, and its communicator goes on. */
static int wrong_arguments(void)
{
	MPI_Comm comm;
	double *in = doubles(1, N, 1), *out = doubles(1, N, 0);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* Open MPI calls it for wrong buffers */
	int wrong = all_reduce(comm, 1, N);
	wrong += is_not(MPI_Bcast(in, N, MPI_DOUBLE, size, comm), MPI_ERR_ROOT);
	wrong += is_not(MPI_Reduce(in, out, N, MPI_DOUBLE, MPI_SUM, -9, comm), MPI_ERR_ROOT);
	wrong += is_not(MPI_Gather(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, size, comm), MPI_ERR_ROOT);
	wrong += is_not(MPI_Scatter(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, size, comm), MPI_ERR_ROOT);
	wrong += is_not(MPI_Bcast(in, N, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE);
	wrong += is_not(MPI_Allgather(in, 1, MPI_DATATYPE_NULL, out, 1, MPI_DOUBLE, comm), MPI_ERR_TYPE);
#ifdef OPEN_MPI /* MPICH 4.0 alone aborts */
	wrong += is_not(MPI_Allreduce(in, out, -1, MPI_DOUBLE, MPI_SUM, comm), MPI_ERR_COUNT);
#endif
	wrong += is_not(MPI_Allreduce(in, MPI_IN_PLACE, N, MPI_DOUBLE, MPI_SUM, comm), MPI_ERR_BUFFER);
	wrong += all_reduce(comm, 1, N);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_free(&comm);
	release(1, in);
	release(1, out);
	return wrong;
}

/* What ranks call differs in size: each rank's call, or its next one, returns an error within a second. */
static int call_of(int function, double *in, double *out, int n, MPI_Comm comm)
{
	switch (function) {
	case 0:
		return MPI_Bcast(in, n, MPI_DOUBLE, 0, comm);
	case 1:
		return MPI_Reduce(in, out, n, MPI_DOUBLE, MPI_SUM, 0, comm);
	case 2:
		return MPI_Gather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, comm);
	case 3:
		return MPI_Scatter(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, comm);
	case 4:
		return MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm);
	case 5:
		return MPI_Allgather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, comm);
	default:
		return MPI_Alltoall(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, comm);
	}
}

/* Whether a call that others made with another size did anything but end with an error in time. */
static int not_refused(int function, int of_root, int of_others, int error, double begin)
{
	const double seconds = MPI_Wtime() - begin;
	if ((error == MPI_ERR_OTHER || error == MPI_ERR_TRUNCATE) &&
	    seconds < 5) /* promised: 1; the machine may be busy */
		return 0;
	printf("rank %d: function %d, %d and %d elements: error %d after %.1f s\n", rank, function, of_root,
	       of_others, error, seconds);
	return 1;
}

static int differ_in_size(int function, int warm, int of_root, int of_others)
{
	MPI_Comm comm;
	double *in = doubles(1, N, 1), *out = doubles(1, N, 1);
	int error = 0, wrong = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int i = 0; i < warm && !error; i++)
		error = call_of(function, in, out, of_root, comm);
	wrong += error != 0;
	PMPI_Barrier(comm);
	const double begin = MPI_Wtime();
	error = call_of(function, in, out, rank ? of_others : of_root, comm);
	if (!error)
		error = call_of(4, in, out, 100, comm);
	wrong += not_refused(function, of_root, of_others, error, begin);
	MPI_Comm_free(&comm);
	release(1, in);
	release(1, out);
	return wrong;
}

/* The same where large calls have device buffers and small ones host buffers, as all ranks have voted. */
static int differ_in_kind(int function)
{
	MPI_Comm comm;
	double *in = doubles(1, N, 1), *out = doubles(1, N, 1), *from = doubles(0, 100, 1),
	       *to = doubles(0, 100, 1);
	int error = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int i = 0; i < 12 && !error; i++)
		error = i % 2 ? call_of(function, in, out, 3000, comm) : call_of(function, from, to, 3, comm);
	int wrong = error != 0;
	PMPI_Barrier(comm);
	const double begin = MPI_Wtime();
	error = rank ? call_of(function, from, to, 3, comm) : call_of(function, in, out, 3000, comm);
	if (!error)
		error = call_of(4, in, out, 100, comm);
	wrong += not_refused(function, 3000, 3, error, begin);
	MPI_Comm_free(&comm);
	release(1, in);
	release(1, out);
	release(0, from);
	release(0, to);
	return wrong;
}

static int sizes(void)
{
	static const int pairs[][2] = { { 37, 25 }, { 25, 37 }, { 3, 60 },     { 60, 3 },
					{ 0, 10 },  { 10, 0 },  { 3000, 5000 } };
	int wrong = 0;
	for (int function = 0; function < 7; function++)
		for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
			wrong += differ_in_size(function, (int)i % 2 * 5, pairs[i][0], pairs[i][1]);
	for (int function = 0; function < 4; function++)
		wrong += differ_in_kind(function);
	return wrong;
}

/* A receive whose request is freed is delivered by a later exchange on host memory, here of a rank with itself. */
static int freed_receive(void)
{
	const int right = (rank + 1) % size, left = (rank + size - 1) % size;
	double *in = doubles(1, N, rank), *out = doubles(1, N, -1);
	MPI_Request request;
	int mine = 0, theirs;
	MPI_Irecv(out, N, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &request);
	MPI_Request_free(&request);
	MPI_Send(in, N, MPI_DOUBLE, right, 0, MPI_COMM_WORLD);
	const double end = MPI_Wtime() + 10;
	while (differ(1, out, N, left) && MPI_Wtime() < end)
		MPI_Sendrecv(&mine, 1, MPI_INT, rank, 1, &theirs, 1, MPI_INT, rank, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	const int wrong = differ(1, out, N, left);
	release(1, in);
	release(1, out);
	return wrong;
}

/* Rank 0 waits in Corale for the others, which are in MPI and stay there: host memory of another size. Corale has the communicator; and a sum of host memory, whose
 * vote is not due, is MPI's. */
static int left_to_mpi(void)
{
	enum { MOST = 4000 };
	static float in[MOST], out[MOST];
	int wrong = all_reduce(MPI_COMM_WORLD, 1, 8);
	for (int i = 0; i < 40; i++) {
		wrong += all_reduce(MPI_COMM_WORLD, 1, 8);
		MPI_Allreduce(in, out, MOST, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rank)
		MPI_Allreduce(in, out, MOST, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	const double start = MPI_Wtime();
	float *device = device_alloc(0, 8 * sizeof *device);
	const int error = MPI_Allreduce(MPI_IN_PLACE, device, 8, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank 0: error %d after %.3f s, %d wrong\n", error, MPI_Wtime() - start, wrong);
	fflush(stdout);
	usleep(300 * 1000); /* launchers lose what a rank printed just before: one run of fifty under MPICH */
	return MPI_Abort(MPI_COMM_WORLD, 3);
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = { { "send_then_reduce", send_then_reduce },
	      { "broadcast_beside", broadcast_beside },
	      { "alternating", alternating },
	      { "late_device", late_device },
	      { "device_on_one_rank", device_on_one_rank },
	      { "many_communicators", many_communicators },
	      { "few_calls", few_calls },
	      { "short_lived", short_lived },
	      { "intercommunicator", intercommunicator },
	      { "vector_type", vector_type },
	      { "neighbours", neighbours },
	      { "user_operator", user_operator },
	      { "reduce_local", reduce_local },
#if HAS_PERSISTENT
	      { "inactive", inactive },
	      { "persistent", persistent },
#endif
	      { "wrong_arguments", wrong_arguments },
	      { "freed_receive", freed_receive },
	      { "threads", threads },
	      { "sizes", sizes },
	      { "left_to_mpi", left_to_mpi },
	      { "die", die } };

/* The errors of all ranks, by way of MPI alone. */
static int run_case(int i)
{
	case_begin(cases[i].name, rank);
	int wrong = cases[i].run(), all = 0;
	PMPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s: %s %d\n", cases[i].name, all ? "wrong" : "ok", all);
	fflush(stdout);
	return all != 0;
}

int main(int argc, char **argv)
{
	int provided, failed = 0;
	*(void **)&device_alloc = dlsym(RTLD_DEFAULT, "fake_device_alloc");
	*(void **)&device_free = dlsym(RTLD_DEFAULT, "fake_device_free");
	*(void **)&device_copy = dlsym(RTLD_DEFAULT, "fake_device_copy");
	if (!device_alloc) {
		fprintf(stderr, "pmpi_cases: no fake device is loaded\n");
		return 2;
	}
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (argc > 1 ? !strcmp(argv[1], cases[i].name)
			     : (cases[i].run != die && cases[i].run != sizes && cases[i].run != left_to_mpi))
			failed |= run_case((int)i);
	case_begin("MPI_Finalize", rank);
	MPI_Finalize();
	return failed;
}
