/* What lib/engine_cuda.h needs of CUDA's driver, where there is none. */
#ifndef EMULATED_CUDA_H
#define EMULATED_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t CUdeviceptr;
typedef uint64_t CUmemGenericAllocationHandle;
typedef int CUresult, CUdevice;
typedef struct emulated_context *CUcontext;
typedef struct emulated_stream *CUstream;
typedef struct emulated_event *CUevent;

/* lib/device_cuda.h is about the driver's functions, and nothing here calls one. */
#define DEVICE_CUDA_H
struct cuda_driver {
	int none;
};

#endif
