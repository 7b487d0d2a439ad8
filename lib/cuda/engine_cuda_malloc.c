/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the GPU that an engine makes for itself, which is given back without waiting for the GPU. */
#include "engine_cuda.h"

/* From so many bytes on memory is mapped in units, which are unmapped without waiting; what is smaller comes from the pool. */
enum { MAPPED_BYTES = 2 << 20 };

int engine_malloc(struct engine *e, size_t bytes, void **out)
{
	const int ret = bytes < MAPPED_BYTES
			    ? engine_check(e, engine_pool_take(e, POOL_GPU, bytes, out), "allocating memory")
			    : engine_alloc(e, bytes, out);
	e->bytes += ret ? 0 : bytes;
	return ret;
}

void engine_mfree(struct engine *e, void *memory, size_t bytes)
{
	if (bytes < MAPPED_BYTES)
		engine_pool_give(memory);
	else
		engine_free(e, memory, 0);
}
