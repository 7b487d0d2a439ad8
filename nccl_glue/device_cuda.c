/* SPDX-License-Identifier: BSD-3-Clause */
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
					.alloc = alloc,
					.free = free_memory };

const struct door_device *const door_device_gpu = &gpu;
