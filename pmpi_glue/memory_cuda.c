/* GPUs. All but the first three functions run where a context is there, as memory of a GPU was seen. */
#include <cuda_runtime_api.h>
#include <stddef.h>

#include "base/log.h"
#include "cuda/cuda_driver.h"
#include "corale.h"
#include "door.h"
#include "memory.h"

static struct cuda_driver driver;
static int is_loaded;

static int check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	return log_error(error == cudaErrorMemoryAllocation ? CORALE_ENOMEM : CORALE_EDEVICE, pmpi.rank,
			 "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

static int is_there(void)
{
	char why_not[256];
	is_loaded = cuda_load_driver(&driver, why_not, sizeof why_not);
	if (!is_loaded)
		log_line(LOG_INFO, pmpi.rank, "the MPI door takes no GPU memory: %s", why_not);
	return is_loaded && cuda_count() > 0;
}

static int ordinal(const void *p)
{
	corale_memory memory;
	return !corale_memory_kind(p, &memory) && memory.kind == CORALE_MEMORY_DEVICE ? memory.device : -1;
}

static int in_use(void)
{
	CUcontext context = NULL;
	int current;
	if (!is_loaded || driver.current_context(&context) != CUDA_SUCCESS || !context)
		return -1;
	return cudaGetDevice(&current) == cudaSuccess ? current : -1;
}

static void *reach(const void *p)
{
	return (void *)p;
}

static int enter(int wanted, int *before)
{
	int ret = check(cudaGetDevice(before), "asking for the current GPU");
	if (!ret && *before != wanted)
		ret = check(cudaSetDevice(wanted), "making a GPU the current one");
	return ret;
}

static void leave(int before)
{
	cudaSetDevice(before);
}

static int pin(size_t bytes, void **memory)
{
	return check(cudaHostAlloc(memory, bytes, cudaHostAllocPortable), "pinning host memory");
}

static void unpin(void *memory)
{
	cudaFreeHost(memory);
}

static int stream_create(void **stream)
{
	return check(cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking),
		     "making a stream");
}

static void stream_destroy(void *stream)
{
	cudaStreamDestroy(stream);
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
	return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying a buffer");
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		     size_t rows, void *stream)
{
	return check(
	    cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDefault, stream),
	    "copying rows of a buffer");
}

static int copy_pieces(const struct piece *pieces, size_t n, void *stream)
{
	const struct pieces_args args = { pieces, n, n < PIECES_WARPS ? PIECES_WARPS / n : 1 };
	return check((cudaError_t)codelets_copy_pieces(&args, stream), "copying parts of a buffer");
}

static int query(void *stream)
{
	const cudaError_t error = cudaStreamQuery(stream);
	if (error == cudaErrorNotReady)
		return 0;
	const int ret = check(error, "waiting for a copy");
	return ret ? ret : 1;
}

static const struct pmpi_device gpu = { .name = "CUDA",
					.corale_device = CORALE_DEVICE_CUDA,
					.is_there = is_there,
					.ordinal = ordinal,
					.in_use = in_use,
					.reach = reach,
					.enter = enter,
					.leave = leave,
					.pin = pin,
					.unpin = unpin,
					.stream_create = stream_create,
					.stream_destroy = stream_destroy,
					.copy = copy,
					.copy_rows = copy_rows,
					.copy_pieces = copy_pieces,
					.query = query };

const struct pmpi_device *const pmpi_device_gpu = &gpu;
