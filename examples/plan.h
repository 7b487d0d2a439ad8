/* corale-plan's parts: what was asked for, the report in words, the picture. */
#ifndef EXAMPLES_PLAN_H
#define EXAMPLES_PLAN_H

#include "plan/planner.h"
#include "plan/sim.h"

struct plan_request {
	const char *machine; /* text, or NULL: this machine */
	corale_coll coll;
	corale_type type;
	corale_op op;
	size_t bytes; /* of one vector or block */
	int root, rank, steps;
	const char *plot;
	int plot_ranks;
	int table; /* 0: leave the table of sizes out */
};

/* Prints the plan, a rank's first steps, times, and the table; returns 0 or a CORALE_E* code. */
int plan_report(const struct plan_request *request, const struct planner *planner);

/* Draws events as an SVG file; returns 0 or CORALE_ESYSTEM (errno tells). */
int plan_plot(const char *file, const struct plan *plan, const struct sim_result *result, int ranks,
	      const char *title);

#endif
