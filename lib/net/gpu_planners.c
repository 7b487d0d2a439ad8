/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_planners.h"

#include "connections.h"
#include "plan/lower.h"

enum {
	SMALL_CLASS = 14, /* calls of 16 KB: between nodes of several ranks one channel is enough, */
	SMALL_SINGLES_CLASS = 12, /* of 4 KB: between nodes of one */
	REMOTE_BLOCKS = 24 /* of a kernel that sends between nodes: more blocks do not feed a NIC faster */
};

void gpu_machine_settings(struct gpu_machine *machine, const struct plan_map *map,
			  const struct settings *settings)
{
	machine->over_nodes = map->nodes > 1;
	machine->many_far = map->max_node_size > 1 || map->ranks > LOWERED_MOST_RANKS;
	gpu_machine_apply(machine, settings);
}

int gpu_planners_least_node(const struct plan_map *map)
{
	int least = map->max_node_size;
	for (int b = 0; b < map->nodes; b++) {
		const int size = map->node_first[b + 1] - map->node_first[b];
		least = size < least ? size : least;
	}
	return least;
}

/* Between nodes of one rank single-channel connections pay where they are deeper, for calls that fit a slot. */
static int small_class(const struct remote_slots *large, const struct remote_slots *small, int several_each)
{
	if (several_each)
		return SMALL_CLASS;
	if (small->depth <= large->depth)
		return -1;
	int log = SMALL_SINGLES_CLASS;
	while (log > 0 && !(small->bytes >> log))
		log--;
	return log;
}

void gpu_planners_init(const struct topo *topo, const struct settings *settings,
		       const struct gpu_machine *machine, const struct remote *remote, struct planner *multi,
		       struct planner *single)
{
	planner_init_gpus(multi, topo, settings, machine);
	*single = *multi;
	if (topo->map.nodes == 1)
		return;
	const struct remote_slots *large = &remote->slots[REMOTE_OF_PLANS],
				  *small = &remote->slots[REMOTE_OF_SINGLE_CHANNEL];
	planner_limit_remote(multi, large->bytes, REMOTE_CHANNELS, REMOTE_BLOCKS);
	planner_limit_remote(single, small->bytes, 1, REMOTE_BLOCKS);
	multi->by_nodes = topo->map.max_node_size > 1;
	multi->single_class = small_class(large, small, multi->by_nodes);
	multi->single = single;
	multi->connection_ends = connections_ends(remote, REMOTE_OF_PLANS, settings->pinned_memory);
	single->connection_ends = connections_ends(remote, REMOTE_OF_SINGLE_CHANNEL, settings->pinned_memory);
}
