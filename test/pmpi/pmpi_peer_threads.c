/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by peer copies (CORALE_MPI_PEER) of threads: MPI_THREAD_MULTIPLE, 2 ranks. Exchanges of all threads at one time; senders that share a tag, whose
 * messages the receiver probes for; a probe beside another thread's wait.
 * Usage: pmpi_peer_threads [SEED]
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmpi_peer.h"

enum { THREADS = 3, ROUNDS = 150, MOST = 4000, TAG_SHARED = 50, TAG_PROBED = 60 };

static int rank, seed;
static _Atomic int failed;

/* Alike on both ranks. */
static int draw(int thread, int round, int what, int n)
{
	const unsigned long long mixed =
	    ((unsigned)seed * 1000003ull + (unsigned)(thread * 7919 + round * 31 + what)) *
	    6364136223846793005ull;
	return (int)((mixed >> 33) % (unsigned)n);
}

static int draw_bytes(int thread, int round, int what)
{
	return draw(thread, round, what + 100, 4) ? 1 + draw(thread, round, what, MOST - 1) : 3;
}

static void expect(int ok, const char *what, int is, int expected)
{
	if (!ok && failed++ < 5)
		fprintf(stderr, "# seed %d, rank %d: %s: %d, not %d\n", seed, rank, what, is, expected);
}

static void fill(char *buffer, int bytes, int value)
{
	put(buffer, (size_t)bytes, value);
}

static void expect_all(const char *buffer, int bytes, int value, const char *what)
{
	char *data = get(buffer, (size_t)bytes);
	int i = 0;
	while (i < bytes && data[i] == (char)value)
		i++;
	expect(i == bytes, what, i < bytes ? data[i] : 0, (char)value);
	free(data);
}

/* ---- Each thread with the other rank's of its number ---------------------------------------------------- */

static void exchange(int thread, int round, char *in, char *out)
{
	const int sent = draw_bytes(thread, round, rank), got = draw_bytes(thread, round, !rank);
	MPI_Request requests[2];
	int tag = thread, flag = 0, index;
	fill(in, sent, round + rank);
	switch (draw(thread, round, 5, 4)) {
	case 0:
		MPI_Sendrecv(in, sent, MPI_BYTE, !rank, tag, out, got, MPI_BYTE, !rank, tag, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		break;
	case 1:
		MPI_Isend(in, sent, MPI_BYTE, !rank, tag, MPI_COMM_WORLD, &requests[0]);
		MPI_Recv(out, got, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		break;
	default:
		MPI_Recv_init(out, got, MPI_BYTE, !rank, tag, MPI_COMM_WORLD, &requests[0]);
		MPI_Ssend_init(in, sent, MPI_BYTE, !rank, tag, MPI_COMM_WORLD, &requests[1]);
		MPI_Startall(2, requests);
		while (!flag && round % 2)
			MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
		for (int i = 0; i < 2 && !flag; i++)
			MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
		MPI_Request_free(&requests[0]);
		MPI_Request_free(&requests[1]);
	}
	expect_all(out, got, round + !rank, "a byte of an exchange");
}

static void *run_exchanges(void *arg)
{
	const int thread = *(int *)arg;
	char *in = fake_device_alloc(0, MOST), *out = fake_device_alloc(1, MOST);
	for (int round = 0; round < ROUNDS && !failed; round++)
		exchange(thread, round, in, out);
	fake_device_free(in);
	fake_device_free(out);
	return NULL;
}

/* ---- Threads of rank 0 with one tag: the size that a probe says is that of the message which comes ------ */

static void *send_shared(void *arg)
{
	const int thread = *(int *)arg;
	char *in = fake_device_alloc(0, MOST);
	for (int round = 0; round < ROUNDS; round++) {
		const int bytes = 1 + draw(thread, round, 7, MOST - 1);
		fill(in, bytes, bytes);
		MPI_Send(in, bytes, MPI_BYTE, 1, TAG_SHARED, MPI_COMM_WORLD);
	}
	fake_device_free(in);
	return NULL;
}

static void receive_shared(void)
{
	char *out = fake_device_alloc(1, MOST);
	for (int i = 0; i < THREADS * ROUNDS; i++) {
		MPI_Status status;
		int probed, received;
		MPI_Probe(0, TAG_SHARED, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &probed);
		MPI_Recv(out, MOST, MPI_BYTE, 0, TAG_SHARED, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &received);
		expect(probed == received, "the count of a probe", probed, received);
		expect_all(out, received, received, "a byte of a message that was probed");
	}
	fake_device_free(out);
}

/* ---- A thread waits for the first of two messages, and another one probes for the second ---------------- */

static void *wait_for(void *request)
{
	MPI_Wait(request, MPI_STATUS_IGNORE);
	return NULL;
}

static void probe_beside(int round, char *first, char *second)
{
	const int bytes[] = { 1 + draw(0, round, 8, MOST - 1), 1 + draw(0, round, 9, MOST - 1) };
	MPI_Request request, requests[2];
	MPI_Status status;
	pthread_t thread;
	int count;
	if (!rank) {
		fill(first, bytes[0], 1);
		fill(second, bytes[1], 2);
		MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_PROBED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Isend(first, bytes[0], MPI_BYTE, 1, TAG_PROBED, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(second, bytes[1], MPI_BYTE, 1, TAG_PROBED, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		return;
	}
	MPI_Irecv(first, MOST, MPI_BYTE, 0, TAG_PROBED, MPI_COMM_WORLD, &request);
	if (pthread_create(&thread, NULL, wait_for, &request))
		abort();
	MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_PROBED, MPI_COMM_WORLD);
	MPI_Probe(0, TAG_PROBED, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	expect(count == bytes[1], "the count of a probe beside a wait", count, bytes[1]);
	MPI_Recv(second, MOST, MPI_BYTE, 0, TAG_PROBED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	pthread_join(thread, NULL);
	expect_all(first, bytes[0], 1, "a byte of the first message");
	expect_all(second, bytes[1], 2, "a byte of the second message");
}

static void run_threads(void *(*work)(void *))
{
	pthread_t threads[THREADS];
	int numbers[THREADS];
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, work, &numbers[i]))
			abort();
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	int provided, all, mine;
	seed = argc > 1 ? atoi(argv[1]) : 1;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (provided != MPI_THREAD_MULTIPLE) {
		if (!rank)
			fprintf(stderr, "# this MPI has no MPI_THREAD_MULTIPLE\n");
		MPI_Finalize();
		return 77;
	}
	char *first = fake_device_alloc(0, MOST), *second = fake_device_alloc(1, MOST);
	run_threads(run_exchanges);
	if (rank)
		receive_shared();
	else
		run_threads(send_shared);
	for (int round = 0; round < ROUNDS; round++)
		probe_beside(round, first, second);
	fake_device_free(first);
	fake_device_free(second);
	mine = failed;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	return all != 0;
}
