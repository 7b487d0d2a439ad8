/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that delay, fill and check, by which tests place other work beside calls. */
#include "cuda_delay.h"

#include "kernels/sync.cuh"

namespace
{

enum { WIDE_THREADS = 128, WIDE_BYTES = 100 << 10 };

__host__ __device__ uint32_t tiny_word(uint32_t call, int rank, int word)
{
	uint32_t plain = call * 3u + (uint32_t)rank, x = plain * 0x9e3779b1u + 0x7f4a7c15u;
	x = (x ^ x >> 15) * 0x85ebca77u;
	return word ? x ^ x >> 13 : plain;
}

__global__ void delay(uint32_t ns)
{
	uint64_t end = sync_now_ns() + ns;
	while (sync_now_ns() < end)
		__nanosleep(ns < 400 ? 20 : 100);
}

__global__ void delay_wide(uint32_t ns)
{
	extern __shared__ uint32_t words[];
	words[threadIdx.x] = ns;
	__syncthreads();
	if (threadIdx.x == 0)
		for (uint64_t start = sync_now_ns(); sync_now_ns() - start < words[blockDim.x - 1];)
		;
}

__global__ void tiny_fill(uint32_t *words, uint32_t call, int rank)
{
	words[threadIdx.x] = tiny_word(call, rank, (int)threadIdx.x);
}

__global__ void tiny_check(const uint32_t *words, uint32_t call, int ranks, uint32_t *found)
{
	for (int word = 0; word < 2; word++) {
		uint32_t expected = 0;
		for (int rank = 0; rank < ranks; rank++)
			expected += tiny_word(call, rank, word);
		found[5] += words[word];
		if (words[word] == expected || found[0]++)
			continue;
		found[1] = call + 1;
		found[2] = (uint32_t)word;
		found[3] = words[word];
		found[4] = expected;
	}
}

}

extern "C" cudaError_t cuda_delay_load(void)
{
	cudaFuncAttributes ignored;
	cudaError_t error = cudaFuncGetAttributes(&ignored, delay);
	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(delay_wide, cudaFuncAttributeMaxDynamicSharedMemorySize, WIDE_BYTES);
	if (error == cudaSuccess)
		error = cudaFuncGetAttributes(&ignored, tiny_fill);
	return error == cudaSuccess ? cudaFuncGetAttributes(&ignored, tiny_check) : error;
}

extern "C" cudaError_t cuda_delay(uint32_t ns, cudaStream_t stream)
{
	delay<<<1, 1, 0, stream>>>(ns);
	return cudaGetLastError();
}

extern "C" cudaError_t cuda_delay_wide(uint32_t ns, cudaStream_t stream)
{
	delay_wide<<<1, WIDE_THREADS, WIDE_BYTES, stream>>>(ns);
	return cudaGetLastError();
}

extern "C" cudaError_t cuda_delay_everywhere(uint32_t ns, cudaStream_t stream)
{
	int gpu = 0, processors = 0;
	cudaError_t error = cudaGetDevice(&gpu);
	if (error == cudaSuccess)
		error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu);
	if (error != cudaSuccess)
		return error;
	delay<<<2 * processors, 1024, 0, stream>>>(ns);
	return cudaGetLastError();
}

extern "C" cudaError_t cuda_tiny_fill(uint32_t *words, uint32_t call, int rank, cudaStream_t stream)
{
	tiny_fill<<<1, 2, 0, stream>>>(words, call, rank);
	return cudaGetLastError();
}

extern "C" cudaError_t cuda_tiny_check(const uint32_t *words, uint32_t call, int ranks, uint32_t *found,
				       cudaStream_t stream)
{
	tiny_check<<<1, 1, 0, stream>>>(words, call, ranks, found);
	return cudaGetLastError();
}

extern "C" uint32_t cuda_tiny_word(uint32_t call, int rank, int word)
{
	return tiny_word(call, rank, word);
}
