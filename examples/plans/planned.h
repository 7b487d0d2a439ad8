/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator would choose that nobody makes: the machine of idle GPUs, and the plan of a call. */
#ifndef PLANNED_H
#define PLANNED_H

#include "net/gpu_planners.h"

/* gpu_machine_settings, with the limits that an engine reports on an idle GPU of a class. */
void gpu_machine_init(struct gpu_machine *machine, const struct plan_map *map,
		      const struct settings *settings, const struct rates *rates);

/* The same of GPUs whose windows lie in host memory, of 8 MB where CORALE_HOST_WINDOW=0. */
void gpu_machine_init_in_host(struct gpu_machine *machine, const struct plan_map *map,
			      const struct settings *settings, const struct rates *rates);

/* Slots and channels between nodes, for ranks of such a map (connections_shape); in one node: 0. */
struct remote gpu_planners_remote(const struct plan_map *map, const struct settings *settings);

/*
 * The plan of the row that is chosen, which hosts and lists run, and codelets are held to, then with the launch's blocks and
 * chunks. call: NULL on hosts, and where no row with a codelet can run it. As planner_plan_plain.
 */
int planner_plan(const struct planner *planner, const struct plan_key *key, const struct plan_call *call,
		 struct plan *out, char *error, size_t error_bytes);

/* The same of a row with a codelet that can run the call. */
int planner_plan_codelet(const struct planner *planner, const struct plan_key *key, const struct row *row,
			 const struct plan_call *call, struct plan *out, char *error, size_t error_bytes);

#endif
