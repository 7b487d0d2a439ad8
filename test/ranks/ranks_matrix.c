/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A smoke of the matrix over real MPI ranks, and what only MPI can show: communicators on parts of the world, several
 * at once, from several threads, and one that is forgotten.
 * shapes: 1:0 2:0 3:0 4:2 5:2 4:1
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale_mpi.h"
#include "test/helpers/matrix.h"
#include "test/helpers/ranks.h"
#include "test/helpers/thin.h"

enum { THREADS = 3, FAULT_LINES = 5 };

static int complain(const char *text)
{
	static int lines;
	if (lines++ < FAULT_LINES)
		fprintf(stderr, "# rank %d: %s\n", rank, text);
	return 1;
}

static int expect(int got, int expected, const char *what)
{
	char text[160];
	if (got == expected)
		return 0;
	snprintf(text, sizeof(text), "%s: %s, expected %s", what, corale_strerror(got),
		 corale_strerror(expected));
	return complain(text);
}

static int digests_differ(uint64_t digest)
{
	unsigned long long mine = digest, least, most;
	MPI_Allreduce(&mine, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&mine, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
	return least != most ? complain("results of a case have different bits") : 0;
}

/* Every stride-th case of the list; collective over the communicator. world: it has all ranks, and one thread runs it. */
static int run_list(corale_comm *comm, corale_stream *stream, const size_t *counts, int ncounts, int stride,
		    int world)
{
	struct matrix matrix;
	struct matrix_case c;
	char text[512];
	int faults = 0, kind;
	uint64_t digest;
	if (matrix_open(&matrix, comm, counts[ncounts - 1]))
		return complain("no memory");
	matrix.stream = stream;
	for (long i = matrix.size; (kind = matrix_case_at(i, matrix.size, counts, ncounts, &c));
	     i += stride) {
		if (kind == 2 || !thin_takes((uint64_t)matrix.size << 32 | (uint64_t)(i / stride), 5))
			continue;
		if (matrix_run(&matrix, &c, &digest, text, sizeof(text)))
			faults += complain(text);
		if (world && c.coll <= CORALE_BROADCAST && c.coll != CORALE_REDUCE_SCATTER)
			faults += digests_differ(digest);
	}
	matrix_close(&matrix);
	return faults;
}

static int create(MPI_Comm mpi_comm, corale_comm **comm)
{
	return expect(corale_comm_create_mpi(mpi_comm, NULL, comm), 0, "corale_comm_create_mpi");
}

static void collectives(void)
{
	static const size_t small[] = { 0, 1, 17, 1003 }, large[] = { 30001, 200003 };
	corale_comm *comm;
	corale_stream *stream;
	if (create(MPI_COMM_WORLD, &comm))
		MPI_Abort(MPI_COMM_WORLD, 1);
	ranks_report("small counts", run_list(comm, NULL, small, 4, 7, 1));
	ranks_report("large counts", run_list(comm, NULL, large, 2, 77, 1));
	int faults = expect(corale_stream_create(&stream), 0, "corale_stream_create");
	ranks_report("on a stream", faults ? faults : run_list(comm, stream, small, 4, 49, 1));
	corale_stream_destroy(stream);
	corale_comm_destroy(comm);
}

/* Ranks of a communicator in another order than the world's, and two communicators that share no rank. */
static void parts(void)
{
	static const size_t counts[] = { 1, 130, 2051 };
	MPI_Comm turned, part;
	corale_comm *all, *half, *again;
	int faults;
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
	faults = create(turned, &all) + create(part, &half) + create(part, &again);
	MPI_Comm_free(&turned); /* Corale has duplicates of its own */
	MPI_Comm_free(&part);
	if (!faults) {
		faults += corale_comm_rank(all) != size - 1 - rank ? complain("rank in a turned order") : 0;
		faults +=
		    corale_comm_size(half) != (size + 1 - rank % 2) / 2 ? complain("size of a half") : 0;
		faults += run_list(all, NULL, counts, 3, 97, 0);
		faults += run_list(half, NULL, counts, 3, 97, 0);
		faults += run_list(again, NULL, counts, 3, 143, 0);
		faults += run_list(all, NULL, counts, 3, 143, 0);
	}
	corale_comm_destroy(half);
	corale_comm_destroy(all);
	corale_comm_destroy(again);
	ranks_report("parts of the world, several at once", faults);
}

struct worker {
	pthread_t thread;
	MPI_Comm mpi_comm;
	int faults;
};

static void *work(void *arg)
{
	static const size_t counts[] = { 1, 130, 2051 };
	struct worker *worker = arg;
	corale_comm *comm;
	worker->faults = create(worker->mpi_comm, &comm);
	if (!worker->faults) {
		worker->faults = run_list(comm, NULL, counts, 3, 143, 0);
		corale_comm_destroy(comm);
	}
	return NULL;
}

/* Each thread creates, uses and destroys a communicator; MPI must allow it, else they take turns. */
static void threads(int level)
{
	struct worker workers[THREADS];
	int faults = 0;
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].mpi_comm);
	for (int i = 0; i < THREADS; i++) {
		if (level < MPI_THREAD_MULTIPLE)
			work(&workers[i]);
		else if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int i = 0; i < THREADS; i++) {
		if (level >= MPI_THREAD_MULTIPLE)
			pthread_join(workers[i].thread, NULL);
		faults += workers[i].faults;
		MPI_Comm_free(&workers[i].mpi_comm);
	}
	ranks_report("communicators of several threads", faults);
}

/* A few long transfers, which no single message of MPI or of a window could carry. */
static void split_and_memory(void)
{
	enum { COUNT = 100000 };
	corale_comm *comm, *half;
	void *buffer = NULL;
	int faults = create(MPI_COMM_WORLD, &comm);
	if (faults)
		MPI_Abort(MPI_COMM_WORLD, 1);
	faults += expect(corale_comm_split(comm, rank / 2, rank, &half), 0, "corale_comm_split");
	faults += expect(corale_mem_alloc(comm, COUNT * sizeof(int32_t), &buffer), 0, "corale_mem_alloc");
	if (!faults) {
		int32_t *values = buffer, wrong = 0;
		for (int i = 0; i < COUNT; i++)
			values[i] = i * (rank + 1);
		faults +=
		    expect(corale_all_reduce(values, values, COUNT, CORALE_INT32, CORALE_SUM, comm, NULL), 0,
			   "all_reduce of Corale's memory");
		for (int i = 0; i < COUNT; i++)
			wrong += values[i] != i * (size * (size + 1) / 2);
		faults += wrong ? complain("wrong sums in Corale's memory") : 0;
		faults += expect(corale_barrier(half, NULL), 0, "barrier of a split communicator");
		faults += expect(corale_mem_free(comm, buffer), 0, "corale_mem_free");
	}
	corale_comm_destroy(comm);
	faults += expect(corale_barrier(half, NULL), 0, "a split communicator after its parent");
	corale_comm_destroy(half);
	ranks_report("split, and Corale's memory", faults);
}

static void refusals(void)
{
	corale_comm *comm;
	int faults =
	    expect(corale_comm_create_mpi(MPI_COMM_NULL, NULL, &comm), CORALE_EINVAL, "MPI_COMM_NULL");
	faults += expect(corale_comm_create_mpi(MPI_COMM_WORLD, NULL, NULL), CORALE_EINVAL,
			 "no place for the result");
	ranks_report("refusals", faults);
}

int main(int argc, char **argv)
{
	corale_comm *forgotten;
	const int early = corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &forgotten);
	const int level = ranks_open(&argc, &argv, MPI_THREAD_MULTIPLE);
	ranks_report("before MPI_Init", expect(early, CORALE_EINVAL, "corale_comm_create_mpi"));
	collectives();
	parts();
	threads(level);
	split_and_memory();
	refusals();
	ranks_report("one to forget", create(MPI_COMM_WORLD, &forgotten));
	const int failed = ranks_close(); /* frees it, with a warning */
	const int late = corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &forgotten);
	return failed || late != CORALE_EINVAL;
}
