/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's GPUs as the choice of rows sees them. Pure: it depends on facts that all ranks share.
 */
#ifndef GPU_PLANNERS_H
#define GPU_PLANNERS_H

#include "kernels/remote.h"
#include "plan/choose/planner.h"

/* Adds the settings and the map of ranks to a machine that has the limits of its GPUs. */
void gpu_machine_settings(struct gpu_machine *machine, const struct plan_map *map,
			  const struct settings *settings);

/* Ranks of the smallest node. */
int gpu_planners_least_node(const struct plan_map *map);

/* The planners of calls without a codelet: multi-channel, and single-channel for small calls between nodes, to which the first one points. topo and machine
 * stay the caller's. */
void gpu_planners_init(const struct topo *topo, const struct settings *settings,
		       const struct gpu_machine *machine, const struct remote *remote, struct planner *multi,
		       struct planner *single);

#endif
