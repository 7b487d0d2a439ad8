/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes random inputs of all ranks and their fold once, so that each case only looks them up. */
#include "cuda_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "reduce/reduce.h"

int cuda_pools_open(struct cuda_world *world, struct cuda_pools *pools, uint64_t seed)
{
	memset(pools, 0, sizeof(*pools));
	pools->ranks = world->size;
	pools->seed = seed;
	if (world->size > CUDA_POOL_MOST_RANKS) {
		cuda_world_fault(world, "%d ranks, at most %d", world->size, CUDA_POOL_MOST_RANKS);
		return -1;
	}
	for (int i = 0; i < CUDA_POOL_ENTRIES; i++) {
		struct cuda_pool *pool = &pools->entries[i];
		unsigned char *base;
		size_t each = CUDA_POOL_LONG * (size_t)TYPE_MOST_BYTES;
		if (!cuda_world_good(world, cudaMallocHost((void **)&base, ((size_t)world->size + 1) * each),
				     "cudaMallocHost for inputs"))
			return -1;
		pool->fold = base;
		for (int rank = 0; rank < world->size; rank++)
			pool->contributions[rank] = base + (size_t)(rank + 1) * each;
	}
	return 0;
}

void cuda_pools_close(struct cuda_pools *pools)
{
	for (int i = 0; i < CUDA_POOL_ENTRIES; i++)
		cudaFreeHost(pools->entries[i].fold);
}

/* Each rank's contribution times its scalar, rounded to the type, in scaled. */
static void scale(const struct cuda_pool *pool, int rank, unsigned char *scaled)
{
	struct reduce_spec spec = { pool->ref.type, CORALE_NUM_OPS, pool->ref.ranks, { 0 } };
	struct reduce_input input = { pool->contributions[rank], REDUCE_SEND };
	memcpy(spec.scalar, pool->scalars[rank], sizeof(spec.scalar));
	reduce_fold(&spec, scaled, &input, 1, pool->period, 0);
}

static void fold(struct cuda_pool *pool)
{
	int premul = pool->ref.op == CORALE_NUM_OPS, ranks = pool->ref.ranks;
	struct reduce_spec spec = { pool->ref.type, premul ? CORALE_SUM : pool->ref.op, ranks, { 0 } };
	struct reduce_input inputs[CUDA_POOL_MOST_RANKS];
	size_t bytes = pool->period * pool->element;
	unsigned char *scaled = premul ? malloc((size_t)ranks * bytes) : NULL;
	if (premul && !scaled)
		abort();
	for (int rank = 0; rank < ranks; rank++) {
		inputs[rank] = (struct reduce_input){ pool->contributions[rank], REDUCE_LOCAL };
		if (!premul)
			continue;
		inputs[rank].data = scaled + (size_t)rank * bytes;
		scale(pool, rank, scaled + (size_t)rank * bytes);
	}
	reduce_fold(&spec, pool->fold, inputs, ranks, pool->period, 1);
	free(scaled);
}

static void make(struct cuda_pool *pool, const struct reference *ref, size_t period)
{
	pool->ref = *ref;
	pool->element = corale_type_bytes(ref->type);
	pool->period = period;
	for (int rank = 0; rank < ref->ranks; rank++)
		reference_fill(ref, rank, 0, period, pool->contributions[rank]);
	if (ref->op == REFERENCE_COPY)
		return;
	if (ref->op == CORALE_NUM_OPS)
		for (int rank = 0; rank < ref->ranks; rank++)
			reference_scalar(ref, rank, pool->scalars[rank]);
	fold(pool);
}

static int fits(const struct cuda_pool *pool, const struct reference *ref, size_t period)
{
	return pool->period == period && pool->ref.type == ref->type && pool->ref.op == ref->op &&
	       pool->ref.data == ref->data;
}

struct cuda_pool *cuda_pool_get(struct cuda_pools *pools, corale_type type, corale_op op,
				enum reference_data data, size_t count)
{
	size_t period = count > 2 * CUDA_POOL_SHORT ? CUDA_POOL_LONG : CUDA_POOL_SHORT;
	struct reference ref = { type, op, pools->ranks, data, cuda_world_hash(pools->seed, pools->uses) };
	struct cuda_pool *oldest = NULL;
	if (op == REFERENCE_COPY)
		ref.data = REFERENCE_RANDOM;
	for (int i = 0; i < CUDA_POOL_ENTRIES; i++) {
		struct cuda_pool *pool = &pools->entries[i];
		if (fits(pool, &ref, period)) {
			oldest = pool;
			break;
		}
		if (pool->users == 0 && (!oldest || pool->last_use < oldest->last_use))
			oldest = pool;
	}
	if (!oldest)
		return NULL;
	if (!fits(oldest, &ref, period))
		make(oldest, &ref, period);
	oldest->users++;
	oldest->last_use = ++pools->uses;
	return oldest;
}

void cuda_pool_put(struct cuda_pool *pool)
{
	pool->users--;
}
