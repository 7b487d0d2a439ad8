/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for perf_cuda.c and test/measure/perf_product.c in a build without CUDA. */
#include <stdio.h>

#include "perf.h"

static int open_none(struct perf_job *job, char *why_not, size_t bytes)
{
	(void)job;
	snprintf(why_not, bytes, "this build has no CUDA (configure --with-cuda)");
	return -1;
}

/* Nothing comes here, for no device was opened. */

void perf_product_open(struct perf_job *job)
{
	(void)job;
}

void perf_product_close(struct perf_job *job)
{
	(void)job;
}

void perf_product_start(const struct perf_job *job, int n)
{
	(void)job, (void)n;
}

int perf_product_runs(const struct perf_job *job)
{
	(void)job;
	return 0;
}

double perf_product_end(const struct perf_job *job)
{
	(void)job;
	return 0;
}

const struct perf_device perf_cuda = { .name = "cuda", .open = open_none };
