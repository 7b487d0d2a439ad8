/* SPDX-License-Identifier: BSD-3-Clause */
/* How many blocks a communicator's kernels have. */
#include "base/settings.h"
#include "door.h"
#include "env.h"

int door_max_blocks(const struct door_config *config, int pinned)
{
	const struct settings *settings;
	const int asked = pinned ? 0 : door_env_max_ctas(), given = config->min_ctas,
		  least = given > door_env_min_ctas() ? given : door_env_min_ctas();
	if (config->max_ctas > 0 && !pinned)
		return config->max_ctas;
	if (!door_settings(&settings) && settings->max_ctas > 0)
		return settings->max_ctas;
	if (asked > 0)
		return asked;
	return least > DOOR_BLOCKS ? least : 0;
}
