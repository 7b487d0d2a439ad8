/* SPDX-License-Identifier: BSD-3-Clause */
/* What lib/cuda/engine_cuda.h needs of CUDA's runtime, where there is none. */
#ifndef EMULATED_CUDA_RUNTIME_API_H
#define EMULATED_CUDA_RUNTIME_API_H

#include "cuda.h"

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef int cudaError_t;

enum { cudaSuccess = 0, cudaErrorInvalidKernelImage = 200, cudaErrorNotReady = 600 };
#define cudaStreamPerThread ((cudaStream_t)0x1002)

/* streams.c: what the calls by copies enqueue */
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDefault = 4 };
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

/* admit_test.c: calls on ordinary host memory */
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeRelaxed = 2 };
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);

/* share_test.c: memory that peers map */
enum { cudaMemoryTypeDevice = 2, cudaIpcMemLazyEnablePeerAccess = 1 };
struct cudaPointerAttributes {
	int type, device;
};
typedef struct {
	char reserved[64];
} cudaIpcMemHandle_t;
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory);
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *memory);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);

/* pinned_test.c: pinned memory */
enum {
	cudaErrorMemoryAllocation = 2,
	cudaMemoryTypeHost = 1,
	cudaHostAllocPortable = 1,
	cudaHostRegisterPortable = 1,
	cudaHostRegisterMapped = 2,
	cudaErrorNotSupported = 801
};
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaStreamQuery(cudaStream_t stream);

/* engine_close_test.c: an engine comes up and ends */
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
struct cudaDeviceProp {
	char name[256];
	struct {
		char bytes[16];
	} uuid;
	int multiProcessorCount;
};
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaHostGetDevicePointer(void **gpu, void *host, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

/* pmpi_contexts_test.c: copies of the MPI door */
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			      size_t rows, int kind, cudaStream_t stream);

#endif
