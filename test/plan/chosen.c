/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's choosers, asked as a communicator asks them: hosts, GPUs of a node, GPUs over nodes. */
#include "chosen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/plans/machine.h"
#include "base/status.h"
#include "call/gpu_call.h"
#include "examples/plans/planned.h"
#include "test/helpers/planning_engine.h"

struct chosen {
	struct comm comm;
	int gpus;
};

/* ---- Machines --------------------------------------------------------------------------------------------- */

static void must(int is_right, const char *what)
{
	if (is_right)
		return;
	fprintf(stderr, "chosen: %s failed\n", what);
	exit(1);
}

static void open_gpus(struct comm *comm, const char *gpu)
{
	const struct plan_map *map = &comm->topo->map;
	gpu_machine_init(&comm->machine, map, &comm->settings, rates_of_gpu(gpu));
	planning_remote = gpu_planners_remote(map, &comm->settings);
	if (map->nodes > 1)
		comm->proxy = (struct proxy *)(void *)comm; /* nobody looks into it */
	must(gpu_plans_open(comm) == 0, "gpu_plans_open");
}

struct chosen *chosen_open(const struct chosen_machine *machine)
{
	char error[256];
	struct chosen *chosen = calloc(1, sizeof *chosen);
	must(chosen != NULL, "calloc");
	struct comm *comm = &chosen->comm;
	must(settings_parse((char *const *)(uintptr_t)machine->settings, &comm->settings) == 0,
	     "settings_parse");
	must(machine_parse(machine->text, &comm->topo, error, sizeof error) == 0, machine->text);
	comm->size = comm->topo->map.ranks;
	comm->engine.locals = comm->topo->map.node_first[1];
	chosen->gpus = machine->gpu != NULL;
	if (chosen->gpus)
		open_gpus(comm, machine->gpu);
	else
		planner_init(&comm->plans.planner, comm->topo, &comm->settings);
	return chosen;
}

void chosen_close(struct chosen *chosen)
{
	if (chosen->gpus)
		gpu_plans_close(&chosen->comm);
	plans_free(&chosen->comm.plans);
	topo_destroy(chosen->comm.topo);
	free(chosen);
}

/* ---- Calls ------------------------------------------------------------------------------------------------ */

static void print_plan(const struct plan *plan, const char *how, char *text, size_t bytes)
{
	int rows;
	snprintf(text, bytes, "%s%s %dx%u", row_table(&rows)[plan->algo].name, how, plan->channels,
		 plan->chunk_bytes);
}

static void choose_on_hosts(struct comm *comm, const struct chosen_call *c, char *text, size_t bytes)
{
	struct plan_key key =
	    planner_key(c->coll, c->bytes / corale_type_bytes(c->type), c->type, CORALE_SUM);
	struct plans_entry *entry;
	const int ret = plans_find(&comm->plans, 0, &key, NULL, &entry);
	if (ret)
		snprintf(text, bytes, "refused");
	else
		print_plan(&entry->plan, "", text, bytes);
}

/* By a codelet; 0: by none, then *out is the choice. */
static int choose_codelet(struct comm *comm, const struct chosen_call *c, const struct row_choice **out,
			  char *text, size_t bytes)
{
	int memory = c->memory & CHOSEN_STAGING ? PLAN_MEMORY_SCRATCH : 0;
	memory |= c->memory & CHOSEN_REGISTERED ? PLAN_MEMORY_REGISTERED : 0;
	memory |= c->memory & CHOSEN_EXPORTED ? PLAN_MEMORY_EXPORTED : 0;
	const struct plan_call call = { c->coll, c->bytes, type_in_words(c->type), memory, PLAN_ALIGNED_16 };
	const struct choices *choices;
	must(!plans_choices(&comm->gpu_plans, 0, c->coll, c->type, memory, &choices), "plans_choices");
	const struct row *row = (*out = choices_find(choices, c->bytes))->row;
	if (!row || !row->codelet)
		return 0;
	if (row->traits & ROW_OVER_NODES)
		snprintf(text, bytes, "p2p");
	else
		snprintf(text, bytes, "%s %s%s%s", row->name, plan_protocol_name(row->protocol),
			 row_uses_scratch(row, &comm->machine, &call) ? " staged" : "",
			 row_stores_direct(row, &comm->machine, &call) ? " registered" : "");
	return 1;
}

static void choose_on_gpus(struct comm *comm, const struct chosen_call *c, char *text, size_t bytes)
{
	const struct call call = { .record.coll = c->coll,
				   .record.count = c->bytes / corale_type_bytes(c->type),
				   .record.type = c->type };
	const struct row_choice *choice;
	struct launch found;
	if (choose_codelet(comm, c, &choice, text, bytes))
		return;
	if (gpu_plan(comm, &call, choice, &found))
		snprintf(text, bytes, "refused");
	else
		print_plan(found.plan, found.single_channel ? " single-channel" : " lowered", text, bytes);
}

void chosen_row(struct chosen *chosen, const struct chosen_call *call, char *text, size_t bytes)
{
	(chosen->gpus ? choose_on_gpus : choose_on_hosts)(&chosen->comm, call, text, bytes);
}
