/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/order.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "sync.h"

#include "../../kernels/order.cu"
