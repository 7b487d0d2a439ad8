/* kernels/lowered.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "shared.h"
#include "sync.h"

#include "../../kernels/lowered.cu"
