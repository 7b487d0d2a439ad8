/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/lowered.cu as C++. */
#include <cuda_runtime.h>

#define LAUNCH_MOST_THREADS 64
#include "launch.h"
#include "shared.h"
#include "sync.h"

#include "../../kernels/lowered.cu"
