/* SPDX-License-Identifier: BSD-3-Clause */
/* What a CUDA communicator on a machine would run: a codelet, or the plan lowered. */
#include <stdio.h>

#include "base/collectives.h"
#include "base/status.h"
#include "kernels/codelets.h"
#include "plans/planned.h"
#include "plan.h"
#include "plan/codelet/launch.h"

/* The class's rates, or, where the machine's text has other links, those of the class with these links. */
static const struct rates *rates_of_links(struct plan_gpus *gpus, const struct topo *topo,
					  const struct rates *rates)
{
	const struct topo_link *link = &topo->node;
	if (topo->bus_gbs > 0) {
		snprintf(gpus->described_name, sizeof gpus->described_name, "%s, over host memory",
			 rates->name);
		gpus->described = rates_with_bus(rates, gpus->described_name, topo->bus_gbs);
		return &gpus->described;
	}
	if (link->bytes_per_ns == rates->links.node_gbs && link->latency_ns == rates->links.node_ns)
		return rates;
	snprintf(gpus->described_name, sizeof gpus->described_name, "%s, scaled to the links described",
		 rates->name);
	gpus->described = rates_with_links(rates, gpus->described_name, link->bytes_per_ns, link->latency_ns);
	return &gpus->described;
}

int plan_gpus_open(struct plan_gpus *gpus, const struct topo *topo, const struct settings *settings,
		   const struct rates *rates, struct planner *planner)
{
	const struct remote remote = gpu_planners_remote(&topo->map, settings);
	gpus->used = !topo->shared_memory && topo->map.max_node_size <= CODELET_MAX_RANKS;
	if (!gpus->used)
		return 0;
	(topo->bus_gbs > 0 ? gpu_machine_init_in_host : gpu_machine_init)(
	    &gpus->machine, &topo->map, settings, rates_of_links(gpus, topo, rates));
	gpu_planners_init(topo, settings, &gpus->machine, &remote, planner, &gpus->single);
	if (planner->single && !planner_room_init(&gpus->room, planner))
		planner->room = &gpus->room;
	return 1;
}

/* Copies of premultiplied inputs, which have no scratch, nobody can ask for here. */
static struct plan_call call_of(const struct plan_request *r, const struct planner *planner, int memory)
{
	const size_t element = corale_type_bytes(r->type), bytes = r->bytes / element * element;
	int scratch =
	    planner->machine->scratch_bytes && !planner->machine->over_nodes ? PLAN_MEMORY_SCRATCH : 0;
	return (struct plan_call){ r->coll, coll_has_data(r->coll) ? bytes : 0, type_in_words(r->type),
				   memory | scratch, PLAN_ALIGNED_16 };
}

enum { PLAIN, REGISTERED = PLAN_MEMORY_REGISTERED | PLAN_MEMORY_EXPORTED };

int plan_gpus_lists(const struct plan_request *r, const struct planner *planner, struct plan_lists *lists,
		    char *error, size_t error_bytes)
{
	const struct plan_call plain = call_of(r, planner, PLAIN),
			       registered = call_of(r, planner, REGISTERED);
	const int ret =
	    choices_of(planner, r->coll, r->type, plain.memory, &lists->plain, error, error_bytes);
	return ret ? ret
		   : choices_of(planner, r->coll, r->type, registered.memory, &lists->registered, error,
				error_bytes);
}

int plan_gpus_plan(const struct plan_request *r, const struct planner *planner,
		   const struct row_choice *choice, const struct plan_key *key, struct plan *plan,
		   char *error, size_t error_bytes)
{
	const struct plan_call call = call_of(r, planner, PLAIN);
	return planner_plan_codelet(planner, key, choice->row, &call, plan, error, error_bytes);
}

/* The row with a codelet that a list names; NULL: another one. */
static const struct row *find_codelet(const struct choices *list, const struct plan_call *call)
{
	const struct row *row = choices_find(list, call->bytes)->row;
	return row && row->codelet ? row : NULL;
}

/* What is not in the lists, or narrower than it might be. */
void plan_gpus_print_room(const struct planner *planner)
{
	char text[1024];
	if (planner->room && planner_room_print(planner->room, text, sizeof text))
		printf("no room:    for all channels of %s; CORALE_PINNED_MEMORY gives more\n", text);
}

static void print_choice(const char *memory, const struct row *row)
{
	if (row)
		printf("%s: codelet %s, which runs %s%s%s%s", memory, row->codelet->name, row->name,
		       row->differs ? " (but " : "", row->differs ? row->differs : "",
		       row->differs ? ")" : "");
	else
		printf("%s: lowered", memory);
}

static void print_launch(const char *memory, const struct plan_call *call, const struct row *row,
			 const struct planner *planner, const struct plan *lowered)
{
	char text[256];
	const struct launch launch = row ? launch_of(row, planner->machine, call)
					 : (struct launch){ .codelet = &lowered_codelet, .plan = lowered };
	launch_print(&launch, text, sizeof text);
	printf("launch:     %s: %s\n", memory, text);
}

/* Ranks may store into each other's registered memory. */
static int registers(const struct gpu_machine *machine)
{
	return !machine->over_nodes && !machine->host_window;
}

void plan_gpus_print(const struct plan_request *r, const struct planner *planner,
		     const struct plan_lists *lists, const struct plan *plan)
{
	const int kind = coll_moves(r->coll) || r->coll == CORALE_ALL_REDUCE ? REGISTERED : PLAIN;
	const struct plan_call plain = call_of(r, planner, PLAIN), registered = call_of(r, planner, kind);
	const struct row *row = find_codelet(&lists->plain, &plain),
			 *other =
			     find_codelet(kind == PLAIN ? &lists->plain : &lists->registered, &registered);
	if (coll_is_pair(r->coll) || plan->protocol == PLAN_GRANTED) {
		printf(
		    "on GPUs:    by the kernel of sends and receives, whose receiver says how each comes%s\n",
		    launch_reads_message(planner->machine, plain.bytes) ? ": zero-copy, if mapped" : "");
		return;
	}
	printf("on GPUs:    ");
	print_choice("plain memory", row);
	if (registers(planner->machine))
		print_choice("; registered memory", other);
	printf("\n");
	print_launch("plain memory", &plain, row, planner, plan);
	if (registers(planner->machine))
		print_launch("registered memory", &registered, other, planner, plan);
}

static void print_rows(const struct plan_request *r, const struct planner *planner, const char *memory,
		       int kind)
{
	const struct plan_call call = call_of(r, planner, kind);
	const struct rates *rates = planner->machine->rates;
	printf("why:        %s memory, modelled:", memory);
	for (const struct row *row = NULL; (row = row_next_codelet(r->coll, row));) {
		double us = row_us(row, planner->machine, &call);
		if (us >= 0)
			printf(" %s %s %.1f us;", row->codelet->name, plan_protocol_name(row->protocol), us);
	}
	printf(" rates of %s%s\n", rates->name,
	       planner->machine->ranks > rates->measured_ranks ? ", not measured with so many ranks" : "");
}

/* Why few blocks choose another row than many: what each block adds until the link is full. */
static void print_speeds(const struct plan_request *r, const struct planner *planner)
{
	const struct gpu_machine *machine = planner->machine;
	const char *separator = "";
	printf("rates:      GB/s of a block, of the link, of %d block%s: ", machine->max_blocks,
	       machine->max_blocks == 1 ? "" : "s");
	for (const struct row *row = NULL; (row = row_next_codelet(r->coll, row));) {
		const struct codelet_speed speed = codelet_speed_of(row, machine);
		if (row->traits & ROW_OVER_NODES)
			continue;
		printf("%s%s %s ", separator, row->codelet->name, plan_protocol_name(row->protocol));
		if (speed.block_gbs > 0)
			printf("%.3g, %.3g, %.3g", speed.block_gbs, speed.link_gbs,
			       codelet_gbs(&speed, machine));
		else
			printf("%.3g by copy engines", speed.link_gbs);
		separator = "; ";
	}
	printf("\n");
}

/* What settings decide, whatever the times say. */
static void print_settings(const struct plan_request *r, const struct planner *planner)
{
	const struct gpu_machine *machine = planner->machine;
	if (machine->forced)
		printf("why:        CORALE_PROTO: a row by %s runs what it can\n",
		       plan_protocol_name((enum plan_protocol)machine->forced));
	else if (machine->zero_ctas && coll_moves(r->coll))
		printf("why:        CORALE_CTA_POLICY=zero: copy engines move what goes into registered "
		       "memory\n");
	for (int i = 0; i < CODELETS; i++)
		if (machine->refused[r->coll] >> i & 1)
			printf("why:        settings exclude %s of %s\n", codelet_list[i]->name,
			       corale_coll_name(r->coll));
}

void plan_gpus_print_times(const struct plan_request *r, const struct planner *planner,
			   const struct plan_lists *lists)
{
	const struct plan_call call = call_of(r, planner, PLAIN);
	struct topo links = *planner->topo;
	links.node.bytes_per_ns =
	    rates_link_gbs(planner->machine->rates); /* the topology has that of lowered plans */
	double us = row_us(find_codelet(&lists->plain, &call), planner->machine, &call),
	       bound = cost_lower_bound(&links, r->coll, r->bytes);
	char time[32], least[32];
	print_rows(r, planner, "plain", PLAIN);
	if (registers(planner->machine))
		print_rows(r, planner, "registered", REGISTERED);
	print_speeds(r, planner);
	print_settings(r, planner);
	printf("modelled:   %s; no schedule on these links takes less than %s\n",
	       plan_time_text(us * 1e3, time, sizeof time), plan_time_text(bound, least, sizeof least));
}

/* A line: the time of each way, with a star at the one that is taken. */
static void print_line(const struct plan_request *r, const struct planner *planner,
		       const struct plan_lists *lists)
{
	const struct plan_call call = call_of(r, planner, PLAIN);
	const struct row *taken = find_codelet(&lists->plain, &call);
	char text[32];
	printf("%8s", plan_bytes_text(r->bytes, text, sizeof text));
	for (const struct row *row = NULL; (row = row_next_codelet(r->coll, row));) {
		double us = row_us(row, planner->machine, &call);
		if (us < 0 && !(row->traits & ROW_OVER_NODES))
			printf("  %21s ", "-");
		else if (us >= 0)
			printf("  %21s%s", plan_time_text(us * 1e3, text, sizeof text),
			       row == taken ? "*" : " ");
	}
	printf("\n");
}

void plan_gpus_print_table(const struct plan_request *request, const struct planner *planner,
			   const struct plan_lists *lists)
{
	struct plan_request r = *request;
	if (!coll_has_count(r.coll))
		return;
	printf("\n%8s", "bytes");
	for (const struct row *row = NULL; (row = row_next_codelet(r.coll, row));) {
		char name[32];
		snprintf(name, sizeof name, "%s %s", row->codelet->name, plan_protocol_name(row->protocol));
		if (!(row->traits & ROW_OVER_NODES))
			printf("  %21s ", name);
	}
	printf("\n");
	for (r.bytes = 8; r.bytes <= (size_t)1 << 30; r.bytes *= 8)
		print_line(&r, planner, lists);
	printf("Plain memory. * is taken; - does not apply here, or is left out by the settings. Where one "
	       "process has "
	       "several ranks on a GPU, copies run no call\n");
}
