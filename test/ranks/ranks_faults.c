/* SPDX-License-Identifier: BSD-3-Clause */
/* Proves what ranks see when one fails over a transport between nodes: codes, names, memory, streams, threads. */
#define _GNU_SOURCE
#include "test/helpers/clock.h"
#include "ranks_faults.h"

#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "corale_mpi.h"
#include "test/helpers/ranks.h"

static const size_t bytes = (size_t)192 << 20;
static const double late_s = 1.5; /* how long what came too late is looked for */
static int faults;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "# rank %d: ", rank);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	faults++;
}

static void expect(int got, int expected, const char *what)
{
	if (got != expected)
		fault("%s: %s, expected %s", what, corale_strerror(got), corale_strerror(expected));
}

static corale_comm *make(double timeout_s)
{
	corale_comm *comm = NULL;
	corale_config config;
	corale_config_init(&config);
	config.timeout_seconds = timeout_s;
	expect(corale_comm_create_mpi(MPI_COMM_WORLD, &config, &comm), 0, "creation");
	return comm;
}

/* ---- Memory after a call has failed ---- */

static unsigned char *map_at(void *place)
{
	unsigned char *memory = mmap(place, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0), -1, 0);
	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static size_t find_written(const unsigned char *memory)
{
	size_t at = 0;
	while (at < bytes && !memory[at])
		at += 1024; /* messages are full of ones, and longer */
	return at;
}

/* The call has failed: the buffer is the program's, which maps other pages there. */
static void reuse(unsigned char *memory)
{
	map_at(memory);
	clock_sleep_s(late_s);
	size_t at = find_written(memory);
	if (at < bytes)
		fault("byte %zu of memory that was given back has been written", at);
}

static void *abort_soon(void *comm)
{
	clock_sleep_s(0.01); /* 192 MB take longer, also where this thread comes late */
	corale_comm_abort(comm);
	return NULL;
}

static void transfer(unsigned char *memory, corale_comm *comm, const char *what, int expected)
{
	int ret = rank ? corale_send(memory, bytes, CORALE_UINT8, 0, comm, NULL)
		       : corale_recv(memory, bytes, CORALE_UINT8, 1, comm, NULL);
	if (ret != expected && (ret || !rank)) /* a send may have ended before */
		fault("%s: %s", what, corale_strerror(ret));
}

static void abort_transfer(int sender_unmaps)
{
	corale_comm *comm = make(20);
	unsigned char *memory = map_at(NULL);
	pthread_t thread;
	memset(memory, rank, bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	if (pthread_create(&thread, NULL, abort_soon, comm))
		abort();
	transfer(memory, comm, "an aborted transfer", CORALE_EABORTED);
	pthread_join(thread, NULL);
	if (rank && sender_unmaps)
		munmap(memory, bytes); /* whoever still sends it faults */
	if (!rank)
		reuse(memory);
	MPI_Barrier(MPI_COMM_WORLD);
	corale_comm_destroy(comm);
	if (!rank || !sender_unmaps)
		munmap(memory, bytes);
}

static void aborted(void)
{
	abort_transfer(0);
}

static void aborted_and_unmapped(void)
{
	abort_transfer(1);
}

/* The sender comes when the receiver has given up. */
static void timed_out(void)
{
	corale_comm *comm = make(0.5);
	unsigned char *memory = map_at(NULL);
	memset(memory, rank, bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank) {
		clock_sleep_s(1);
		int ret = corale_send(memory, bytes, CORALE_UINT8, 0, comm, NULL);
		if (!ret)
			fault("a send to a rank that has given up: %s", corale_strerror(ret));
	} else {
		transfer(memory, comm, "a receive that nobody sends", CORALE_ETIMEDOUT);
		if (!strstr(corale_comm_last_error(comm), "until then it had moved 0 bytes in 0 steps"))
			fault("\"%s\" should say how far the call was", corale_comm_last_error(comm));
		if (!strstr(corale_comm_last_error(comm),
			    "has waited 0.5 s (timeout_seconds) without progress for ") ||
		    !strstr(corale_comm_last_error(comm), " bytes of rank 1"))
			fault("\"%s\" should name the deadline's setting, the bytes and rank 1",
			      corale_comm_last_error(comm));
		reuse(memory);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	corale_comm_destroy(comm);
	munmap(memory, bytes);
}

/* ---- The end of a communicator ---- */

/* Calls until one fails, or n. */
static int call(corale_comm *comm, int n)
{
	int ret = 0;
	for (int i = 0; i < n && !ret; i++) {
		int32_t mine = rank + i, sum = 0;
		ret = corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
		if (!ret && sum != size * (size - 1) / 2 + size * i)
			fault("call %d: the sum is %d", i, (int)sum);
	}
	return ret;
}

/* What an aborted communicator has left in the transport is no message of the next one. */
static void again_after_abort(void)
{
	enum { ROUNDS = 20 };
	for (int round = 0; round < ROUNDS && !faults; round++) {
		const int culprit = round % size;
		corale_comm *comm = make(10);
		int ret = call(comm, 3 + round % 5);
		if (ret && ret != CORALE_EABORTED) /* a rank that is done aborts at once */
			fault("round %d: %s: %s", round, corale_strerror(ret), corale_comm_last_error(comm));
		if (rank == culprit)
			corale_comm_abort(comm);
		ret = ret ? ret : call(comm, 100000);
		if (ret != CORALE_EABORTED && ret != CORALE_ECOMM)
			fault("round %d, aborted: %s: %s", round, corale_strerror(ret),
			      corale_comm_last_error(comm));
		corale_comm_destroy(comm);
	}
}

static void destroyed(void)
{
	char waited[32], said[32]; /* by this rank, or by another one that has told */
	corale_comm *comm = make(20);
	expect(call(comm, 3), 0, "calls");
	snprintf(waited, sizeof waited, "rank %d, which has ", size - 1);
	snprintf(said, sizeof said, "rank %d (process ", size - 1);
	if (rank == size - 1) {
		clock_sleep_s(0.05);
	} else {
		double start = MPI_Wtime();
		expect(call(comm, 1), CORALE_EPEER, "a call without the last rank");
		if (MPI_Wtime() - start > 2)
			fault("it ended after %.1f s", MPI_Wtime() - start);
		const char *text = corale_comm_last_error(comm);
		if (!strstr(text, waited) && !strstr(text, said))
			fault("\"%s\" should name %s", text, said);
	}
	corale_comm_destroy(comm);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- A rank that is outside of all calls meanwhile ---- */

static const double away_s = 2.5, promised_s = 1, most_s = 1.7;

static double check_time(double since, const char *what)
{
	const double s = MPI_Wtime() - since;
	if (s > most_s)
		fault("%s took %.2f s of at most %g", what, s, promised_s);
	return MPI_Wtime();
}

static void *abort_later(void *comm)
{
	clock_sleep_s(0.2);
	corale_comm_abort(comm);
	return NULL;
}

static void split_aborted(void)
{
	corale_comm *comm = make(20), *child = NULL;
	pthread_t thread;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1) {
		clock_sleep_s(away_s);
	} else {
		double start = MPI_Wtime() + 0.2;
		if (rank == 0 && pthread_create(&thread, NULL, abort_later, comm))
			abort();
		const int ret = corale_comm_split(comm, 0, 0, &child);
		if (ret != CORALE_EABORTED && ret != CORALE_ECOMM)
			fault("the split: %s", corale_strerror(ret));
		start = check_time(start, "the split");
		if (rank == 0)
			pthread_join(thread, NULL);
		corale_comm_destroy(comm);
		check_time(start, "the destroy");
		comm = NULL;
	}
	corale_comm_destroy(comm);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Parent and child, in order; what a rank sent last is not taken yet. */
static void destroyed_meanwhile(void)
{
	int32_t text[1000] = { 0 };
	corale_comm *comm = make(20), *child = NULL;
	expect(corale_comm_split(comm, 0, rank, &child), 0, "split");
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		clock_sleep_s(away_s);
	else
		expect(corale_send(text, 1000, CORALE_INT32, size - 1, child, NULL), 0, "a send");
	if (rank == size - 1)
		for (int r = 0; r < size - 1; r++)
			expect(corale_recv(text, 1000, CORALE_INT32, r, child, NULL), 0, "a receive");
	const double start = MPI_Wtime();
	corale_comm_destroy(child);
	const double then = check_time(start, "the child's destroy");
	corale_comm_destroy(comm);
	check_time(then, "the parent's destroy");
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- Progress ---- */

static void queried(void)
{
	corale_comm *comm = make(20);
	corale_stream *stream;
	int32_t mine = rank + 1, sum = 0;
	corale_stream_create(&stream);
	expect(corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, stream), 0, "all_reduce");
	int ret = CORALE_INPROGRESS;
	for (double until = MPI_Wtime() + 10; ret == CORALE_INPROGRESS && MPI_Wtime() < until;)
		ret = corale_stream_query(stream);
	expect(ret, 0, "a query again and again");
	if (sum != 3)
		fault("the sum is %d", (int)sum);
	corale_stream_destroy(stream);
	corale_comm_destroy(comm);
}

static void *use(void *comm)
{
	int32_t mine = rank + 1, sum = 0;
	expect(corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL), 0, "all_reduce");
	return (void *)(intptr_t)sum;
}

static void in_another_thread(void)
{
	corale_comm *comm = make(5);
	pthread_t thread;
	void *sum = NULL;
	if (pthread_create(&thread, NULL, use, comm))
		abort();
	pthread_join(thread, &sum);
	if ((intptr_t)sum != 3)
		fault("the sum of another thread is %d", (int)(intptr_t)sum);
	corale_comm_destroy(comm);
}

/* A blocking call finishes what its communicator has on a stream; what failed there is still the stream's to tell. */
static void drained(void)
{
	corale_comm *good = make(20), *bad = make(0.5);
	corale_stream *stream;
	int32_t mine = rank + 1, sum = 0;
	corale_stream_create(&stream);
	if (rank == 0) {
		expect(corale_barrier(good, stream), 0, "a barrier on a stream");
		expect(corale_recv(&mine, 1, CORALE_INT32, 1, bad, stream), 0, "a receive on a stream");
	} else {
		expect(corale_barrier(good, NULL), 0, "a barrier");
	}
	mine = rank + 1;
	expect(corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, good, NULL), 0, "all_reduce");
	if (rank == 0)
		expect(corale_stream_synchronize(stream), CORALE_ETIMEDOUT, "the stream");
	MPI_Barrier(MPI_COMM_WORLD);
	corale_stream_destroy(stream);
	corale_comm_destroy(bad);
	corale_comm_destroy(good);
}

/* A deadline that is shorter than the call. */
static void longer_than_deadline(void)
{
	corale_comm *comm = make(0.2);
	unsigned char *memory = map_at(NULL);
	memset(memory, rank, bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 3; i++) {
		corale_group_begin();
		for (int k = 0; k < 4; k++)
			expect(rank ? corale_send(memory, bytes, CORALE_UINT8, 0, comm, NULL)
				    : corale_recv(memory, bytes, CORALE_UINT8, 1, comm, NULL),
			       0, "a message of a group");
		expect(corale_group_end(), 0, "a call that is longer than its deadline");
	}
	corale_comm_destroy(comm);
	munmap(memory, bytes);
}

/* ---- Arguments ---- */

/* The last rank refuses a call, and calls nothing more, nor MPI, until the others know; or all ranks do. */
static void refused(void)
{
	corale_comm *comm = make(20);
	const int refuses = rank == size - 1;
	int32_t mine = 1, sum = 0;
	expect(corale_all_reduce(NULL, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL), CORALE_EINVAL,
	       "a call that all ranks refuse");
	expect(corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL), 0,
	       "a call behind it");
	MPI_Barrier(MPI_COMM_WORLD);
	const double start = MPI_Wtime();
	expect(corale_all_reduce(refuses ? NULL : &mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL),
	       refuses ? CORALE_EINVAL : CORALE_EMISMATCH, "a call that one rank refuses");
	const char *line = corale_comm_last_error(comm);
	if (refuses)
		clock_sleep_s(1);
	else if (MPI_Wtime() - start > 1 || !strstr(line, "refused") || !strstr(line, "send buffer"))
		fault("after %.1f s: %s", MPI_Wtime() - start, line);
	MPI_Barrier(MPI_COMM_WORLD);
	corale_comm_destroy(comm);
}

static void no_place(void)
{
	corale_comm *comm = NULL;
	expect(corale_comm_create_mpi(MPI_COMM_WORLD, NULL, rank ? NULL : &comm), CORALE_EINVAL,
	       "creation, rank 1 without a place for it");
	if (comm)
		fault("rank 0 has a communicator");
}

static const struct {
	const char *name;
	void (*run)(void);
	int any_size;
} cases[] = {
	{ "small calls, an abort, a new communicator, again", again_after_abort, 1 },
	{ "destroyed beside a call that needs the rank", destroyed, 1 },
	{ "a split that is aborted while a rank is away", split_aborted, 1 },
	{ "destroyed while a rank is away", destroyed_meanwhile, 1 },
	{ "the receiver's memory after an abort", aborted, 0 },
	{ "the sender's memory after an abort", aborted_and_unmapped, 0 },
	{ "memory after a timeout", timed_out, 0 },
	{ "a stream that is only queried", queried, 0 },
	{ "used by another thread", in_another_thread, 0 },
	{ "an error on a stream that another communicator drains", drained, 0 },
	{ "longer than the deadline", longer_than_deadline, 0 },
	{ "no place for the communicator", no_place, 0 },
	{ "a call that one rank refuses", refused, 1 },
};
enum { CASES = sizeof(cases) / sizeof(*cases) };

/* Both are left to MPI_Finalize; the child is destroyed once more behind it. */
static void leave_behind(corale_comm **child)
{
	corale_comm *parent = make(20);
	expect(corale_comm_split(parent, 0, 0, child), 0, "split");
}

int ranks_faults_main(int argc, char **argv, const char *transport)
{
	corale_comm *child = NULL;
	setenv("CORALE_TRANSPORT", transport, 1);
	setenv("CORALE_DEBUG", "none", 1);
	ranks_open(&argc, &argv, MPI_THREAD_SERIALIZED);
	for (int i = 0; i < CASES; i++) {
		if (size > 2 && !cases[i].any_size)
			continue;
		faults = 0;
		cases[i].run();
		ranks_report(cases[i].name, faults);
	}
	leave_behind(&child);
	const int failed = ranks_close();
	corale_comm_destroy(child);
	return failed;
}
