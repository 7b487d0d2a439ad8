/* SPDX-License-Identifier: BSD-3-Clause */
/* Small kernels of the tests. Each is enqueued on a stream and does not wait for anything. */
#ifndef CUDA_DELAY_H
#define CUDA_DELAY_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads the kernels, so that no later launch has to. */
cudaError_t cuda_delay_load(void);

/* Keeps one block of the GPU busy for so long. */
cudaError_t cuda_delay(uint32_t ns, cudaStream_t stream);

/* The same by a block that takes most of an SM's shared memory. */
cudaError_t cuda_delay_wide(uint32_t ns, cudaStream_t stream);

/* The same for all of the GPU: no room is left for another block. */
cudaError_t cuda_delay_everywhere(uint32_t ns, cudaStream_t stream);

/* Sets the two words of a tiny all-reduce: call * 3 + rank, and a hash of both. */
cudaError_t cuda_tiny_fill(uint32_t *words, uint32_t call, int rank, cudaStream_t stream);

/* What a tiny all-reduce must have given. found[0] counts wrong calls; found[1..4] describe the first: its number + 1,
 * which word, what it was, what it should be. found[5] sums all results. */
cudaError_t cuda_tiny_check(const uint32_t *words, uint32_t call, int ranks, uint32_t *found,
			    cudaStream_t stream);

/* The same on the host: what rank contributes. */
uint32_t cuda_tiny_word(uint32_t call, int rank, int word);

#ifdef __cplusplus
}
#endif
#endif
