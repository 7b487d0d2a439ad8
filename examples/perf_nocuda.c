/* Stands in for perf_cuda.c in a build without CUDA. */
#include <stdio.h>

#include "perf.h"

static int open_none(struct perf_job *job, char *why_not, size_t bytes)
{
	(void)job;
	snprintf(why_not, bytes, "this build has no CUDA (configure --with-cuda)");
	return -1;
}

const struct perf_device perf_cuda = { .name = "cuda", .open = open_none };
