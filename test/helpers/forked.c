/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts ranks as processes, gives them sockets to each other, and waits for their ends. */
#define _GNU_SOURCE
#include "forked.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "late.h"
#include "net/ucx/transport_ucx.h"

enum { PATIENCE_S = 40, LATE = 3 }; /* LATE: the status of a rank whose faults are all late ones */

void forked_fault(struct forked *r, const char *format, ...)
{
	char text[700];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!r->faults++)
		fprintf(stderr, "# rank %d: %s\n", r->rank, text);
}

int forked_gather(const int *sockets, int rank, int size, const void *in, size_t bytes, void *out)
{
	int failed = 0;
	memcpy((char *)out + (size_t)rank * bytes, in, bytes);
	for (int peer = 0; peer < size; peer++)
		if (peer != rank)
			failed |= write(sockets[peer], in, bytes) != (ssize_t)bytes;
	for (int peer = 0; peer < size && !failed; peer++)
		if (peer != rank)
			failed |= recv(sockets[peer], (char *)out + (size_t)peer * bytes, bytes,
				       MSG_WAITALL) != (ssize_t)bytes;
	return failed;
}

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	const struct forked *r = ctx;
	return forked_gather(r->sockets, r->rank, r->size, in, bytes, out);
}

corale_comm *forked_create(struct forked *r)
{
	const corale_bootstrap bootstrap = {
		.rank = r->rank, .size = r->size, .ctx = r, .allgather = allgather
	};
	corale_comm *comm = NULL;
	const int ret = corale_comm_create(&bootstrap, NULL, &comm);
	if (ret)
		forked_fault(r, "creation: %s", corale_strerror(ret));
	return comm;
}

int forked_has_ucx(void)
{
	char why_not[256];
	return transport_ucx.probe(&transport_ucx, 0, why_not, sizeof why_not) != 0;
}

static void connect_all(int ends[FORKED_RANKS][FORKED_RANKS], int size)
{
	for (int a = 0; a < size; a++) {
		for (int b = 0; b < a; b++) {
			int pair[2] = { -1, -1 };
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
				perror("socketpair");
			ends[a][b] = pair[0];
			ends[b][a] = pair[1];
		}
	}
}

static void close_all(int ends[FORKED_RANKS][FORKED_RANKS], int size, int but)
{
	for (int a = 0; a < size; a++)
		for (int b = 0; b < size; b++)
			if (a != b && a != but)
				close(ends[a][b]);
}

int forked_run(int size, int victim, int (*body)(struct forked *r), const void *arg)
{
	int ends[FORKED_RANKS][FORKED_RANKS] = { { 0 } }, faults = 0, late = 0;
	pid_t pids[FORKED_RANKS];
	connect_all(ends, size);
	for (int a = 0; a < size; a++) {
		struct forked rank = { .rank = a, .size = size, .arg = arg };
		memcpy(rank.sockets, ends[a], sizeof rank.sockets);
		pids[a] = fork();
		if (pids[a])
			continue;
		close_all(ends, size, a);
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler goes on with the next test */
		if (a != victim)
			alarm(PATIENCE_S);
		const int failed = body(&rank) || rank.faults;
		_exit(failed && rank.faults == rank.late ? LATE : failed);
	}
	close_all(ends, size, FORKED_NOBODY);
	for (int a = 0; a < size; a++) {
		int status = 1;
		waitpid(pids[a], &status, 0);
		faults += a == victim ? !WIFSIGNALED(status) : status != 0;
		const int in_vain = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
		late += a != victim && (in_vain || (WIFEXITED(status) && WEXITSTATUS(status) == LATE));
		if (a != victim && in_vain)
			fprintf(stderr, "# rank %d has not ended within %d s\n", a, PATIENCE_S);
		else if (a != victim && WIFSIGNALED(status))
			fprintf(stderr, "# rank %d was ended by signal %d\n", a, WTERMSIG(status));
	}
	late_tell(faults, late);
	return faults;
}
