/* Persistent plans: a call without its buffers, planned once. */
#include <stdlib.h>

#include "coll.h"
#include "log.h"
#include "status.h"

struct corale_plan {
	corale_comm *comm;
	struct call call;
	struct plan plan;
};

static int check_plannable(struct comm *comm, corale_coll coll, corale_type type)
{
	if ((int)coll < 0 || coll >= CORALE_NUM_COLLS || (int)type < 0 || type >= CORALE_NUM_TYPES)
		return log_error(CORALE_EINVAL, comm->rank,
				 "corale_plan_create: %d is no collective, or %d no type", (int)coll,
				 (int)type);
	if (coll == CORALE_ALL_TO_ALL_V || coll == CORALE_SEND || coll == CORALE_RECV)
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "corale_plan_create: %s has no plan that all ranks share",
				 corale_coll_name(coll));
	return 0;
}

int corale_plan_create(corale_coll coll, size_t count, corale_type type, corale_op op, int root,
		       corale_comm *handle, corale_plan **out)
{
	struct comm *comm = comm_get(handle, "corale_plan_create");
	if (!comm || !out)
		return CORALE_EINVAL;
	int ret = check_plannable(comm, coll, type);
	if (ret)
		return ret;
	corale_plan *plan = calloc(1, sizeof *plan);
	if (!plan)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a plan");
	plan->comm = handle;
	plan->call = (struct call){ .coll = coll,
				    .count = count,
				    .type = type,
				    .op = coll_folds(coll) ? op : 0,
				    .root = coll == CORALE_BROADCAST ? root : 0 };
	char error[256];
	struct plan_key key = planner_key(coll, count, type, plan->call.op);
	ret = comm->size == 1 ? 0 : planner_plan(&comm->planner, &key, &plan->plan, error, sizeof error);
	if (ret) {
		free(plan);
		return log_error(ret, comm->rank, "corale_plan_create: %s", error);
	}
	plan->call.plan = comm->size == 1 ? NULL : &plan->plan;
	*out = plan;
	return 0;
}

int corale_plan_run(corale_plan *plan, const void *send, void *recv, void *stream)
{
	if (!plan)
		return log_error(CORALE_EINVAL, -1, "corale_plan_run: the plan is NULL");
	struct call call = plan->call;
	call.send = send;
	call.recv = recv;
	return coll_submit(plan->comm, &call, stream);
}

void corale_plan_destroy(corale_plan *plan)
{
	free(plan);
}
