/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed to the rest of the program (RTLD_LOCAL). */
#define _GNU_SOURCE /* memfd_create */
#include "perf_nccl_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYMBOL(name, member, since)                                                                          \
	{                                                                                                    \
		name, offsetof(struct nccl_library, member), since                                           \
	}
static const struct {
	const char *name;
	size_t offset;
	int since; /* the version from which NCCL has it; 0: all that we know */
} symbols[] = {
	SYMBOL("ncclGetErrorString", error_string, 0),
	SYMBOL("ncclGetVersion", get_version, 0),
	SYMBOL("ncclGetUniqueId", get_unique_id, 0),
	SYMBOL("ncclCommInitRank", init_rank, 0),
	SYMBOL("ncclCommInitRankConfig", init_rank_config, 21400),
	SYMBOL("ncclCommDestroy", comm_destroy, 0),
	SYMBOL("ncclMemAlloc", mem_alloc, 21900),
	SYMBOL("ncclMemFree", mem_free, 21900),
	SYMBOL("ncclCommWindowRegister", window_register, 22700),
	SYMBOL("ncclCommWindowDeregister", window_deregister, 22700),
	SYMBOL("ncclGroupStart", group_start, 0),
	SYMBOL("ncclGroupEnd", group_end, 0),
	SYMBOL("ncclAllReduce", all_reduce, 0),
	SYMBOL("ncclReduceScatter", reduce_scatter, 0),
	SYMBOL("ncclAllGather", all_gather, 0),
	SYMBOL("ncclBroadcast", broadcast, 0),
	SYMBOL("ncclAlltoAll", all_to_all, 22800),
	SYMBOL("ncclReduce", reduce, 0),
	SYMBOL("ncclGather", gather, 22800),
	SYMBOL("ncclScatter", scatter, 22800),
	SYMBOL("ncclSend", send, 0),
	SYMBOL("ncclRecv", recv, 0),
};

void nccl_must(const struct perf_job *job, const struct nccl_library *library, int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "rank %d: %s: %s\n", job->rank, what, library->error_string(code));
	MPI_Abort(job->mpi, 1);
}

void nccl_refuse(const struct perf_job *job, const char *what, const char *why)
{
	fprintf(stderr, "rank %d: --vs-nccl %s: %s%s\n", job->rank, job->options->vs_nccl, what, why);
	MPI_Abort(job->mpi, 1);
}

/* The loader opens a file once, however often it is asked to; a copy is another file. */
static int copy_of(const char *path)
{
	struct stat stat;
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("nccl", MFD_CLOEXEC);
	off_t left = from < 0 || to < 0 || fstat(from, &stat) ? -1 : stat.st_size;
	while (left > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);
		left = n > 0 ? left - n : -1;
	}
	if (from >= 0)
		close(from);
	if (left == 0)
		return to;
	if (to >= 0)
		close(to);
	return -1;
}

static void *load(const struct perf_job *job, int private)
{
	char path[64];
	if (!private)
		return dlopen(job->options->vs_nccl, RTLD_NOW | RTLD_LOCAL);
	int copy = copy_of(job->options->vs_nccl);
	if (copy < 0)
		nccl_refuse(job, "", "it can't be copied in memory");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	close(copy);
	return handle;
}

struct nccl_library *nccl_library_open(const struct perf_job *job, int private)
{
	struct nccl_library *library = calloc(1, sizeof(*library));
	if (!library)
		perf_die("opening NCCL", CORALE_ENOMEM);
	if (!(library->handle = load(job, private)))
		nccl_refuse(job, "", dlerror());
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library->handle, symbols[i].name);
		if (!symbol && !symbols[i].since)
			nccl_refuse(job, "it has no ", symbols[i].name);
		memcpy((char *)library + symbols[i].offset, &symbol, sizeof(symbol));
	}
	nccl_must(job, library, library->get_version(&library->version), "ncclGetVersion");
	return library;
}

void nccl_library_close(struct nccl_library *library)
{
	free(library);
}
