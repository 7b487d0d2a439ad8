/* Buffers of a GPU. */
#include "device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "base/log.h"
#include "corale.h"

static int check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	return log_error(error == cudaErrorMemoryAllocation ? CORALE_ENOMEM : CORALE_EDEVICE, -1,
			 "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

static int version(void)
{
	int found = 0;
	return cudaRuntimeGetVersion(&found) == cudaSuccess ? found : 0;
}

static int current(int *ordinal)
{
	return check(cudaGetDevice(ordinal), "asking for the current GPU");
}

static int peek(int *ordinal)
{
	return cudaGetDevice(ordinal) == cudaSuccess;
}

static int select_gpu(int ordinal)
{
	return check(cudaSetDevice(ordinal), "making a GPU the current one");
}

static int count(int *n)
{
	return check(cudaGetDeviceCount(n), "counting GPUs");
}

static int64_t bus_id(int ordinal)
{
	char pci[32] = "";
	unsigned domain = 0, bus = 0, device = 0, function = 0;
	if (cudaDeviceGetPCIBusId(pci, sizeof pci, ordinal) == cudaSuccess)
		sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function);
	return (int64_t)domain << 20 | (int64_t)bus << 12 | (int64_t)device << 4 | (int64_t)function;
}

/* 1: the stream is being captured. */
static int is_captured(void *stream, int *captured)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	int ret = check(cudaStreamIsCapturing((cudaStream_t)stream, &status),
			"asking whether a stream is captured");
	*captured = status != cudaStreamCaptureStatusNone;
	return ret;
}

/* For a graph, which may be replayed at any time: it stays for the life of the process. Other threads may capture meanwhile. */
static int alloc_for_graph(int ordinal, size_t bytes, void **memory)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	int before = 0;
	cudaThreadExchangeStreamCaptureMode(&mode);
	int ret = current(&before);
	ret = ret ? ret : select_gpu(ordinal);
	ret = ret ? ret
		  : check(cudaMalloc(memory, bytes), "allocating the copy of a captured all_to_all in place");
	cudaSetDevice(before);
	cudaThreadExchangeStreamCaptureMode(&mode);
	return ret;
}

/* Else memory of the stream's pool, for which no call waits. */
static int stage(int ordinal, const void *from, size_t bytes, void *stream, void **copy, int *stays)
{
	int ret = is_captured(stream, stays);
	if (!ret)
		ret = *stays ? alloc_for_graph(ordinal, bytes, copy)
			     : check(cudaMallocAsync(copy, bytes, (cudaStream_t)stream),
				     "allocating the copy of an all_to_all in place");
	return ret ? ret
		   : check(cudaMemcpyAsync(*copy, from, bytes, cudaMemcpyDefault, (cudaStream_t)stream),
			   "copying what an all_to_all in place sends");
}

static void unstage(void *copy, void *stream)
{
	check(cudaFreeAsync(copy, (cudaStream_t)stream), "letting go of the copy of an all_to_all in place");
}

static int alloc(size_t bytes, void **memory)
{
	return check(cudaMalloc(memory, bytes ? bytes : 1), "ncclMemAlloc");
}

static int free_memory(void *memory)
{
	return check(cudaFree(memory), "ncclMemFree");
}

static const struct door_device gpu = { .is_gpu = 1,
					.version = version,
					.current = current,
					.peek = peek,
					.select = select_gpu,
					.count = count,
					.bus_id = bus_id,
					.stage = stage,
					.unstage = unstage,
					.alloc = alloc,
					.free = free_memory };

const struct door_device *const door_device_gpu = &gpu;
