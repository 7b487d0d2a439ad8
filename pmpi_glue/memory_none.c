/* SPDX-License-Identifier: BSD-3-Clause */
/* A build without CUDA. */
#include "memory.h"

const struct pmpi_device *const pmpi_device_gpu;
