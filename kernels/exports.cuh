/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports (exports.h) as kernels use them: which ones may be named, and where those of other ranks lie here. */
#ifndef EXPORTS_CUH
#define EXPORTS_CUH

#include "call.cuh"

/* Whether an export may still be named. */
__device__ static inline bool is_usable(const codelet_args &a, uint64_t number)
{
	return number && sync_load_acquire(&a.zero_copy.own->usable[number % EXPORTS_ROOM]) == number;
}

/* Exports of a rank that are open here: up to this number. */
__device__ static inline uint64_t opened_up_to(const codelet_args &a, int rank)
{
	return sync_load_acquire(&a.zero_copy.exports[rank]->opened);
}

/* Where an export lies here, by its index. */
__device__ static inline unsigned char *export_at(const codelet_args &a, int rank, uint64_t index)
{
	return (unsigned char *)sync_load_acquire((const uint64_t *)&a.zero_copy.exports[rank]->at[index]);
}

/* A buffer's place in its export, as one word. */
__device__ static inline uint64_t ref_word(const export_ref &ref)
{
	return ref.offset | ref.number % EXPORTS_ROOM << EXPORTS_OFFSET_BITS;
}

/* Where a buffer of another rank lies here. */
__device__ static inline const unsigned char *open_at(const codelet_args &a, int rank, uint64_t word)
{
	return export_at(a, rank, word >> EXPORTS_OFFSET_BITS) + (word & (((uint64_t)1 << EXPORTS_OFFSET_BITS) - 1));
}

#endif
