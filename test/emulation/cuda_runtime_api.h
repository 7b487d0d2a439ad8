/* What lib/engine_cuda.h needs of CUDA's runtime, where there is none. */
#ifndef EMULATED_CUDA_RUNTIME_API_H
#define EMULATED_CUDA_RUNTIME_API_H

#include "cuda.h"

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef int cudaError_t;

enum { cudaSuccess = 0 };

/* streams.c: what the calls by copies enqueue */
enum { cudaMemcpyDefault = 4 };
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

#endif
