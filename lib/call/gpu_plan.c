/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on GPUs that no codelet runs, or may run: their plans, lowered. */
#include <stdlib.h>

#include "base/collectives.h"
#include "base/log.h"
#include "gpu_call.h"
#include "health/gpu_health.h"
#include "net/gpu_planners.h"

/* Lists are made ahead of the first call for so many ranks; roots of more are lowered as they come. */
enum { FEW_RANKS = 16 };

static int lower(struct comm *comm, const struct plan *plan, enum remote_use use, int root, int *list)
{
	const struct remote remote = engine_memory.remote(comm->gpu, NULL);
	struct lowered lowered;
	const char *why;
	int ret = (comm->proxy ? lower_plan_rolled : lower_plan)(plan, &comm->gpu_topo.map, comm->rank, root,
								 &lowered, &why);
	if (ret)
		return log_error(ret, comm->rank, "%s: its plan can't be lowered: %s",
				 corale_coll_name((corale_coll)plan->key.coll), why);
	for (int i = 0; i < lowered.npeers; i++)
		lowered.peers[i].rank = (int16_t)gpu_index_of(comm, lowered.peers[i].rank);
	if (comm->proxy)
		lower_ahead(&lowered, comm->engine.locals, remote_ahead(&remote.slots[use]));
	return engine_cuda.add_list(comm->gpu, &lowered, list);
}

/* What a row needs on the GPU, whatever the size of a call of such a type. */
static int prepare_row(struct comm *comm, int row, corale_coll coll, corale_type type)
{
	static const size_t counts[] = { 1, 1 << 20, 1 << 30 };
	struct planner planner = comm->gpu_plans.planner;
	struct plan plan;
	int ret = 0, list;
	planner.single = NULL;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct plan_key key =
		    planner_key(coll, counts[i] / corale_type_bytes(type) + 1, type, CORALE_SUM);
		if (planner_build(&planner, &key, row, &plan))
			continue;
		int roots = coll_is_rooted(coll) ? comm->size : 1;
		for (int root = 0; !ret && root < roots; root++)
			ret = lower(comm, &plan, REMOTE_OF_PLANS, root, &list);
	}
	return ret;
}

enum { ROOM_TEXT = 700, RAILS_TEXT = 200 };

static void use_rails_of_proxies(struct comm *comm)
{
	char text[RAILS_TEXT];
	comm->gpu_topo.rail = comm->topo->rail;
	comm->gpu_topo.rail.latency_ns += comm->machine.rates->links.proxy_ns;
	comm->gpu_topo.net_bytes_per_ns = comm->topo->net_bytes_per_ns;
	topo_print_rails(&comm->gpu_topo, text, sizeof text);
	if (!comm->rank)
		log_line(LOG_INFO, 0, "between GPUs of different nodes, with the way through proxies: %s",
			 text);
}

/* Which rows have room for their connections follows from the machine, whatever is called; one rank says so. */
static int count_connections(struct comm *comm)
{
	struct plans *plans = &comm->gpu_plans;
	char text[ROOM_TEXT];
	plans->choices = machine_choices_open(&plans->planner);
	if (!plans->choices)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for the choices of a machine");
	const int ret = machine_choices_room(plans->choices, &plans->planner, comm->rank);
	if (!ret && !comm->rank && planner_room_print(&plans->choices->room, text, sizeof text))
		log_line(LOG_INFO, 0,
			 "no room in pinned memory for all channels of: %s; to have it raise "
			 "CORALE_PINNED_MEMORY (%zu) on all ranks",
			 text, comm->settings.pinned_memory);
	return ret;
}

int gpu_plans_open(struct comm *comm)
{
	int rows, ret = 0;
	const struct row *algo = row_table(&rows);
	const struct remote remote =
	    comm->proxy ? engine_memory.remote(comm->gpu, NULL) : (struct remote){ 0 };
	comm->gpu_topo = *comm->topo;
	topo_set_gpus(&comm->gpu_topo, comm->machine.rates);
	if (comm->proxy)
		use_rails_of_proxies(comm);
	gpu_planners_init(&comm->gpu_topo, &comm->settings, &comm->machine, &remote, &comm->gpu_plans.planner,
			  &comm->single_channel_planner);
	if (comm->proxy)
		ret = count_connections(comm);
	for (int row = 0; !ret && comm->size <= FEW_RANKS && row < rows; row++) {
		const corale_coll coll = algo[row].coll;
		if (algo[row].codelet || coll_is_pair(coll))
			continue;
		ret = prepare_row(comm, row, coll, CORALE_UINT8);
	}
	return ret;
}

static void free_launches(struct comm *comm)
{
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		for (int kind = 0; kind < CHOICES_KINDS; kind++)
			for (int memory = 0; memory < PLAN_MEMORY_CLASSES; memory++)
				free(comm->launched.launches[coll][kind][memory]);
}

void gpu_plans_close(struct comm *comm)
{
	free_launches(comm);
	plans_free(&comm->gpu_plans);
}

static int make_list(struct comm *comm, const struct plan *plan, enum remote_use use, int root,
		     struct plans_list *list)
{
	int ret = lower(comm, plan, use, root, &list->number);
	list->made = !ret;
	list->counted =
	    !ret && !comm->proxy && !lower_messages(plan, &comm->gpu_topo.map, root, &list->messages);
	return ret;
}

/* The plan and its list, which is zero before it is first asked for. */
static int find_list(struct comm *comm, const struct call *c, const struct row_choice *choice,
		     struct plans_entry **entry, struct plans_list **list)
{
	struct plan_key key = planner_key(c->record.coll, c->record.count, c->record.type, c->record.op);
	int ret = plans_find(&comm->gpu_plans, comm->rank, &key, choice, entry);
	if (!ret && !(*entry)->lists &&
	    !((*entry)->lists = calloc((size_t)comm->size, sizeof *(*entry)->lists)))
		ret = log_error(CORALE_ENOMEM, comm->rank, "no memory for %d plans", comm->size);
	*list = ret ? NULL : &(*entry)->lists[c->record.root];
	return ret;
}

int gpu_plan(struct comm *comm, const struct call *c, const struct row_choice *choice, struct launch *launch)
{
	struct plans_entry *entry;
	struct plans_list *list;
	int ret = find_list(comm, c, choice, &entry, &list);
	if (!ret && !list->made)
		ret = make_list(comm, &entry->plan,
				entry->single_channel ? REMOTE_OF_SINGLE_CHANNEL : REMOTE_OF_PLANS,
				c->record.root, list);
	if (ret)
		return ret;
	*launch = (struct launch){ .machine = &comm->machine,
				   .codelet = &lowered_codelet,
				   .coll = c->record.coll,
				   .bytes = call_bytes(c),
				   .plan = &entry->plan,
				   .list = list->number,
				   .single_channel = (uint8_t)entry->single_channel,
				   .messages = list->counted ? &list->messages : NULL };
	return 0;
}
