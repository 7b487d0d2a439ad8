/* What lib/cuda/engine_cuda_copy.c enqueues beside kernels, on a rank's streams. A copy is one warp. */
#include <string.h>

#include "world.h"

enum { PIECE = 96, MOST_PIECES = 512 }; /* others go on between pieces of so many bytes, or larger ones */
enum { SAME_ONE_IN = 8 };

struct copy {
	unsigned char *to;
	const unsigned char *from;
	size_t bytes;
};

static void run_copy(const void *kernel, const void *args)
{
	struct copy c;
	(void)kernel;
	memcpy(&c, args, sizeof(c));
	gpu_previous_kernel();
	size_t piece = c.bytes > PIECE * MOST_PIECES ? c.bytes / MOST_PIECES : PIECE;
	for (size_t at = gpu_thread() * piece; at < c.bytes; at += gpu_threads() * piece) {
		gpu_maybe(2);
		memcpy(c.to + at, c.from + at, c.bytes - at < piece ? c.bytes - at : piece);
	}
}

const unsigned char *world_copied(const struct gpu_launched *l)
{
	struct copy c;
	if (l->bytes != sizeof(c))
		return NULL;
	memcpy(&c, l->args, sizeof(c));
	return c.to;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
	struct copy c = { to, from, bytes };
	(void)kind;
	gpu_launch(run_copy, NULL, &c, sizeof(c), 1, GPU_WARP, stream);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	gpu_mark((struct gpu_event *)event, stream);
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	(void)flags;
	gpu_await(stream, (const struct gpu_event *)event);
	return cudaSuccess;
}

/* The same streams as when another capture holds the engine's. */
int engine_choose_beside(struct engine *e, cudaStream_t stream, cudaStream_t *beside, cudaStream_t *work)
{
	int ours = gpu_random(SAME_ONE_IN) != 0;
	*beside = ours ? e->beside : stream;
	*work = ours ? e->work : stream;
	return 0;
}
