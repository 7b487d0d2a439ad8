/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/fifo_reduce.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "sync.h"
#include "shared.h"

#include "../../kernels/fifo_reduce.cu"
