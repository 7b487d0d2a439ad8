/* SPDX-License-Identifier: BSD-3-Clause */
#include "planned.h"

#include <string.h>

#include "kernels/codelets.h"
#include "net/connections.h"
#include "plan/codelet/launch.h"

static void init(struct gpu_machine *machine, const struct plan_map *map, const struct settings *settings,
		 const struct rates *rates, int in_host)
{
	struct codelet_layout layout;
	const struct plan_blocks_asked asked = { .given = settings->max_ctas,
						 .efficient = settings->cta_policy == SETTINGS_CTA_EFFICIENT,
						 .in_host = in_host };
	const int given = plan_most_blocks(&asked), resident = 2 * rates->blocks, ranks = map->max_node_size;
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

void gpu_machine_init(struct gpu_machine *machine, const struct plan_map *map,
		      const struct settings *settings, const struct rates *rates)
{
	init(machine, map, settings, rates, 0);
}

void gpu_machine_init_in_host(struct gpu_machine *machine, const struct plan_map *map,
			      const struct settings *settings, const struct rates *rates)
{
	struct settings of_host = *settings;
	of_host.gpu_window = settings->host_window ? settings->host_window : (size_t)8 << 20;
	init(machine, map, &of_host, rates, 1);
	machine->host_window = machine->words_only = 1;
	machine->scratch_bytes = 0;
	memset(machine->refused, 0, sizeof machine->refused);
	gpu_machine_settings(machine, map, settings);
	gpu_machine_refuse(machine, &copies_codelet);
}

struct remote gpu_planners_remote(const struct plan_map *map, const struct settings *settings)
{
	if (map->nodes == 1)
		return (struct remote){ 0 };
	return connections_shape(map->ranks, map->nodes, map->max_node_size, gpu_planners_least_node(map),
				 settings->pinned_memory);
}

/* One rank has no messages, whatever runs it: its plan is the one without. */
int planner_plan_codelet(const struct planner *planner, const struct plan_key *key, const struct row *row,
			 const struct plan_call *call, struct plan *out, char *error, size_t error_bytes)
{
	struct planner_fits fits = { 0 };
	int ret = planner_build_codelet(planner, key, row, call, out);
	if (ret != CORALE_ENOTSUP)
		return ret;
	ret = planner_plan_plain(planner, key, &fits, out, error, error_bytes);
	out->codelet = (uint8_t)row->codelet->index;
	out->protocol = (uint8_t)row->protocol;
	return ret;
}

int planner_plan(const struct planner *planner, const struct plan_key *key, const struct plan_call *call,
		 struct plan *out, char *error, size_t error_bytes)
{
	struct planner_fits fits = { 0 };
	const struct row *row = call ? planner_codelet(planner->machine, call) : NULL;
	const int lowers = row ? planner_lowers(planner, key, row, call, &fits, out, error, error_bytes) : 0;
	if (lowers)
		return lowers < 0 ? lowers : 0;
	return row ? planner_plan_codelet(planner, key, row, call, out, error, error_bytes)
		   : planner_plan_plain(planner, key, &fits, out, error, error_bytes);
}
