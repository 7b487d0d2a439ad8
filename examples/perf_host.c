/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perf.h"

static int open_host(struct perf_job *job, char *why_not, size_t bytes)
{
	(void)job, (void)why_not, (void)bytes;
	return 0;
}

static void close_host(struct perf_job *job)
{
	corale_stream_destroy(job->stream);
	job->stream = NULL;
}

/* Untouched pages have no place yet: writing finds one near the rank that uses them. */
static void *allocate(size_t bytes)
{
	void *buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		perf_die("allocating buffers", CORALE_ENOMEM);
	memset(buf, 0xa5, bytes);
	return buf;
}

static void release(void *buf, size_t bytes)
{
	munmap(buf, bytes);
}

static void *allocate_stage(size_t bytes)
{
	void *stage = malloc(bytes);
	if (!stage)
		perf_die("allocating buffers", CORALE_ENOMEM);
	return stage;
}

static void poison(const struct perf_job *job, void *to, size_t bytes)
{
	(void)job;
	memset(to, 0xa5, bytes);
}

static void copy(const struct perf_job *job, void *to, const void *from, size_t bytes)
{
	(void)job;
	memcpy(to, from, bytes);
}

static int complete(const struct perf_job *job)
{
	return job->stream ? corale_stream_synchronize(job->stream) : 0;
}

const struct perf_device perf_host = { .name = "host",
				       .check_max = SIZE_MAX,
				       .open = open_host,
				       .close = close_host,
				       .allocate = allocate,
				       .release = release,
				       .allocate_stage = allocate_stage,
				       .release_stage = free,
				       .poison = poison,
				       .copy = copy,
				       .complete = complete };
