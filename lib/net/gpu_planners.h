/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's GPUs as the choice of rows sees them, for the library, corale-plan and tests. Pure: it depends on facts that all ranks share.
 */
#ifndef GPU_PLANNERS_H
#define GPU_PLANNERS_H

#include "kernels/remote.h"
#include "plan/choose/planner.h"

/* Adds the settings and the map of ranks to a machine that has the limits of its GPUs. */
void gpu_machine_settings(struct gpu_machine *machine, const struct plan_map *map,
			  const struct settings *settings);

/* The same, with the limits that an engine reports on an idle GPU of a class. */
void gpu_machine_init(struct gpu_machine *machine, const struct plan_map *map,
		      const struct settings *settings, const struct rates *rates);

/* The same of GPUs whose windows lie in host memory, as by CORALE_HOST_WINDOW=8M where that is not set. */
void gpu_machine_init_in_host(struct gpu_machine *machine, const struct plan_map *map,
			      const struct settings *settings, const struct rates *rates);

/* Ranks of the smallest node. */
int gpu_planners_least_node(const struct plan_map *map);

/* Slots and channels between nodes, for ranks of such a map (connections_shape); in one node: 0. */
struct remote gpu_planners_remote(const struct plan_map *map, const struct settings *settings);

/* The planners of calls without a codelet: multi-channel, and single-channel for small calls between nodes, to which the first one points. topo and machine
 * stay the caller's. */
void gpu_planners_init(const struct topo *topo, const struct settings *settings,
		       const struct gpu_machine *machine, const struct remote *remote, struct planner *multi,
		       struct planner *single);

#endif
