/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_planners.h"

#include <string.h>

#include "kernels/codelets.h"
#include "connections.h"
#include "plan/lower.h"
#include "plan/codelet/launch.h"
#include "plan/codelet/row.h"

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

void gpu_machine_init(struct gpu_machine *machine, const struct plan_map *map,
		      const struct settings *settings, const struct rates *rates)
{
	struct codelet_layout layout;
	const int given =
		      plan_most_blocks(settings->max_ctas, settings->cta_policy == SETTINGS_CTA_EFFICIENT),
		  resident = 2 * rates->blocks, ranks = map->max_node_size;
	codelet_layout_init(&layout, ranks,
			    settings->gpu_window < settings->memory_cap ? settings->gpu_window
									: settings->memory_cap);
	const uint64_t rings = codelet_rings_room(layout.pair_rings, layout.ring_depth);
	*machine = (struct gpu_machine){ .rates = rates,
					 .ranks = ranks,
					 .zero_copy = LAUNCH_ZERO_COPY_BLOCKS,
					 .max_blocks = given && given < rates->blocks ? given : rates->blocks,
					 .resident = given && given < resident ? given : resident,
					 .words_bytes = layout.words_bytes,
					 .lines_bytes = layout.lines_bytes,
					 .slots_bytes = layout.slots_bytes,
					 .rings_bytes = rings,
					 .scratch_bytes = launch_scratch_bytes(ranks, layout.bytes,
									       settings->memory_cap) };
	gpu_machine_settings(machine, map, settings);
}

void gpu_machine_init_in_host(struct gpu_machine *machine, const struct plan_map *map,
			      const struct settings *settings, const struct rates *rates)
{
	struct settings of_host = *settings;
	of_host.gpu_window = settings->host_window ? settings->host_window : (size_t)8 << 20;
	of_host.max_ctas = plan_most_blocks_in_host(
	    plan_most_blocks(settings->max_ctas, settings->cta_policy == SETTINGS_CTA_EFFICIENT));
	gpu_machine_init(machine, map, &of_host, rates);
	machine->host_window = machine->words_only = 1;
	machine->scratch_bytes = 0;
	memset(machine->refused, 0, sizeof machine->refused);
	gpu_machine_settings(machine, map, settings);
	gpu_machine_refuse(machine, &copies_codelet);
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

struct remote gpu_planners_remote(const struct plan_map *map, const struct settings *settings)
{
	if (map->nodes == 1)
		return (struct remote){ 0 };
	return connections_shape(map->ranks, map->nodes, map->max_node_size, gpu_planners_least_node(map),
				 settings->pinned_memory);
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
