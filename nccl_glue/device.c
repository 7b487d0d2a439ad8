/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include "base/log.h"
#include "base/settings.h"
#include "corale.h"
#include "env.h"

/* For log lines. */
static int ordinal(void)
{
	int found = 0;
	return door_device_gpu && door_device_gpu->peek(&found) ? found : 0;
}

int door_settings(const struct settings **out)
{
	return door_env_open(ordinal, out);
}

const struct door_device *door_device_find(void)
{
	const struct settings *settings;
	if (door_settings(&settings))
		return NULL;
	if (settings->nccl_device == SETTINGS_NCCL_HOST)
		return &door_device_host;
	if (!door_device_gpu)
		log_error(CORALE_ENOTSUP, -1,
			  "this libnccl.so.2 was built without CUDA: build Corale with --with-cuda, or set "
			  "CORALE_NCCL_DEVICE=host for buffers in host memory");
	return door_device_gpu;
}
