/*
 * What programs that run behind the MPI door use of fake_device.h, on real GPUs: loaded in front of them in libfake_device.so's place (TEST_DEVICE, test/cuda.sh).
 * Device 0 is the rank's own GPU, which is current behind the first call here; device 1 the one behind it.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_device.h"

static void expect(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "cuda device: %s: %s\n", what, cudaGetErrorString(error));
	abort();
}

static int local_rank(void)
{
	const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			return atoi(getenv(names[i]));
	return 0;
}

static void use(int ordinal)
{
	int gpus;
	expect(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
	expect(cudaSetDevice((local_rank() + ordinal) % gpus), "cudaSetDevice");
}

void *fake_device_alloc(int ordinal, size_t bytes)
{
	void *memory = NULL;
	use(ordinal);
	expect(cudaMalloc(&memory, bytes ? bytes : 1), "cudaMalloc");
	use(0);
	return memory;
}

void fake_device_free(void *memory)
{
	expect(cudaFree(memory), "cudaFree");
}

/* Also from one GPU to another; cudaMemcpy between two addresses of device memory may return before it is complete. */
void fake_device_copy(void *to, const void *from, size_t bytes)
{
	expect(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
	expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}
