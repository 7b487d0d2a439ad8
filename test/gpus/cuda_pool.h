/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random inputs of all ranks and their fold, made once and used at many offsets: element i of a rank's contribution
 * is element (start + i) mod period of its pool. Periods divide no size that a library might cut messages by, and
 * start differs from call to call, so what an earlier call left behind is never taken for a result.
 */
#ifndef CUDA_POOL_H
#define CUDA_POOL_H

#include "cuda_world.h"
#include "test/helpers/reference.h"

enum { CUDA_POOL_SHORT = 10007, CUDA_POOL_LONG = 250007, CUDA_POOL_ENTRIES = 12, CUDA_POOL_MOST_RANKS = 64 };

struct cuda_pool {
	struct reference ref;
	size_t element, period;
	int users;
	uint64_t last_use;
	unsigned char *contributions[CUDA_POOL_MOST_RANKS];
	unsigned char *fold; /* in rank order, by the library's rules for the host; not for copies */
	unsigned char scalars[CUDA_POOL_MOST_RANKS][8]; /* of a premultiplied sum */
};

struct cuda_pools {
	int ranks;
	uint64_t seed, uses;
	struct cuda_pool entries[CUDA_POOL_ENTRIES];
};

/* Memory is taken now: 12 pools, page-locked. Returns 0, or -1 with a fault. */
int cuda_pools_open(struct cuda_world *world, struct cuda_pools *pools, uint64_t seed);
void cuda_pools_close(struct cuda_pools *pools);

/* The pool for calls that touch count elements in all; op may be REFERENCE_COPY. NULL if all are in use. */
struct cuda_pool *cuda_pool_get(struct cuda_pools *pools, corale_type type, corale_op op,
				enum reference_data data, size_t count);
void cuda_pool_put(struct cuda_pool *pool);

#endif
