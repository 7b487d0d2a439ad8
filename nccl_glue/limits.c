/* SPDX-License-Identifier: BSD-3-Clause */
/* How many blocks a communicator's kernels have. */
#include "base/settings.h"
#include "door.h"
#include "env.h"

int door_max_blocks(const struct door_config *config, int pinned)
{
	const struct settings *settings;
	const int asked = pinned ? 0 : door_env_max_ctas();
	if (config->max_ctas > 0 && !pinned)
		return config->max_ctas;
	if (!door_settings(&settings) && settings->max_ctas > 0)
		return settings->max_ctas;
	return asked > 0 ? asked : 0;
}

int door_least_blocks(const struct door_config *config)
{
	const int of_all = door_env_min_ctas();
	return config->min_ctas > of_all ? config->min_ctas : of_all;
}
