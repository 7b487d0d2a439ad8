/* What lib/engine_cuda.h needs of CUDA's runtime, where there is none. */
#ifndef EMULATED_CUDA_RUNTIME_API_H
#define EMULATED_CUDA_RUNTIME_API_H

#include "cuda.h"

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef int cudaError_t;

enum { cudaSuccess = 0 };

#endif
