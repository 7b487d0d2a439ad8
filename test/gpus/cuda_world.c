/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks with a GPU each and communicators with deadlines; tells the results of all ranks as one. */
#include "cuda_world.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For the signal handler only. */
static char last_words[400];

static void run_out(int number)
{
	(void)number;
	ssize_t written = write(STDOUT_FILENO, last_words, strlen(last_words));
	_exit(written < 0 ? 2 : 1);
}

uint64_t cuda_world_hash(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t cuda_world_random(uint64_t *state)
{
	*state += 1;
	return cuda_world_hash(*state, *state >> 7);
}

void cuda_world_doing(const struct cuda_world *world, const char *text)
{
	snprintf(last_words, sizeof(last_words), "FAIL %s: rank %d ran out of time in part %s: %s\n",
		 world->program, world->rank, world->part, text);
}

/* The GPU of a rank, or -1. */
static int find_gpu(int rank, char *why, size_t bytes)
{
	MPI_Comm host;
	int local, n = 0;
	cudaError_t error = cudaGetDeviceCount(&n);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &local);
	MPI_Comm_free(&host);
	snprintf(why, bytes, "%s", error == cudaSuccess ? "no GPU" : cudaGetErrorString(error));
	return error == cudaSuccess && n > 0 ? local % n : -1;
}

void cuda_world_open(struct cuda_world *world, int *argc, char ***argv, const char *program,
		     unsigned int limit_s)
{
	char why[200];
	int level;
	memset(world, 0, sizeof(*world));
	world->program = program;
	world->begin = clock_s();
	snprintf(world->part, sizeof(world->part), "start");
	MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level); /* MPI may be the transport */
	MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world->size);
	cuda_world_doing(world, "getting a GPU");
	signal(SIGALRM, run_out);
	alarm(limit_s);
	setvbuf(stdout, NULL, _IOLBF, 0);
	world->gpu = find_gpu(world->rank, why, sizeof(why));
	if (cuda_world_largest(world->gpu < 0)) {
		if (world->gpu < 0)
			printf("SKIP %s: no CUDA on rank %d: %s\n", program, world->rank, why);
		MPI_Finalize();
		exit(CUDA_WORLD_SKIPPED);
	}
	if (cudaSetDevice(world->gpu) != cudaSuccess || cudaFree(NULL) != cudaSuccess) {
		printf("FAIL %s: rank %d cannot use GPU %d\n", program, world->rank, world->gpu);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

void cuda_world_fold_in_order(void)
{
	if (getenv("CORALE_NODE_SIZE") && !getenv("CORALE_REPRODUCIBLE"))
		setenv("CORALE_REPRODUCIBLE", "yes", 1);
}

int cuda_world_close(struct cuda_world *world)
{
	double seconds = clock_s() - world->begin;
	if (world->rank == 0)
		printf("%s %s, %d ranks, %.0f s\n", world->failed ? "FAILED:" : "PASSED:", world->program,
		       world->size, seconds);
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return world->failed != 0;
}

void cuda_world_begin(struct cuda_world *world, const char *part)
{
	snprintf(world->part, sizeof(world->part), "%s", part);
	world->faults = 0;
	world->cases = 0;
	cuda_world_doing(world, "beginning");
}

void cuda_world_fault(struct cuda_world *world, const char *format, ...)
{
	char text[600];
	va_list args;
	if (world->faults++ >= CUDA_WORLD_FAULT_LINES)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("FAULT rank %d, %s: %s\n", world->rank, world->part, text);
}

long cuda_world_end(struct cuda_world *world, const char *note)
{
	long faults;
	fflush(stdout);
	cuda_world_doing(world, "waiting for all ranks to end the part");
	MPI_Allreduce(&world->faults, &faults, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	world->failed += faults != 0;
	if (world->rank == 0 && faults)
		printf("FAIL %s: %ld faults in %ld cases%s%s\n", world->part, faults, world->cases,
		       note ? ", " : "", note ? note : "");
	else if (world->rank == 0)
		printf("PASS %s (%ld cases)%s%s\n", world->part, world->cases, note ? ", " : "",
		       note ? note : "");
	return faults;
}

int cuda_world_largest(int value)
{
	int largest;
	MPI_Allreduce(&value, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return largest;
}

corale_comm *cuda_world_comm(struct cuda_world *world, double timeout_s)
{
	corale_config config;
	corale_comm *comm = NULL;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	config.timeout_seconds = timeout_s > 0 ? timeout_s : CUDA_WORLD_TIMEOUT_S;
	int ret = corale_comm_create_mpi(MPI_COMM_WORLD, &config, &comm);
	if (!ret)
		return comm;
	cuda_world_fault(world, "corale_comm_create_mpi: %s", corale_strerror(ret));
	return NULL;
}

int cuda_world_good(struct cuda_world *world, cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 1;
	cuda_world_fault(world, "%s: %s", what, cudaGetErrorString(error));
	return 0;
}

int cuda_world_ok(struct cuda_world *world, int ret, corale_comm *comm, const char *what)
{
	if (!ret)
		return 1;
	cuda_world_fault(world, "%s: %s; %s", what, corale_strerror(ret),
			 comm ? corale_comm_last_error(comm) : "");
	return 0;
}

int cuda_world_wait(cudaStream_t stream, double seconds)
{
	double end = clock_s() + seconds;
	cudaError_t error;
	while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady)
		if (clock_s() > end)
			return CORALE_ETIMEDOUT;
	return error == cudaSuccess ? 0 : CORALE_EDEVICE;
}

/* A stream that never becomes idle: whatever comes next would wait for ever, so this process ends. */
static void give_up(struct cuda_world *world, corale_comm *comm, cudaStream_t stream, const char *what)
{
	world->faults = 0; /* this line is wanted whatever came before */
	cuda_world_fault(world, "the stream is not idle after %d s; %s", CUDA_WORLD_WAIT_S, what);
	corale_comm_abort(comm);
	if (!cuda_world_wait(stream, 5))
		return;
	printf("FAIL %s: rank %d: the stream does not become idle after corale_comm_abort either; %s\n",
	       world->part, world->rank, what);
	fflush(stdout);
	_exit(1);
}

int cuda_world_drain(struct cuda_world *world, corale_comm *comm, cudaStream_t stream, const char *what)
{
	int ret = cuda_world_wait(stream, CUDA_WORLD_WAIT_S);
	if (ret == CORALE_ETIMEDOUT)
		give_up(world, comm, stream, what);
	else if (ret)
		cuda_world_fault(world, "CUDA: %s; %s", cudaGetErrorString(cudaGetLastError()), what);
	if (!ret && (ret = corale_comm_async_error(comm)) != 0)
		cuda_world_fault(world, "%s: %s; %s", corale_strerror(ret), corale_comm_last_error(comm),
				 what);
	return ret;
}
