/*
 * The engine's own stream. Copies of copy engines on it wait neither for calls that wait for a late peer nor for room on the
 * GPU; a cudaMemset would be a kernel, and cudaMemcpy waits for all streams that are not made otherwise.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_cuda.h"
#include "log.h"

enum { SIDE_PIECE = 1 << 20 };

int engine_side_open(struct engine *e)
{
	int ret = engine_check_driver(e, e->driver.current_context(&e->context), "asking for the context");
	if (!ret)
		ret =
		    engine_check(e, cudaHostAlloc((void **)&e->words, sizeof(*e->words), cudaHostAllocMapped),
				 "allocating host memory");
	if (ret)
		return ret;
	memset(e->words, 0, sizeof(*e->words));
	e->failure = &e->words->failure;
	e->abort = &e->words->abort;
	return engine_check(e, cudaStreamCreateWithFlags(&e->side, cudaStreamNonBlocking), "making a stream");
}

void engine_side_close(struct engine *e)
{
	if (e->side)
		cudaStreamDestroy(e->side);
	if (e->words)
		cudaFreeHost(e->words);
}

int engine_put(struct engine *e, void *to, const void *from, size_t bytes)
{
	int ret = engine_check(e, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, e->side),
			       "copying to the GPU");
	return ret ? ret : engine_check(e, cudaStreamSynchronize(e->side), "copying to the GPU");
}

int engine_fill(struct engine *e, void *to, int byte, size_t bytes)
{
	int ret = 0;
	unsigned char *piece = malloc(SIDE_PIECE);
	if (!piece)
		return log_error(CORALE_ENOMEM, e->rank, "no memory to fill a window from");
	memset(piece, byte, SIDE_PIECE);
	for (size_t at = 0; !ret && at < bytes; at += SIDE_PIECE)
		ret =
		    engine_put(e, (char *)to + at, piece, bytes - at < SIDE_PIECE ? bytes - at : SIDE_PIECE);
	free(piece);
	return ret;
}

/* ---- Ending waits --------------------------------------------------------------------------------------- */

/* Writes the first word of every peer's window. A kernel of ours that has failed has done so itself. */
static void tell_peers(struct engine *e, int code)
{
	CUcontext ours;
	if (e->failure->code || e->driver.push_context(e->context) != CUDA_SUCCESS)
		return;
	e->words->told = (uint64_t)(e->rank + 1) << 32 | (uint32_t)-code;
	for (int r = 0; r < e->ranks; r++)
		if (r != e->rank && e->mapped[r] &&
		    cudaMemcpyAsync((void *)(e->base + (size_t)r * e->stride), &e->words->told,
				    sizeof(e->words->told), cudaMemcpyDefault, e->side) != cudaSuccess)
			cudaGetLastError(); /* the context is broken: nothing waits in it */
	e->driver.pop_context(&ours);
}

void engine_abort(struct engine *e, int code)
{
	if (__sync_bool_compare_and_swap(e->abort, 0u, (uint32_t)-code))
		tell_peers(e, code);
}
