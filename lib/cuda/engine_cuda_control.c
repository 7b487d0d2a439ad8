/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control stream, and the host words that kernels look at. Copies on this stream wait neither for calls that wait for a late peer nor
 * for room on the GPU. cudaMemset would be a kernel, and cudaMemcpy waits for all streams that are not made otherwise.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine_cuda.h"
#include "base/log.h"
#include "base/wait.h"

enum { FILL_PIECE = 1 << 20 };

static int make_words(struct engine *e)
{
	void *gpu = NULL, *at = NULL;
	int ret = engine_check(e, engine_pool_take(e, POOL_WORDS, sizeof(*e->words), &at),
			       "registering host memory");
	e->words = at;
	if (ret)
		return ret;
	ret = engine_check(e, cudaHostGetDevicePointer(&gpu, at, 0),
			   "asking for the address of host memory on the GPU");
	if (!ret && gpu != at)
		ret = log_error(
		    CORALE_ENOTSUP, e->world_rank,
		    "registered host memory has address %p here and %p on the GPU; one address is needed", at,
		    gpu);
	return ret;
}

int engine_control_open(struct engine *e)
{
	int ret = engine_check_driver(e, e->driver.current_context(&e->context), "asking for the context");
	ret = ret ? ret : make_words(e);
	if (ret)
		return ret;
	e->failure = &e->words->failure;
	e->abort = &e->words->abort;
	e->hold = &e->words->hold;
	e->waits = e->words->waits;
	return engine_make_stream(e, 0, &e->control);
}

void engine_control_close(struct engine *e)
{
	if (e->control)
		cudaStreamDestroy(e->control);
	engine_pool_give(e->words);
}

int engine_put(struct engine *e, void *to, const void *from, size_t bytes)
{
	const int mode = engine_spare_captures();
	int ret = engine_check(e, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, e->control),
			       "copying to the GPU");
	ret = ret ? ret : engine_check(e, cudaStreamSynchronize(e->control), "copying to the GPU");
	engine_end_spare(mode);
	return ret;
}

int engine_fill(struct engine *e, void *to, int byte, size_t bytes)
{
	int ret = 0;
	unsigned char *piece = malloc(FILL_PIECE);
	if (!piece)
		return log_error(CORALE_ENOMEM, e->world_rank, "no memory to fill a window from");
	memset(piece, byte, FILL_PIECE);
	for (size_t at = 0; !ret && at < bytes; at += FILL_PIECE)
		ret =
		    engine_put(e, (char *)to + at, piece, bytes - at < FILL_PIECE ? bytes - at : FILL_PIECE);
	free(piece);
	return ret;
}

/* ---- Waiting for work of the GPU ------------------------------------------------------------------------- */

static void set_hold(struct engine *e, uint32_t word)
{
	if (e->hold)
		__atomic_store_n(e->hold, word, __ATOMIC_SEQ_CST);
}

void engine_release(struct engine *e)
{
	atomic_store(&e->released, 1);
	set_hold(e, 0);
}

/* What failed meanwhile has ended. */
static void resume_hold(struct engine *e)
{
	if (!e->holds || engine_failed(e))
		return;
	set_hold(e, 1);
	if (atomic_load(&e->released)) /* by another thread, perhaps just now */
		set_hold(e, 0);
}

static void make_spare(struct engine *e)
{
	void *spare, *none = NULL;
	if (cudaMalloc(&spare, 1) != cudaSuccess)
		cudaGetLastError(); /* the program has taken all: the wait is another one */
	else if (!atomic_compare_exchange_strong(&e->spare, &none, spare))
		cudaFree(spare);
}

/* The call is being captured: to allocate memory would end the capture in the mode that captures have by default. */
void engine_note_capture(struct engine *e)
{
	if (!e->captured) {
		const int mode = engine_spare_captures();
		make_spare(e);
		engine_end_spare(mode);
	}
	e->captured = 1;
	if (e->exporter)
		exporter_note_capture(e->exporter);
}

/* For all work of the GPU: cudaFree waits so. cudaDeviceSynchronize does, too, but it invalidates every capture that is under way in the process. */
static int wait_idle(struct engine *e)
{
	void *spare =
	    atomic_exchange(&e->spare, NULL); /* none: another thread waits, too, or there was no memory */
	if (!spare && cudaMalloc(&spare, 1) != cudaSuccess)
		cudaGetLastError();
	const cudaError_t error = spare ? cudaFree(spare) : cudaDeviceSynchronize();
	if (error == cudaSuccess && e->captured)
		make_spare(e);
	return engine_check(e, error, "waiting for the GPU to become idle");
}

enum { UNKNOWN = 2, POLL_NS = 200000, SETTLE_NS = 4000 /* as kernels that follow (kernels/order.cu) */ };

/* 1 if all eager launches have ended; 0 if not; UNKNOWN: what has failed counts nothing. A copy engine reads the count, as a kernel might find no room beside
 * others. */
static int poll_counted(struct engine *e)
{
	const uint64_t counted = __atomic_load_n(&e->counted, __ATOMIC_RELAXED);
	const int failed = engine_failed(e) || __atomic_load_n(e->abort, __ATOMIC_RELAXED);
	if (counted && cudaMemcpyAsync(&e->words->done, &e->state->done, sizeof e->words->done,
				       cudaMemcpyDefault, e->control) != cudaSuccess)
		return UNKNOWN;
	if (counted && cudaStreamSynchronize(e->control) != cudaSuccess)
		return UNKNOWN;
	if (e->words->done < counted)
		return failed ? UNKNOWN : 0;
	return !e->copied || cudaEventQuery(e->copied) != cudaErrorNotReady;
}

/* The same; what was captured counts nothing either. */
static int poll_own(void *arg)
{
	struct engine *e = arg;
	return e->captured || e->lost_count || e->slab.unbegun ? UNKNOWN : poll_counted(e);
}

int engine_rests(void *arg)
{
	struct engine *e = arg;
	return !atomic_load(&e->calling) && poll_counted(e);
}

int engine_wait_own(struct engine *e)
{
	const struct wait_policy policy = { .sleep_ns = POLL_NS };
	const struct timespec settle = { 0, SETTLE_NS };
	if (!e->words || !e->state) /* it has not come up */
		return 0;
	set_hold(e, 0); /* a stream that is held never goes on */
	const int unknown = wait_until(&policy, poll_own, e) == UNKNOWN;
	if (!unknown)
		nanosleep(&settle, NULL);
	const int ret = unknown ? wait_idle(e) : 0;
	resume_hold(e);
	return ret;
}

int engine_health(struct engine *e)
{
	const cudaError_t error = (cudaError_t)e->driver.stream_query(e->control); /* equal numbers */
	return error == cudaErrorNotReady ? 0 : engine_check(e, error, "asking whether the context works");
}

/* ---- Ending waits --------------------------------------------------------------------------------------- */

/* Writes the first word of a rank's window, which every kernel there looks at first. */
static void signal_rank(struct engine *e, int rank)
{
	if (e->machine.host_window && e->mapped[rank]) {
		__atomic_store_n((uint64_t *)(e->base + (size_t)rank * e->stride), e->words->stop,
				 __ATOMIC_RELEASE);
		return;
	}
	if (e->mapped[rank] &&
	    cudaMemcpyAsync((void *)(e->base + (size_t)rank * e->stride), &e->words->stop,
			    sizeof(e->words->stop), cudaMemcpyDefault, e->control) != cudaSuccess)
		cudaGetLastError(); /* the context is broken: nothing waits in it */
}

/* One of our kernels that has failed has signalled all ranks itself. */
static void signal_ranks(struct engine *e, int code)
{
	CUcontext ours;
	if (e->failure->code || e->driver.push_context(e->context) != CUDA_SUCCESS)
		return;
	const int mode = engine_spare_captures();
	e->words->stop = (uint64_t)(e->rank + 1) << 32 | (uint32_t)-code;
	for (int r = 0; r < e->ranks; r++)
		signal_rank(e, r);
	engine_end_spare(mode);
	e->driver.pop_context(&ours);
}

static int set_abort(struct engine *e, uint32_t word)
{
	return __sync_bool_compare_and_swap(e->abort, 0u, word);
}

void engine_stop(struct engine *e, int code)
{
	set_abort(e, (uint32_t)-code);
}

void engine_quit(struct engine *e, int code)
{
	set_abort(e, (uint32_t)-code | CODELET_LOCAL_ABORT);
}

void engine_abort(struct engine *e, int code)
{
	if (set_abort(e, (uint32_t)-code))
		signal_ranks(e, code);
}

void engine_end_kernels(struct engine *e, int code)
{
	set_abort(e, (uint32_t)-code);
	if (e->failure->code)
		return;
	e->words->stop = (uint64_t)(e->rank + 1) << 32 | (uint32_t)-code;
	signal_rank(e, e->rank);
	cudaStreamSynchronize(e->control);
}
