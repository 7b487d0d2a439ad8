/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel that a network's messages into this GPU's memory are shown to (probe.h). */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "probe.h"
#include "sync.cuh"

/* One thread waits until the message is there. False: none will come, or none has for so long. */
__device__ static inline bool await_arrival(const probe_args &a, const probe_words *w, int message)
{
	uint64_t arrived;
	for (const uint64_t begin = sync_now_ns(); (arrived = sync_load_acquire(&w->arrived)) <= (uint64_t)message;)
		if (sync_now_ns() - begin > a.timeout_ns)
			return false;
	return arrived != PROBE_STOP;
}

/* All threads, by plain loads, as kernels of calls take messages out. */
__device__ static inline bool is_whole(const unsigned char *slot, uint64_t seed, int message)
{
	const uint64_t *words = (const uint64_t *)slot;
	bool whole = true;
	for (uint64_t i = threadIdx.x; i < probe_bytes(message) / sizeof *words; i += PROBE_THREADS)
		whole &= words[i] == probe_word(seed, message, i);
	return __syncthreads_and(whole);
}

__global__ __launch_bounds__(PROBE_THREADS) void probe(const __grid_constant__ probe_args a)
{
	const unsigned char *slots = a.slots + (uint64_t)blockIdx.x * PROBE_AREA;
	probe_words *w = &a.words[blockIdx.x];
	const uint64_t seed = sync_load_relaxed(&w->seed);
	uint64_t wrong = 0;
	if (threadIdx.x == 0)
		sync_store_relaxed(&w->begun, 1);
	for (int message = 0; message < PROBE_MESSAGES; message++) {
		const unsigned char *slot = slots + (uint64_t)message * PROBE_SLOT_BYTES;
		const bool came = threadIdx.x || await_arrival(a, w, message);
		if (!__syncthreads_and(came))
			return;
		if (!is_whole(slot, seed, message))
			wrong |= 1u << message;
		if (threadIdx.x)
			continue;
		sync_store_relaxed(&w->wrong, wrong);
		sync_store_release(&w->checked, (uint64_t)message + 1);
	}
}

int codelets_probe(const probe_args *args, int senders, void *stream)
{
	return launch_behind((const void *)probe, { senders, PROBE_THREADS }, 0, args, stream);
}

int codelets_load_probe(void)
{
	return load_lean((const void *)probe);
}
