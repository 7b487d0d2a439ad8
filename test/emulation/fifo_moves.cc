/* kernels/fifo_moves.cu as C++. */
#include <cuda_runtime.h>

#include "launch.h"
#include "sync.h"

#include "../../kernels/fifo_moves.cu"
