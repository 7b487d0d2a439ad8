/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/one_shot.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "sync.h"

#include "../../kernels/one_shot.cu"
