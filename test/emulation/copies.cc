/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/copies.cu as C++. */
#include <cuda_runtime.h>

#define LAUNCH_MOST_THREADS 64
#include "launch.h"
#include "sync.h"
#include "ring.h"
#include "tile.h"

#include "../../kernels/copies.cu"
