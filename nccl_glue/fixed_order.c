/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixed_order.h"

#include "env.h"
#include "env_map.h"

int door_fixes_order(const struct door_config *config)
{
	const int least = config->min_ctas ? config->min_ctas : door_env_min_ctas(),
		  most = config->max_ctas ? config->max_ctas : door_env_max_ctas();
	return least == 1 && most == 1 && door_map_pins_algorithm(door_env("NCCL_ALGO")) &&
	       door_map_pins_simple(door_env("NCCL_PROTO"));
}
