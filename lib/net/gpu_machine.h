/*
 * The GPUs of a communicator as the choice of rows sees them: from one place for the library, corale-plan and tests. Pure: it follows from what all
 * ranks know alike.
 */
#ifndef GPU_MACHINE_H
#define GPU_MACHINE_H

#include "kernels/remote.h"
#include "plan/choose/planner.h"

/* What settings and the map of ranks say of a node whose GPUs' limits are there already. */
void gpu_machine_settings(struct gpu_machine *node, const struct plan_map *map,
			  const struct settings *settings);

/* The same with the limits of GPUs of a class that nothing else uses: what an engine on one says of itself. */
void gpu_machine_init(struct gpu_machine *node, const struct plan_map *map, const struct settings *settings,
		      const struct rates *rates);

/* Slots and channels between nodes, for ranks of such a map (lanes_shape); in one node: 0. */
struct remote gpu_machine_lanes(const struct plan_map *map, const struct settings *settings);

/* Planners of calls without a codelet: wide, and on one channel between nodes, narrow. topo and node stay the caller's. lanes: of several nodes,
 * where small calls of the wide planner are the narrow one's, which stays where it is. */
void gpu_machine_planners(const struct topo *topo, const struct settings *settings,
			  const struct gpu_machine *node, const struct remote *lanes, struct planner *wide,
			  struct planner *narrow);

#endif
