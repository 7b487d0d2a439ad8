/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of NCCL's interface in host memory, for nccl_hosts.sh: makes or reads an id, makes a communicator, and prints the result.
 *
 *   nccl_rank RANK SIZE FILE [[no-]CALL]    rank 0 writes its id to FILE, the others wait for it there
 *
 * CALL: the process dies when it first makes this call of libc's within ncclCommInitRankConfig. no-CALL: the call is not permitted. on: it
 * calls until a call fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "nccl_glue/nccl.h"

enum { AWAIT_S = 20 };

static const char *deadly = "";

/* The next of that name, NULL if the call is to fail. */
static void *libc_call(const char *name)
{
	if (!strcmp(name, deadly))
		kill(getpid(), SIGKILL);
	if (!strncmp(deadly, "no-", 3) && !strcmp(name, deadly + 3)) {
		errno = EPERM;
		return NULL;
	}
	return dlsym(RTLD_NEXT, name);
}

/* In the place of libc's: the window is made; descriptors are sent; a peer's memory is looked at. */

typedef int create_call(const char *, unsigned);
typedef ssize_t send_call(int, const struct msghdr *, int);
typedef ssize_t read_call(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
			  unsigned long);

int memfd_create(const char *name, unsigned flags)
{
	create_call *call = (create_call *)libc_call("memfd_create");
	return call ? call(name, flags) : -1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	send_call *call =
	    (send_call *)(message->msg_controllen ? libc_call("sendmsg") : dlsym(RTLD_NEXT, "sendmsg"));
	return call ? call(fd, message, flags) : -1;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long nhere, const struct iovec *there,
			 unsigned long nthere, unsigned long flags)
{
	read_call *call = (read_call *)libc_call("process_vm_readv");
	return call ? call(pid, here, nhere, there, nthere, flags) : -1;
}

static int write_id(const char *path)
{
	ncclUniqueId id;
	char draft[4096];
	if (ncclGetUniqueId(&id) != ncclSuccess)
		return 0;
	snprintf(draft, sizeof draft, "%s.draft", path);
	FILE *file = fopen(draft, "wb");
	if (!file)
		return 0;
	const int whole = fwrite(&id, sizeof id, 1, file) == 1;
	return fclose(file) == 0 && whole && rename(draft, path) == 0;
}

static int read_id(const char *path, ncclUniqueId *id)
{
	const double until = clock_s() + AWAIT_S;
	FILE *file;
	while (!(file = fopen(path, "rb")) && clock_s() < until)
		clock_sleep_ms(10);
	const int whole = file && fread(id, sizeof *id, 1, file) == 1;
	if (file)
		fclose(file);
	return whole;
}

/* All ranks sum their numbers. */
static ncclResult_t check(ncclComm_t comm, int rank, int size)
{
	int sum = 0;
	ncclResult_t result = ncclAllReduce(&rank, &sum, 1, ncclInt, ncclSum, comm, NULL);
	if (result == ncclSuccess && sum != size * (size - 1) / 2)
		result = ncclInternalError;
	ncclCommDestroy(comm);
	return result;
}

/* Calls until one fails, a minute at most; how long that one took is said. */
static ncclResult_t call_on(ncclComm_t comm, int rank)
{
	enum { COUNT = 1 << 18, MOST_S = 60 };
	static float in[COUNT], out[COUNT];
	const double until = clock_s() + MOST_S;
	ncclResult_t result = ncclSuccess;
	double start = 0;
	int calls = 0;
	while (result == ncclSuccess && (start = clock_s()) < until) {
		result = ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, NULL);
		if (calls++ == 0) {
			printf("rank %d calls\n", rank);
			fflush(stdout);
		}
	}
	printf("rank %d: call %d took %.1f s\n", rank, calls, clock_s() - start);
	return result;
}

enum { SIGNALS = 32 };

static void get_handlers(void (*handlers[SIGNALS])(int))
{
	struct sigaction action;
	for (int s = 1; s < SIGNALS; s++)
		handlers[s] = sigaction(s, NULL, &action) ? SIG_ERR : action.sa_handler;
}

/* The program's handlers are as they were. */
static ncclResult_t compare_handlers(int rank, void (*const before[SIGNALS])(int))
{
	void (*now[SIGNALS])(int);
	ncclResult_t result = ncclSuccess;
	get_handlers(now);
	for (int s = 1; s < SIGNALS; s++)
		if (now[s] != before[s]) {
			printf("rank %d: signal %d has another handler than before\n", rank, s);
			result = ncclInternalError;
		}
	return result;
}

static void ignore(int signal)
{
}

int main(int argc, char **argv)
{
	void (*handlers[SIGNALS])(int);
	ncclUniqueId id;
	ncclComm_t comm = NULL;
	if (argc < 4) {
		fprintf(stderr, "usage: nccl_rank RANK SIZE FILE [CALL]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_DFL); /* a harness may have ignored it */
	const int rank = atoi(argv[1]), size = atoi(argv[2]);
	if ((rank == 0 && !write_id(argv[3])) || !read_id(argv[3], &id)) {
		printf("rank %d has no id: %s\n", rank, ncclGetLastError(NULL));
		return 1;
	}
	signal(SIGFPE, ignore);
	get_handlers(handlers);
	const double start = clock_s();
	if (argc > 4)
		deadly = argv[4];
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.splitShare = 1; /* as PyTorch sets it; without effect */
	ncclResult_t result = ncclCommInitRankConfig(&comm, size, id, rank, &config);
	const double seconds = clock_s() - start;
	if (result == ncclSuccess && !strcmp(deadly, "on"))
		result = call_on(comm, rank);
	else if (result == ncclSuccess)
		result = check(comm, rank, size);
	if (result == ncclSuccess)
		result = compare_handlers(rank, handlers);
	printf("rank %d code %d in %.1f s: %s\n", rank, (int)result, seconds, ncclGetLastError(NULL));
	return result != ncclSuccess;
}
