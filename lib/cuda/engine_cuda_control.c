/*
 * The control stream, and the host words that kernels look at. Copies on this stream wait neither for calls that wait for a late peer nor
 * for room on the GPU. cudaMemset would be a kernel, and cudaMemcpy waits for all streams that are not made otherwise.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine_cuda.h"
#include "base/log.h"

enum { FILL_PIECE = 1 << 20 };

/*
 * Host memory that kernels use, of our own rather than the runtime's: that of cudaHostAlloc goes when the process exits, or the program
 * resets the GPU, while other threads still read it. Shared, so that a fork never moves the owner's pages, and no child has them.
 */
static int make_words(struct engine *e)
{
	void *gpu = NULL,
	     *at = mmap(NULL, sizeof(*e->words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return log_error(CORALE_ENOMEM, e->world_rank,
				 "no host memory for the words of a GPU engine: %s", strerror(errno));
	madvise(at, sizeof(*e->words), MADV_DONTFORK);
	int ret = engine_check(e, cudaHostRegister(at, sizeof(*e->words), cudaHostRegisterMapped),
			       "registering host memory");
	if (ret) {
		munmap(at, sizeof(*e->words));
		return ret;
	}
	e->words = at;
	ret = engine_check(e, cudaHostGetDevicePointer(&gpu, at, 0),
			   "asking for the address of host memory on the GPU");
	if (!ret && gpu != at)
		ret = log_error(
		    CORALE_ENOTSUP, e->world_rank,
		    "registered host memory has address %p here and %p on the GPU; one address is needed", at,
		    gpu);
	return ret;
}

static void free_words(struct engine *e)
{
	if (!e->words)
		return;
	if (cudaHostUnregister(e->words) != cudaSuccess)
		cudaGetLastError(); /* the context is broken, or gone */
	munmap(e->words, sizeof(*e->words));
}

static cudaError_t make_spare(struct engine *e)
{
	void *spare, *none = NULL;
	cudaError_t error = cudaMalloc(&spare, 1);
	if (error == cudaSuccess && !atomic_compare_exchange_strong(&e->spare, &none, spare))
		error = cudaFree(spare);
	return error;
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
	ret = engine_make_stream(e, 0, &e->control);
	return ret ? ret : engine_check(e, make_spare(e), "allocating memory");
}

void engine_control_close(struct engine *e)
{
	if (e->control)
		cudaStreamDestroy(e->control);
	cudaFree(e->spare);
	free_words(e);
}

int engine_put(struct engine *e, void *to, const void *from, size_t bytes)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* another stream may be capturing */
	int ret = engine_check(e, cudaThreadExchangeStreamCaptureMode(&mode), "copying to the GPU");
	if (ret)
		return ret;
	ret = engine_check(e, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, e->control),
			   "copying to the GPU");
	ret = ret ? ret : engine_check(e, cudaStreamSynchronize(e->control), "copying to the GPU");
	cudaThreadExchangeStreamCaptureMode(&mode);
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

/* ---- All work of the GPU -------------------------------------------------------------------------------- */

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

/* cudaFree waits so. cudaDeviceSynchronize does, too, but it invalidates every capture that is under way in the process. */
int engine_wait_idle(struct engine *e)
{
	set_hold(e, 0); /* a stream that is held never becomes idle */
	void *spare =
	    atomic_exchange(&e->spare, NULL); /* none: another thread waits, too, or there was no memory */
	if (!spare && cudaMalloc(&spare, 1) != cudaSuccess)
		cudaGetLastError();
	cudaError_t error = spare ? cudaFree(spare) : cudaDeviceSynchronize();
	resume_hold(e);
	if (error == cudaSuccess && make_spare(e) != cudaSuccess)
		cudaGetLastError(); /* the program has taken all: the next time waits the other way */
	return engine_check(e, error, "waiting for the GPU to become idle");
}

int engine_health(struct engine *e)
{
	cudaError_t error = cudaStreamQuery(e->control);
	return error == cudaErrorNotReady ? 0 : engine_check(e, error, "asking whether the context works");
}

/* ---- Ending waits --------------------------------------------------------------------------------------- */

/* Writes the first word of a rank's window, which every kernel there looks at first. */
static void signal_rank(struct engine *e, int rank)
{
	if (e->mapped[rank] &&
	    cudaMemcpyAsync((void *)(e->base + (size_t)rank * e->stride), &e->words->stop,
			    sizeof(e->words->stop), cudaMemcpyDefault, e->control) != cudaSuccess)
		cudaGetLastError(); /* the context is broken: nothing waits in it */
}

/* One of our kernels that has failed has signalled all ranks itself. */
static void signal_ranks(struct engine *e, int code)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	CUcontext ours;
	if (e->failure->code || e->driver.push_context(e->context) != CUDA_SUCCESS)
		return;
	cudaThreadExchangeStreamCaptureMode(&mode);
	e->words->stop = (uint64_t)(e->rank + 1) << 32 | (uint32_t)-code;
	for (int r = 0; r < e->ranks; r++)
		signal_rank(e, r);
	cudaThreadExchangeStreamCaptureMode(&mode);
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
