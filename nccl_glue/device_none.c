/* SPDX-License-Identifier: BSD-3-Clause */
/* A build without CUDA. */
#include "device.h"

const struct door_device *const door_device_gpu;
