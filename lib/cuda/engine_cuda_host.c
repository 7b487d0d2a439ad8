/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows in host memory, for GPUs that can't reach each other's memory: each rank makes a memfd, all map them side by side and register them with their
 * GPU. The owner stores into its part first, on a core near its GPU, so that the pages lie there. There is no registered memory, no scratch and no copy by
 * copy engines. Unregistering waits for all work of the GPU, so it is done when the last engine of the process closes.
 */
#define _GNU_SOURCE
#include "engine_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/log.h"

enum { STRIDE_UNIT = 64 << 10 };

/* ---- Registered memory, until no engine of the process is left -------------------------------------------- */

struct kept {
	struct kept *next;
	void *at;
	size_t bytes, parts; /* of each part, registered by itself; how many */
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept;
static int engines;

static void keep(void *at, size_t bytes, size_t parts)
{
	struct kept *k = malloc(sizeof *k);
	if (!k) /* then it stays */
		return;
	*k = (struct kept){ kept, at, bytes, parts };
	kept = k;
}

static void free_all(void)
{
	for (struct kept *k; (k = kept);) {
		kept = k->next;
		for (size_t i = 0; i < k->parts; i++)
			if (cudaHostUnregister((char *)k->at + i * k->bytes) != cudaSuccess)
				cudaGetLastError(); /* was not registered, or the context is gone */
		munmap(k->at, k->bytes * k->parts);
		free(k);
	}
}

void engine_host_count(int more)
{
	pthread_mutex_lock(&kept_lock);
	engines += more;
	if (!engines)
		free_all();
	pthread_mutex_unlock(&kept_lock);
}

/* ---- Registering ------------------------------------------------------------------------------------------- */

/* Kernels use the host's addresses. */
static cudaError_t register_part(void *at, size_t bytes, const char **what)
{
	void *gpu = NULL;
	cudaError_t error = cudaHostRegister(at, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
	*what = cudaGetErrorString(error);
	if (error == cudaSuccess && (cudaHostGetDevicePointer(&gpu, at, 0) != cudaSuccess || gpu != at)) {
		cudaHostUnregister(at);
		*what = "the GPU has it at another address than the host";
		error = cudaErrorNotSupported;
	}
	if (error != cudaSuccess)
		cudaGetLastError();
	return error;
}

/* 0 */
static int refuse(size_t bytes, const char *what, char *why, size_t why_bytes)
{
	struct rlimit locked = { RLIM_INFINITY, RLIM_INFINITY };
	char limit[32] = "none";
	getrlimit(RLIMIT_MEMLOCK, &locked);
	if (locked.rlim_cur != RLIM_INFINITY)
		snprintf(limit, sizeof limit, "%llu bytes", (unsigned long long)locked.rlim_cur);
	snprintf(why, why_bytes,
		 "%zu bytes of host memory can't be registered as windows of this rank's GPU: %s (limit of "
		 "locked memory: %s); lower CORALE_HOST_WINDOW, or raise the limit (ulimit -l) or that of "
		 "the memory of its control group",
		 bytes, what, limit);
	return 0;
}

int engine_host_window_works(int ranks, size_t bytes, char *why, size_t why_bytes)
{
	static _Atomic size_t shown; /* so many bytes were registered once */
	const size_t all = (size_t)ranks * plan_round(bytes, STRIDE_UNIT);
	struct codelet_layout layout;
	const char *what;
	codelet_layout_init(&layout, ranks, bytes);
	if (!engine_layout_fits(&layout)) {
		snprintf(
		    why, why_bytes,
		    "windows of %zu bytes of host memory (CORALE_HOST_WINDOW) are too small for %d ranks; "
		    "give at least %zu",
		    bytes, ranks, engine_enough_window(ranks));
		return 0;
	}
	if (all <= shown)
		return 1;
	void *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return refuse(all, strerror(errno), why, why_bytes);
	if (register_part(at, all, &what) != cudaSuccess) {
		munmap(at, all);
		return refuse(all, what, why, why_bytes);
	}
	pthread_mutex_lock(&kept_lock);
	keep(at, all, 1);
	if (!engines)
		free_all();
	pthread_mutex_unlock(&kept_lock);
	shown = all;
	return 1;
}

/* ---- Near the GPU ------------------------------------------------------------------------------------------ */

/* "0-15,32-47", as the kernel prints cores. */
static void parse_cores(const char *text, cpu_set_t *out)
{
	for (char *end; *text; text = *end ? end + 1 : end) {
		const long first = strtol(text, &end, 10);
		long last = first;
		if (end == text)
			return;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long core = first; core <= last && core < CPU_SETSIZE; core++)
			CPU_SET((size_t)core, out);
	}
}

/* Those of this process; none: not known. */
static int find_cores(const struct engine *e, cpu_set_t *before, cpu_set_t *out)
{
	char path[64 + ENGINE_PCI_BYTES], text[1024] = "";
	CPU_ZERO(out);
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", e->gpu.id.pci);
	FILE *file = descriptor_read(path);
	if (file && fgets(text, sizeof text, file))
		parse_cores(text, out);
	if (file)
		fclose(file);
	if (sched_getaffinity(0, sizeof *before, before))
		return 0;
	CPU_AND(out, out, before);
	return CPU_COUNT(out);
}

/* Words are empty where all bits are ones. */
static void fill(const struct engine *e, unsigned char *window)
{
	cpu_set_t before, cores;
	const int moves = find_cores(e, &before, &cores) && !sched_setaffinity(0, sizeof cores, &cores);
	memset(window, 0, e->stride);
	memset(window + e->layout.words, 0xff, e->layout.lines - e->layout.words);
	if (moves)
		sched_setaffinity(0, sizeof before, &before);
}

/* ---- Windows ------------------------------------------------------------------------------------------------ */

static unsigned char *window_of(const struct engine *e, int rank)
{
	return (unsigned char *)e->base + (size_t)rank * e->stride;
}

static int report(const struct engine *e, const char *what)
{
	return log_error(errno == ENOMEM ? CORALE_ENOMEM : CORALE_ESYSTEM, e->world_rank,
			 "windows of %zu bytes of host memory for %d ranks (CORALE_HOST_WINDOW): %s: %s",
			 e->stride, e->ranks, what, strerror(errno));
}

static int map(struct engine *e, int rank, int fd)
{
	if (mmap(window_of(e, rank), e->stride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED)
		return report(e, "mmap");
	madvise(window_of(e, rank), e->stride, MADV_DONTFORK);
	return 0;
}

static int use(struct engine *e, int rank)
{
	const char *what;
	if (register_part(window_of(e, rank), e->stride, &what) != cudaSuccess)
		return log_error(
		    CORALE_EDEVICE, e->world_rank,
		    "the window of local rank %d, %zu bytes of host memory, can't be registered with "
		    "GPU %d: %s; lower CORALE_HOST_WINDOW",
		    rank, e->stride, e->ordinal, what);
	e->mapped[rank] = 1;
	return 0;
}

int engine_host_make(struct engine *e)
{
	const char *failed_at;
	const size_t stride = plan_round(e->layout.bytes, STRIDE_UNIT);
	if (stride > UINT32_MAX) /* kernels' offsets have 32 bits */
		return log_error(CORALE_EINVAL, e->world_rank, "CORALE_HOST_WINDOW: %zu bytes: give less",
				 stride);
	void *at = mmap(NULL, stride * (size_t)e->ranks, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return report(e, "reserving addresses");
	e->base = (CUdeviceptr)at;
	e->stride = stride;
	e->host_fd = descriptor_memory("corale-gpu-window", stride, &failed_at);
	if (e->host_fd < 0)
		return report(e, failed_at);
	int ret = map(e, e->rank, e->host_fd);
	if (ret)
		return ret;
	fill(e, window_of(e, e->rank));
	return use(e, e->rank);
}

int engine_host_map(struct engine *e, int rank, int fd)
{
	struct stat file = { 0 };
	const int seals = fcntl(fd, F_GET_SEALS);
	if (fstat(fd, &file) || seals < 0 || !(seals & F_SEAL_SHRINK) || (size_t)file.st_size < e->stride)
		return log_error(
		    CORALE_EPEER, e->world_rank,
		    "what local rank %d has passed on as its window in host memory has %lld bytes and "
		    "seals %d; expected at least %zu bytes, sealed against shrinking (%d): start all "
		    "ranks with the same library",
		    rank, (long long)file.st_size, seals, e->stride, F_SEAL_SHRINK);
	int ret = map(e, rank, fd);
	return ret ? ret : use(e, rank);
}

void engine_host_give(struct engine *e)
{
	if (!e->stride)
		return;
	pthread_mutex_lock(&kept_lock);
	keep((void *)e->base, e->stride, (size_t)e->ranks);
	pthread_mutex_unlock(&kept_lock);
	memset(e->mapped, 0, (size_t)e->ranks);
	e->stride = 0;
}
