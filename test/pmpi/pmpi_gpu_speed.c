/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI door with buffers of GPUs, beside what a program could do without it: calls of Corale on a communicator of its own and one stream synchronization, and
 * copies by hand, through pinned host memory over the MPI beneath. All by turns in one process, each result checked. test/measure/beside_pmpi_gpu runs it
 * and makes tables.
 * Usage: mpirun -n RANKS env LD_PRELOAD=libcorale_pmpi.so pmpi_gpu_speed [SECONDS]; rank r has the node's GPU r. Rank 0 prints, in microseconds, medians of batches:
 *   cell FUNCTION BYTES DOOR CORALE HAND     bytes of all blocks, of which each rank has its part where there are parts
 *   first WHAT MS
 *   each WHAT NS                             of a call that is passed on, and of a look at a pointer
 */
#define _GNU_SOURCE
#include <corale.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_beneath.h"

enum { MOST_BYTES = 256 << 20, LEAST_BATCHES = 9, MOST_BATCHES = 64, SIZES = 7 };
enum way { DOOR, CORALE, HAND, WAYS };
enum function { ALL_REDUCE, BROADCAST, ALL_GATHER, ALL_TO_ALL, SEND_RECV, FUNCTIONS };

static const char *const names[FUNCTIONS] = { "Allreduce", "Bcast", "Allgather", "Alltoall", "Sendrecv" };
static const char *const way_names[WAYS] = { "the door", "Corale", "copies by hand" };
static const int sizes[SIZES] = { 8, 512, 4096, 65536, 1 << 20, 16 << 20, MOST_BYTES };

static int rank, size;
static float *in, *out, *host_in, *host_out; /* of the GPU; pinned */
static corale_comm *comm;
static cudaStream_t stream;

static void need(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "pmpi_gpu_speed: rank %d: %s failed\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CUDA(call) need((call) == cudaSuccess, #call)
#define CORALE_CALL(call) need((call) == 0, #call)

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof *values, compare);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* All ranks get the longest. */
static double longest(double mine)
{
	double all;
	BENEATH(Allreduce)(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

/* ---- The calls: n floats of all blocks, `part` of one */

static int part_of(int n)
{
	return n / size ? n / size : 1;
}

static void by_mpi(enum function f, int n)
{
	const int part = part_of(n), next = (rank + 1) % size, last = (rank + size - 1) % size;
	switch (f) {
	case ALL_REDUCE:
		MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	case BROADCAST:
		MPI_Bcast(rank ? out : in, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
		break;
	case ALL_GATHER:
		MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	case ALL_TO_ALL:
		MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	default:
		MPI_Sendrecv(in, n, MPI_FLOAT, next, 0, out, n, MPI_FLOAT, last, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	}
}

static void by_corale(enum function f, int n)
{
	const size_t count = (size_t)n, part = (size_t)part_of(n);
	switch (f) {
	case ALL_REDUCE:
		CORALE_CALL(corale_all_reduce(in, out, count, CORALE_FLOAT32, CORALE_SUM, comm, stream));
		break;
	case BROADCAST: {
		float *buffer = rank ? out : in;
		CORALE_CALL(corale_broadcast(buffer, buffer, count, CORALE_FLOAT32, 0, comm, stream));
		break;
	}
	case ALL_GATHER:
		CORALE_CALL(corale_all_gather(in, out, part, CORALE_FLOAT32, comm, stream));
		break;
	case ALL_TO_ALL:
		CORALE_CALL(corale_all_to_all(in, out, part, CORALE_FLOAT32, comm, stream));
		break;
	default:
		CORALE_CALL(corale_group_begin());
		CORALE_CALL(corale_send(in, count, CORALE_FLOAT32, (rank + 1) % size, comm, stream));
		CORALE_CALL(corale_recv(out, count, CORALE_FLOAT32, (rank + size - 1) % size, comm, stream));
		CORALE_CALL(corale_group_end());
	}
	CUDA(cudaStreamSynchronize(stream));
}

static void to_host(int n)
{
	CUDA(cudaMemcpy(host_in, in, sizeof(float) * (size_t)n, cudaMemcpyDeviceToHost));
}

static void to_gpu(int n)
{
	CUDA(cudaMemcpy(out, host_out, sizeof(float) * (size_t)n, cudaMemcpyHostToDevice));
}

static void by_hand(enum function f, int n)
{
	const int part = part_of(n), all = part * size, next = (rank + 1) % size,
		  last = (rank + size - 1) % size;
	switch (f) {
	case ALL_REDUCE:
		to_host(n);
		BENEATH(Allreduce)(host_in, host_out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		to_gpu(n);
		break;
	case BROADCAST:
		if (rank == 0)
			to_host(n);
		BENEATH(Bcast)(rank ? host_out : host_in, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
		if (rank)
			to_gpu(n);
		break;
	case ALL_GATHER:
		to_host(part);
		BENEATH(Allgather)(host_in, part, MPI_FLOAT, host_out, part, MPI_FLOAT, MPI_COMM_WORLD);
		to_gpu(all);
		break;
	case ALL_TO_ALL:
		to_host(all);
		BENEATH(Alltoall)(host_in, part, MPI_FLOAT, host_out, part, MPI_FLOAT, MPI_COMM_WORLD);
		to_gpu(all);
		break;
	default:
		to_host(n);
		BENEATH(Sendrecv)
		(host_in, n, MPI_FLOAT, next, 0, host_out, n, MPI_FLOAT, last, 0, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
		to_gpu(n);
	}
}

static void call(enum way way, enum function f, int n)
{
	if (way == DOOR)
		by_mpi(f, n);
	else if (way == CORALE)
		by_corale(f, n);
	else
		by_hand(f, n);
}

/* ---- Results: small whole numbers, whose sums are exact */

static float given(int of, int i)
{
	return (float)((of * 37 + (i & 1023)) % 251);
}

static float wanted(enum function f, int n, int i)
{
	const int part = part_of(n), last = (rank + size - 1) % size;
	float sum = 0;
	switch (f) {
	case ALL_REDUCE:
		for (int r = 0; r < size; r++)
			sum += given(r, i);
		return sum;
	case BROADCAST:
		return given(0, i);
	case ALL_GATHER:
		return given(i / part, i % part);
	case ALL_TO_ALL:
		return given(i / part, rank * part + i % part);
	default:
		return given(last, i);
	}
}

/* One call into poisoned memory. The host's copies are as different from the result as the GPU's. */
static void check(enum way way, enum function f, int n)
{
	const int is_parted = f == ALL_GATHER || f == ALL_TO_ALL, all = is_parted ? part_of(n) * size : n;
	if (f == BROADCAST && rank == 0)
		return call(way, f, n);
	CUDA(cudaMemset(out, 0xff, sizeof(float) * (size_t)all));
	CUDA(cudaDeviceSynchronize());
	memset(host_out, 0xff, sizeof(float) * (size_t)all);
	call(way, f, n);
	CUDA(cudaMemcpy(host_out, out, sizeof(float) * (size_t)all, cudaMemcpyDeviceToHost));
	for (int i = 0; i < all; i++)
		if (host_out[i] != wanted(f, n, i)) {
			fprintf(stderr,
				"pmpi_gpu_speed: rank %d: %s of %d floats by %s: element %d is %g, not %g\n",
				rank, names[f], n, way_names[way], i, host_out[i], wanted(f, n, i));
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

/* ---- Times */

/* One call before those that are timed: a GPU that has been idle during copies by hand is slower at first, and what is called next would pay for it. */
static double batch(enum way way, enum function f, int n, int calls)
{
	if (way != HAND)
		call(way, f, n);
	BENEATH(Barrier)(MPI_COMM_WORLD);
	const double begin = PMPI_Wtime();
	for (int i = 0; i < calls; i++)
		call(way, f, n);
	return longest((PMPI_Wtime() - begin) / calls);
}

/* How many calls take about half a millisecond. */
static int calls_of(double seconds)
{
	const double n = 5e-4 / seconds;
	return n < 1 ? 1 : n > 50 ? 50 : (int)n;
}

/* The first call of a kind may be staged, until the ranks have voted; so the check comes behind some, and before others. All ranks decide by the same times. */
static void cell(enum function f, int bytes, double seconds)
{
	const int n = bytes / (int)sizeof(float);
	double times[WAYS][MOST_BATCHES], last[WAYS];
	int batches[WAYS] = { 0 }, calls[WAYS];
	check(DOOR, f, n);
	for (int way = 0; way < WAYS; way++) {
		last[way] = batch((enum way)way, f, n, bytes <= 1 << 20 ? 5 : 1);
		if (bytes <= 1 << 20)
			last[way] = batch((enum way)way, f, n, 5);
		calls[way] = calls_of(last[way]);
		check((enum way)way, f, n);
	}
	const double begin = PMPI_Wtime();
	for (int turn = 0, goes_on = 1; goes_on; turn++) {
		for (int way = 0; way < WAYS; way++) {
			/* Copies by hand of large buffers take a tenth of a second. */
			if (way == HAND && turn > 2 && last[HAND] > seconds / 10)
				continue;
			last[way] = batch((enum way)way, f, n, calls[way]);
			times[way][batches[way]++] = last[way];
		}
		const double passed = longest(PMPI_Wtime() - begin);
		goes_on = turn + 1 < MOST_BATCHES && (turn + 1 < LEAST_BATCHES || passed < seconds);
	}
	if (rank == 0) {
		printf("cell %s %d", names[f], bytes);
		for (int way = 0; way < WAYS; way++)
			printf(" %.2f", 1e6 * median(times[way], batches[way]));
		printf("\n");
		fflush(stdout);
	}
}

/* ---- Single calls */

static double batch_ns(void (*one)(int), int arg)
{
	enum { CALLS = 200 };
	double least = 1e9;
	for (int b = 0; b < 300; b++) {
		const double begin = PMPI_Wtime();
		for (int i = 0; i < CALLS; i++)
			one(arg);
		const double ns = 1e9 * (PMPI_Wtime() - begin) / CALLS;
		least = ns < least ? ns : least;
	}
	return least;
}

static float from[8], to[8];

static void reduce_self(int by_door)
{
	if (by_door)
		MPI_Allreduce(from, to, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
	else
		BENEATH(Allreduce)(from, to, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
}

static void send_nobody(int by_door)
{
	if (by_door)
		MPI_Send(from, 1, MPI_FLOAT, MPI_PROC_NULL, 0, MPI_COMM_SELF);
	else
		BENEATH(Send)(from, 1, MPI_FLOAT, MPI_PROC_NULL, 0, MPI_COMM_SELF);
}

static void look(int where)
{
	corale_memory memory;
	corale_memory_kind(where == 0 ? from : where == 1 ? host_in : in, &memory);
}

static void single_calls(void)
{
	static const char *const places[] = { "ordinary", "pinned", "GPU" };
	double ns[2];
	for (int way = 0; way < 2; way++)
		ns[way] = batch_ns(reduce_self, way);
	if (rank == 0)
		printf("each Allreduce of 4 B of the host, 1 rank: %.0f ns by MPI, %.0f by the door\n", ns[0],
		       ns[1]);
	for (int way = 0; way < 2; way++)
		ns[way] = batch_ns(send_nobody, way);
	if (rank == 0)
		printf("each Send of the host to MPI_PROC_NULL: %.0f ns by MPI, %.0f by the door\n", ns[0],
		       ns[1]);
	for (int where = 0; where < 3; where++) {
		ns[0] = batch_ns(look, where);
		if (rank == 0)
			printf("each look at a pointer of %s memory: %.0f ns\n", places[where], ns[0]);
	}
}

/* ---- Beginning and end */

static int gather(void *ctx, const void *mine, size_t bytes, void *all)
{
	return BENEATH(Allgather)(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void choose_gpu(void)
{
	MPI_Comm node;
	int local, gpus;
	PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	PMPI_Comm_rank(node, &local);
	PMPI_Comm_free(&node);
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice(local % gpus));
}

static void make_buffers(void)
{
	CUDA(cudaMalloc((void **)&in, MOST_BYTES));
	CUDA(cudaMalloc((void **)&out, MOST_BYTES));
	CUDA(cudaMallocHost((void **)&host_in, MOST_BYTES));
	CUDA(cudaMallocHost((void **)&host_out, MOST_BYTES));
	for (int i = 0; i < MOST_BYTES / (int)sizeof(float); i++)
		host_in[i] = given(rank, i);
	CUDA(cudaMemcpy(in, host_in, MOST_BYTES, cudaMemcpyHostToDevice));
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

static void first(const char *what, double begin)
{
	const double took = longest(PMPI_Wtime() - begin);
	if (rank == 0)
		printf("first %s: %.1f ms\n", what, 1e3 * took);
}

static void first_calls(void)
{
	const corale_bootstrap bootstrap = { rank, size, NULL, gather };
	corale_config config;
	MPI_Comm other;
	double begin;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	begin = PMPI_Wtime();
	CORALE_CALL(corale_comm_create(&bootstrap, &config, &comm));
	first("communicator of Corale", begin);
	for (int i = 0; i < 2; i++) /* MPI's, before the door has a communicator */
		MPI_Allreduce(in, out, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	begin = PMPI_Wtime();
	MPI_Allreduce(in, out, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	first("MPI_Allreduce", begin);
	begin = PMPI_Wtime();
	MPI_Allreduce(in, out, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	first("MPI_Allreduce but one", begin);
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	for (int i = 0; i < 2; i++)
		MPI_Allreduce(in, out, 2, MPI_FLOAT, MPI_SUM, other);
	begin = PMPI_Wtime();
	MPI_Allreduce(in, out, 2, MPI_FLOAT, MPI_SUM, other);
	first("MPI_Allreduce of a duplicate", begin);
	begin = PMPI_Wtime();
	MPI_Comm_free(&other);
	first("MPI_Comm_free of a duplicate", begin);
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? atof(argv[1]) : 30;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	choose_gpu();
	make_buffers();
	first_calls();
	single_calls();
	for (int s = 0; s < SIZES; s++)
		for (int f = 0; f < FUNCTIONS; f++)
			cell((enum function)f, sizes[s], seconds / (SIZES * FUNCTIONS));
	corale_comm_destroy(comm);
	CUDA(cudaStreamDestroy(stream));
	CUDA(cudaFree(in));
	CUDA(cudaFree(out));
	CUDA(cudaFreeHost(host_in));
	CUDA(cudaFreeHost(host_out));
	return MPI_Finalize();
}
