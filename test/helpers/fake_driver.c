/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives the GPU engine memory of the host where it asks for a GPU's, and counts what it has not given back. */
#include "test/helpers/fake_driver.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"

_Atomic int fake_open_now, fake_is_gone;
unsigned char *_Atomic fake_last_placed;
_Thread_local CUcontext fake_context;
_Thread_local enum cudaStreamCaptureMode fake_capture_mode = cudaStreamCaptureModeGlobal;

void fake_call(void)
{
	if (fake_is_gone)
		_exit(99);
}

CUresult fake_current_context(CUcontext *context)
{
	*context = fake_context;
	return CUDA_SUCCESS;
}

CUresult fake_push_context(CUcontext context)
{
	fake_call();
	fake_context = context;
	return CUDA_SUCCESS;
}

CUresult fake_pop_context(CUcontext *context)
{
	*context = fake_context;
	return CUDA_SUCCESS;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	const enum cudaStreamCaptureMode before = fake_capture_mode;
	fake_capture_mode = *mode;
	*mode = before;
	return cudaSuccess;
}

int cuda_report(int rank, int ordinal, int error, const char *what)
{
	return error ? log_error(CORALE_EDEVICE, rank, "%s: error %d", what, error) : 0;
}

int cuda_report_driver(struct cuda_device device, CUresult error, const char *what)
{
	return cuda_report(device.rank, device.ordinal, error, what);
}

CUresult fake_release(CUmemGenericAllocationHandle handle)
{
	return CUDA_SUCCESS;
}

CUresult fake_reserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted, uint64_t flags)
{
	*at = (CUdeviceptr)aligned_alloc(4096, bytes);
	fake_open_now++;
	return CUDA_SUCCESS;
}

CUresult fake_unreserve(CUdeviceptr at, size_t bytes)
{
	free((void *)at);
	fake_open_now--;
	return CUDA_SUCCESS;
}

CUresult fake_unmap(CUdeviceptr at, size_t bytes)
{
	return CUDA_SUCCESS;
}

int cuda_memory_unit(struct cuda_device device, size_t *unit)
{
	*unit = FAKE_UNIT;
	return 0;
}

int cuda_memory_make(struct cuda_device device, size_t bytes, int for_adapters,
		     CUmemGenericAllocationHandle *handle)
{
	*handle = 1;
	return 0;
}

int cuda_memory_map(struct cuda_device device, CUdeviceptr at, size_t bytes,
		    CUmemGenericAllocationHandle handle)
{
	return 0;
}

int cuda_memory_place(struct cuda_device device, CUmemGenericAllocationHandle handle, size_t bytes,
		      void **out)
{
	fake_open_now++;
	*out = fake_last_placed = aligned_alloc(4096, bytes);
	memset(*out, 0xff, bytes);
	return 0;
}

int cuda_memory_alloc(struct cuda_device device, int for_adapters, size_t *bytes, void **out)
{
	*bytes = (*bytes + FAKE_UNIT - 1) / FAKE_UNIT * FAKE_UNIT;
	return cuda_memory_place(device, 1, *bytes, out);
}

void cuda_memory_free(struct cuda_device device, void *memory, size_t bytes)
{
	fake_call();
	sched_yield(); /* a driver takes a while */
	free(memory);
	fake_open_now--;
}

int cuda_memory_import(struct cuda_device device, int fd, CUmemGenericAllocationHandle *handle)
{
	assert_int_equal(fd, FAKE_FD);
	*handle = 2;
	return 0;
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
	return "";
}
