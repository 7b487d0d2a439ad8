/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/p2p.cu as C++. */
#include <cuda_runtime.h>

#define LAUNCH_MOST_THREADS 64
#include "launch.h"
#include "sync.h"
#include "shared.h"

#include "../../kernels/p2p.cu"
