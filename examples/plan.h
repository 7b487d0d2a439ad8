/* SPDX-License-Identifier: BSD-3-Clause */
/* corale-plan's parts: what was asked for, the report in words, the picture. */
#ifndef EXAMPLES_PLAN_H
#define EXAMPLES_PLAN_H

#include "plan/choose/choices.h"
#include "plan/choose/planner_room.h"
#include "plan/machine/rates.h"
#include "plans/sim.h"

struct plan_request {
	const char *machine; /* text, or NULL: this machine */
	int device; /* this machine's GPUs */
	corale_coll coll;
	corale_type type;
	corale_op op;
	size_t bytes; /* of one vector or block */
	int root, rank, steps;
	const char *plot;
	int plot_ranks;
	int table; /* 0: leave the table of sizes out */
};

/* GPUs, as their communicators choose rows. */
struct plan_gpus {
	int used;
	struct rates described; /* of the class, with links that a machine's text describes otherwise */
	char described_name[96];
	struct gpu_machine machine;
	struct planner single; /* of small calls between nodes */
	struct planner_room room; /* for connections between nodes */
};

/*
 * Whether the machine is GPUs; then *planner is the one that their communicators have, as long as *gpus lasts. rates: of their class, taken with
 * the links that topo has.
 */
int plan_gpus_open(struct plan_gpus *gpus, const struct topo *topo, const struct settings *settings,
		   const struct rates *rates, struct planner *planner);
/* The lists in which calls of a machine look their rows up, by class of memory; hosts have the plain one. */
struct plan_lists {
	struct choices plain, registered;
};

int plan_gpus_lists(const struct plan_request *request, const struct planner *planner,
		    struct plan_lists *lists, char *error, size_t error_bytes);
/* The plan of what runs a call in plain memory. Returns as planner_plan. */
int plan_gpus_plan(const struct plan_request *request, const struct planner *planner,
		   const struct row_choice *choice, const struct plan_key *key, struct plan *plan,
		   char *error, size_t error_bytes);
/* Prints what runs the call, whose plan in plain memory this is, and its launches; why, and its modelled time; the table of all rows over sizes. */
void plan_gpus_print(const struct plan_request *request, const struct planner *planner,
		     const struct plan_lists *lists, const struct plan *plan);
void plan_gpus_print_room(const struct planner *planner);
void plan_gpus_print_times(const struct plan_request *request, const struct planner *planner,
			   const struct plan_lists *lists);
void plan_gpus_print_table(const struct plan_request *request, const struct planner *planner,
			   const struct plan_lists *lists);

/* 1500 ns as "1.5 us"; 1024 bytes as "1K". */
const char *plan_time_text(double ns, char *buf, size_t bytes);
const char *plan_bytes_text(size_t bytes, char *buf, size_t room);

/* Prints the plan, a rank's first steps, times, the choices over all sizes, and the table; returns 0 or a CORALE_E* code. */
int plan_report(const struct plan_request *request, const struct planner *planner,
		const struct plan_gpus *gpus);

/* Draws events as an SVG file; returns 0 or CORALE_ESYSTEM (errno tells). */
int plan_plot(const char *file, const struct plan *plan, const struct sim_result *result, int ranks,
	      const char *title);

#endif
