/* corale-plan's parts: what was asked for, the report in words, the picture. */
#ifndef EXAMPLES_PLAN_H
#define EXAMPLES_PLAN_H

#include "plan/plan_codelet.h"
#include "plan/planner.h"
#include "plan/sim.h"

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

/* GPUs of one node, whose communicators choose among codelets. */
struct plan_gpus {
	int used;
	struct plan_node node;
};

/* Whether the machine is GPUs of one node; then *planner is the one that their communicators have. */
int plan_gpus_open(struct plan_gpus *gpus, const struct topo *topo, const struct settings *settings,
		   struct planner *planner);
/* Prints what runs a call, and makes *plan the plan of the codelet that runs it, if one does and the table has it. */
void plan_gpus_choose(const struct plan_gpus *gpus, const struct plan_request *request,
		      const struct planner *planner, struct plan *plan);

/* Prints the plan, a rank's first steps, times, and the table; returns 0 or a CORALE_E* code. */
int plan_report(const struct plan_request *request, const struct planner *planner,
		const struct plan_gpus *gpus);

/* Draws events as an SVG file; returns 0 or CORALE_ESYSTEM (errno tells). */
int plan_plot(const char *file, const struct plan *plan, const struct sim_result *result, int ranks,
	      const char *title);

#endif
