/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands in for the CUDA engine in a build without it: it says that it is not available. */
#include <stdio.h>

#include "engine.h"

static int available(char *why_not, size_t bytes)
{
	snprintf(why_not, bytes, "this build has no CUDA (configure --with-cuda)");
	return 0;
}

static int count(void)
{
	return 0;
}

static int memory_kind(const void *memory, corale_memory *out)
{
	(void)memory;
	*out = (corale_memory){ .kind = CORALE_MEMORY_HOST, .device = -1 };
	return 0;
}

const struct engine_process_ops engine_process = {
	.available = available,
	.count = count,
	.memory_kind = memory_kind,
};
const struct engine_memory_ops engine_memory;
const struct engine_ops engine_cuda;
