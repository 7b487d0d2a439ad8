/* kernels/one_two_shot_few.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "sync.h"

#include "../../kernels/one_two_shot_few.cu"
