/* Calls on GPUs that no codelet runs, or may run: their plans, lowered. */
#include <stdlib.h>

#include "base/collectives.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu.h"

/* Lists are made ahead of the first call for so many ranks; roots of more are lowered as they come. */
enum {
	FEW_RANKS = 16,
	REMOTE_BLOCKS = 24 /* of a kernel whose messages go between nodes: more do not feed a NIC faster */
};

static int lower(struct comm *comm, const struct plan *plan, int root, int *list)
{
	struct lowered lowered;
	const char *why;
	int ret = lower_plan(plan, &comm->gpu_topo.map, comm->rank, root, &lowered, &why);
	if (ret)
		return log_error(ret, comm->rank, "%s: its plan can't be lowered: %s",
				 corale_coll_name((corale_coll)plan->key.coll), why);
	for (int i = 0; i < lowered.npeers; i++)
		lowered.peers[i].rank = (int16_t)gpu_place_of(comm, lowered.peers[i].rank);
	if (comm->proxy)
		lower_ahead(&lowered, comm->engine.locals, REMOTE_AHEAD);
	return engine_cuda.add_list(comm->gpu, &lowered, list);
}

/* What a row needs on the GPU, whatever the size of a call of such a type. */
static int prepare_row(struct comm *comm, int row, corale_coll coll, corale_type type)
{
	static const size_t counts[] = { 1, 1 << 20, 1 << 30 };
	struct plan plan;
	int ret = 0, list;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct plan_key key =
		    planner_key(coll, counts[i] / corale_type_bytes(type) + 1, type, CORALE_SUM);
		if (planner_build(&comm->gpu_plans.planner, &key, row, &plan))
			continue;
		int roots = coll_is_rooted(coll) ? comm->size : 1;
		for (int root = 0; !ret && root < roots; root++)
			ret = lower(comm, &plan, root, &list);
	}
	return ret;
}

int gpu_plans_open(struct comm *comm)
{
	int rows, ret = 0;
	const struct algo *algo = algo_table(&rows);
	comm->gpu_topo = *comm->topo;
	topo_set_gpus(&comm->gpu_topo, comm->node.rates);
	planner_init_gpus(&comm->gpu_plans.planner, &comm->gpu_topo, &comm->settings, &comm->node);
	if (comm->proxy) {
		const struct remote remote = engine_cuda.remote(comm->gpu);
		comm->gpu_topo.rail = comm->topo->rail;
		planner_limit_remote(&comm->gpu_plans.planner, remote.slot_bytes, REMOTE_CHANNELS,
				     REMOTE_BLOCKS);
	}
	for (int row = 0; !ret && comm->size <= FEW_RANKS && row < rows; row++) {
		const corale_coll coll = algo[row].coll;
		if (coll_is_pair(coll))
			continue;
		ret = prepare_row(comm, row, coll, CORALE_UINT8);
		if (!ret && comm->settings.partials_float32 &&
		    coll_folds(coll)) /* lists where sums are wide */
			ret = prepare_row(comm, row, coll, CORALE_FLOAT16);
	}
	return ret;
}

void gpu_plans_close(struct comm *comm)
{
	plans_free(&comm->gpu_plans);
}

static int make_list(struct comm *comm, const struct plan *plan, int root, struct plans_list *list)
{
	int ret = lower(comm, plan, root, &list->number);
	list->made = !ret;
	list->counted =
	    !ret && !comm->proxy && !lower_messages(plan, &comm->gpu_topo.map, root, &list->messages);
	return ret;
}

int gpu_plan(struct comm *comm, const struct call *c, struct engine_call *call)
{
	struct plan_key key = planner_key(c->coll, c->count, c->type, c->op);
	struct plans_entry *entry;
	int ret = plans_find(&comm->gpu_plans, comm->rank, &key, &entry);
	if (!ret && !entry->lists && !(entry->lists = calloc((size_t)comm->size, sizeof *entry->lists)))
		ret = log_error(CORALE_ENOMEM, comm->rank, "no memory for %d plans", comm->size);
	if (ret)
		return ret;
	struct plans_list *list = &entry->lists[c->root];
	if (!list->made)
		ret = make_list(comm, &entry->plan, c->root, list);
	call->codelet = CODELET_NONE;
	call->plan = &entry->plan;
	call->list = list->number;
	call->messages = list->counted ? &list->messages : NULL;
	call->target = 0;
	call->scratch = 0;
	return ret;
}
