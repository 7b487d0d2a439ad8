/* SPDX-License-Identifier: BSD-3-Clause */
/* What lib/cuda/engine_cuda_stage.c enqueues beside kernels, on a rank's streams. A copy is one warp. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { PIECE = 96, MOST_PIECES = 512 }; /* others go on between pieces of so many bytes, or larger ones */
enum { SAME_ONE_IN = 8, VECTOR = 16 };

/* What a copy stores is recorded as what kernels store: in vectors, the last one with zeros behind its data. */
static void record(const unsigned char *to, const unsigned char *from, size_t bytes)
{
	for (size_t at = 0; gpu_recording && at < bytes; at += VECTOR) {
		unsigned char value[VECTOR] = { 0 };
		memcpy(value, from + at, bytes - at < VECTOR ? bytes - at : VECTOR);
		gpu_stored(to + at, value);
	}
}

static void run_copy(const void *kernel, const void *args)
{
	struct world_copy c;
	memcpy(&c, args, sizeof(c));
	gpu_previous_kernel();
	size_t piece = c.bytes > PIECE * MOST_PIECES ? plan_round(c.bytes / MOST_PIECES, VECTOR) : PIECE;
	for (size_t at = gpu_thread() * piece; at < c.bytes; at += gpu_threads() * piece) {
		size_t bytes = c.bytes - at < piece ? c.bytes - at : piece;
		gpu_maybe(2);
		memcpy(c.to + at, c.from + at, bytes);
		record(c.to + at, c.from + at, bytes);
	}
}

int world_copied(const struct gpu_launched *l, struct world_copy *copy)
{
	if (l->bytes != sizeof(*copy))
		return 0;
	memcpy(copy, l->args, sizeof(*copy));
	return 1;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
	struct world_copy c = { to, from, bytes };
	gpu_launch(run_copy, NULL, &c, sizeof(c), 1, GPU_WARP, GPU_WARP, stream);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	gpu_mark((struct gpu_event *)event, stream);
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	gpu_await(stream, (const struct gpu_event *)event);
	return cudaSuccess;
}

/* The same streams as when another capture holds the engine's. */
void engine_choose_streams(struct engine *e, cudaStream_t stream, cudaStream_t *second, cudaStream_t *work)
{
	int ours = gpu_random(SAME_ONE_IN) != 0;
	*second = ours ? e->second : stream;
	*work = ours ? e->work : stream;
}

/* ---- What lib/cuda/engine_cuda_stage.c needs beside that ------------------------------------------------------ */

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
	*memory = malloc(bytes);
	return *memory ? cudaSuccess : 2;
}

static void run_free(const void *kernel, const void *args)
{
	void *memory;
	memcpy(&memory, args, sizeof(memory));
	gpu_previous_kernel();
	if (!gpu_thread())
		free(memory);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
	gpu_launch(run_free, NULL, &memory, sizeof(memory), 1, GPU_WARP, GPU_WARP, stream);
	return cudaSuccess;
}

/* No call here is captured, or receives into memory that it would wait for. */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	abort();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	abort();
}
