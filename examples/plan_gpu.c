/* What a CUDA communicator on a machine of one node would run: a codelet, or the plan lowered. */
#include <stdio.h>

#include "base/collectives.h"
#include "base/status.h"
#include "kernels/codelets.h"
#include "plan.h"
#include "plan/planner_algo.h"

/* An H200 has 132 processors, one of 32 of which is left to others. */
enum { MOST_BLOCKS = 128 };

int plan_gpus_open(struct plan_gpus *gpus, const struct topo *topo, const struct settings *settings,
		   struct planner *planner)
{
	struct codelet_layout layout;
	int given =
	    plan_codelet_most_blocks(settings->max_ctas, settings->cta_policy == SETTINGS_CTA_EFFICIENT);
	gpus->used = !topo->shared_memory && topo->map.nodes == 1 && topo->map.ranks <= CODELET_MAX_RANKS;
	if (!gpus->used)
		return 0;
	codelet_layout_init(&layout, topo->map.ranks, settings->gpu_window);
	gpus->node = (struct plan_node){ .ranks = topo->map.ranks,
					 .max_blocks = given && given < MOST_BLOCKS ? given : MOST_BLOCKS,
					 .words_bytes = layout.words_bytes,
					 .lines_bytes = layout.lines_bytes,
					 .slots_bytes = layout.slots_bytes };
	plan_codelet_settings(&gpus->node, settings);
	planner_init_gpus(planner, topo, settings, layout.slots_bytes, gpus->node.max_blocks);
	return 1;
}

static enum plan_codelet choose(const struct plan_gpus *gpus, const struct plan_request *r, int memory)
{
	int words = type_is_float(r->type) && corale_type_bytes(r->type) <= sizeof(float);
	return plan_codelet_choose(&gpus->node, r->coll, r->bytes, words, PLAN_MEMORY_SCRATCH | memory);
}

static void print_choice(const char *memory, const struct plan_request *r, enum plan_codelet codelet)
{
	if (codelet == CODELET_NONE)
		printf("%s: lowered", memory);
	else
		printf("%s: codelet %s, which runs %s%s", memory, plan_codelet_name(codelet),
		       plan_codelet_algo(codelet, r->coll),
		       algo_row(r->coll, plan_codelet_algo(codelet, r->coll)) < 0
			   ? " (by hand: no plan of the table)"
			   : "");
}

void plan_gpus_choose(const struct plan_gpus *gpus, const struct plan_request *r,
		      const struct planner *planner, struct plan *plan)
{
	if (coll_is_pair(r->coll) || r->coll == CORALE_ALL_TO_ALL_V) {
		printf("on GPUs:    sends, receives and all_to_all_v have a kernel of their own\n");
		return;
	}
	enum plan_codelet plain = choose(gpus, r, 0),
			  registered = choose(gpus, r, PLAN_MEMORY_REGISTERED | PLAN_MEMORY_EXPORTED);
	int row = plain == CODELET_NONE ? -1 : algo_row(r->coll, plan_codelet_algo(plain, r->coll));
	struct plan own;
	printf("on GPUs:    ");
	print_choice("plain memory", r, plain);
	print_choice("; registered memory", r, registered);
	printf("\n");
	if (row >= 0 && !planner_build(planner, &plan->key, row, &own))
		*plan = own;
}
