/* SPDX-License-Identifier: BSD-3-Clause */
/* How many blocks a communicator's kernels have, and whether the least number is one of its pins. */
#include "base/settings.h"
#include "door.h"
#include "env.h"
#include "env_map.h"

int door_max_blocks(const struct door_config *config, int pinned)
{
	const struct settings *settings;
	const int asked = pinned ? 0 : door_env_max_ctas();
	if (config->max_ctas > 0 && !pinned)
		return config->max_ctas;
	if (!door_settings(&settings) && settings->max_ctas > 0)
		return settings->max_ctas;
	return asked;
}

int door_least_blocks(const struct door_config *config)
{
	const int of_all = door_env_min_ctas();
	return config->min_ctas > of_all ? config->min_ctas : of_all;
}

int door_fixes_order(const struct door_config *config)
{
	const int least = config->min_ctas ? config->min_ctas : door_env_min_ctas(),
		  most = config->max_ctas ? config->max_ctas : door_env_max_ctas();
	return least == 1 && most == 1 && door_map_pins_algorithm(door_env("NCCL_ALGO")) &&
	       door_map_pins_simple(door_env("NCCL_PROTO"));
}
