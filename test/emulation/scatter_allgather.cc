/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/scatter_allgather.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "sync.h"

#include "../../kernels/scatter_allgather.cu"
