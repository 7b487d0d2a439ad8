/* What a CUDA communicator on a machine of one node would run: a codelet, or the plan lowered. */
#include <stdio.h>

#include "base/collectives.h"
#include "base/status.h"
#include "kernels/codelets.h"
#include "plan.h"

int plan_gpus_open(struct plan_gpus *gpus, const struct topo *topo, const struct settings *settings,
		   struct planner *planner)
{
	struct codelet_layout layout;
	const struct rates *rates = rates_of_default_gpu();
	int given = plan_most_blocks(settings->max_ctas, settings->cta_policy == SETTINGS_CTA_EFFICIENT);
	gpus->used = !topo->shared_memory && topo->map.nodes == 1 && topo->map.ranks <= CODELET_MAX_RANKS;
	if (!gpus->used)
		return 0;
	codelet_layout_init(&layout, topo->map.ranks, settings->gpu_window);
	gpus->node = (struct plan_node){ .rates = rates,
					 .ranks = topo->map.ranks,
					 .max_blocks = given && given < rates->blocks ? given : rates->blocks,
					 .words_bytes = layout.words_bytes,
					 .lines_bytes = layout.lines_bytes,
					 .slots_bytes = layout.slots_bytes };
	plan_node_settings(&gpus->node, settings);
	planner_init_gpus(planner, topo, settings, &gpus->node);
	return 1;
}

static struct plan_call call_of(const struct plan_request *r, int memory)
{
	return (struct plan_call){ r->coll, r->bytes, plan_in_words(r->type), PLAN_MEMORY_SCRATCH | memory };
}

enum { PLAIN, REGISTERED = PLAN_MEMORY_REGISTERED | PLAN_MEMORY_EXPORTED };

int plan_gpus_plan(const struct plan_request *r, const struct planner *planner, const struct plan_key *key,
		   struct plan *plan, char *error, size_t error_bytes)
{
	const struct plan_call call = call_of(r, PLAIN);
	return planner_plan_call(planner, key, &call, plan, error, error_bytes);
}

static void print_choice(const char *memory, const struct plan_request *r, const struct planner *planner,
			 int kind)
{
	const struct plan_call call = call_of(r, kind);
	const struct plan_way *way = planner_way(planner, &call);
	if (way)
		printf("%s: codelet %s, which runs %s", memory, plan_codelet_name(way->codelet), way->algo);
	else
		printf("%s: lowered", memory);
}

void plan_gpus_print(const struct plan_request *r, const struct planner *planner)
{
	if (coll_is_pair(r->coll) || coll_is_uneven(r->coll)) {
		printf("on GPUs:    sends, receives and all_to_all_v have a kernel of their own\n");
		return;
	}
	printf("on GPUs:    ");
	print_choice("plain memory", r, planner, PLAIN);
	print_choice("; registered memory", r, planner, REGISTERED);
	printf("\n");
}

static void print_ways(const struct plan_request *r, const struct planner *planner, const char *memory,
		       int kind)
{
	const struct plan_call call = call_of(r, kind);
	int n;
	const struct plan_way *ways = plan_ways(r->coll, &n);
	printf("why:        %s memory, modelled:", memory);
	for (int i = 0; i < n; i++) {
		double us = plan_way_time(&ways[i], planner->node, &call);
		if (us >= 0)
			printf(" %s %s %.1f us;", plan_codelet_name(ways[i].codelet),
			       plan_protocol_name(ways[i].protocol), us);
	}
	printf(" rates of %s\n", planner->node->rates->name);
}

void plan_gpus_print_times(const struct plan_request *r, const struct planner *planner)
{
	const struct plan_call call = call_of(r, PLAIN);
	double us = plan_way_time(planner_way(planner, &call), planner->node, &call),
	       bound = cost_lower_bound(planner->topo, r->coll, r->bytes);
	char time[32], least[32];
	print_ways(r, planner, "plain", PLAIN);
	print_ways(r, planner, "registered", REGISTERED);
	printf("modelled:   %s; no schedule on these links takes less than %s\n",
	       plan_time_text(us * 1e3, time, sizeof time), plan_time_text(bound, least, sizeof least));
}

/* A line: the time of each way, with a star at the one that is taken. */
static void print_line(const struct plan_request *r, const struct planner *planner)
{
	const struct plan_call call = call_of(r, PLAIN);
	const struct plan_way *taken = planner_way(planner, &call);
	char text[32];
	int n;
	const struct plan_way *ways = plan_ways(r->coll, &n);
	printf("%8s", plan_bytes_text(r->bytes, text, sizeof text));
	for (int i = 0; i < n; i++) {
		double us = plan_way_time(&ways[i], planner->node, &call);
		if (us < 0)
			printf("  %21s ", "-");
		else
			printf("  %21s%s", plan_time_text(us * 1e3, text, sizeof text),
			       &ways[i] == taken ? "*" : " ");
	}
	printf("\n");
}

void plan_gpus_print_table(const struct plan_request *request, const struct planner *planner)
{
	struct plan_request r = *request;
	int n;
	const struct plan_way *ways = plan_ways(r.coll, &n);
	if (!coll_has_count(r.coll))
		return;
	printf("\n%8s", "bytes");
	for (int i = 0; i < n; i++) {
		char name[32];
		snprintf(name, sizeof name, "%s %s", plan_codelet_name(ways[i].codelet),
			 plan_protocol_name(ways[i].protocol));
		printf("  %21s ", name);
	}
	printf("\n");
	for (r.bytes = 8; r.bytes <= (size_t)1 << 30; r.bytes *= 8)
		print_line(&r, planner);
	printf("Plain memory. * is taken; - does not apply here, or is left out by the settings\n");
}
