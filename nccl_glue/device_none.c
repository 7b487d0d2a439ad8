/* A build without CUDA. */
#include "device.h"

const struct door_device *const door_device_gpu;
