/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files that call CUDA share. */
#ifndef PERF_CUDA_H
#define PERF_CUDA_H

#include <cuda_runtime_api.h>

/* Ends the job, saying what failed, if a call of the CUDA runtime did. */
void perf_cuda_must(cudaError_t error, const char *what);

#endif
