/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/pieces.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"

#include "../../kernels/pieces.cu"
