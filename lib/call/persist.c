/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent plans: a call without its buffers, planned once. */
#include <stdlib.h>

#include "coll.h"
#include "group.h"
#include "base/log.h"
#include "base/process.h"
#include "base/collectives.h"

struct planned {
	corale_comm *comm;
	struct call call;
};

struct corale_plan {
	struct planned *planned; /* NULL once destroyed */
};

static struct handles handles = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct planned *planned_of(const corale_plan *plan, const char *call)
{
	const int is_one = handles_has(&handles, plan);
	if (is_one && plan->planned)
		return plan->planned;
	log_error(CORALE_EINVAL, -1, "%s: the plan is %s", call,
		  is_one ? "destroyed"
		  : plan ? "no handle of corale_plan_create"
			 : "NULL");
	return NULL;
}

static int check_plannable(struct comm *comm, struct call *call)
{
	corale_coll coll = call->record.coll;
	if ((int)coll < 0 || coll >= CORALE_NUM_COLLS)
		return log_error(CORALE_EINVAL, comm->rank, "corale_plan_create: %d is no collective",
				 (int)coll);
	if (coll_is_uneven(coll) || coll_is_pair(coll))
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "corale_plan_create: %s has no plan that all ranks share",
				 corale_coll_name(coll));
	call->record.op = coll_folds(coll) ? call->record.op : 0;
	call->record.root = coll_is_rooted(coll) ? call->record.root : 0;
	return coll_check_shape(comm, call);
}

/* The only rank of a communicator needs none, and on GPUs the first call finds the launch that the plan holds; but calls are checked here, once. */
static int make_shared(struct comm *comm, const struct call *call, struct shared_plan **out)
{
	const struct plan_key key =
	    planner_key(call->record.coll, call->record.count, call->record.type, call->record.op);
	struct shared_plan *shared = calloc(1, sizeof *shared);
	if (!shared)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a plan");
	shared->users = 1;
	int ret =
	    comm->size == 1 || comm->gpu ? 0 : plans_make(&comm->plans, comm->rank, &key, &shared->plan);
	if (ret) {
		free(shared);
		return ret;
	}
	*out = shared;
	return 0;
}

int corale_plan_create(corale_coll coll, size_t count, corale_type type, corale_op op, int root,
		       corale_comm *handle, corale_plan **out)
{
	struct comm *comm = comm_get(handle, "corale_plan_create");
	struct call call = { .record.coll = coll,
			     .record.count = count,
			     .record.type = type,
			     .record.op = op,
			     .record.root = root };
	if (!comm || !out)
		return CORALE_EINVAL;
	struct planned *planned = calloc(1, sizeof *planned);
	corale_plan *plan = planned ? handles_make(&handles) : NULL;
	int ret = plan ? check_plannable(comm, &call)
		       : log_error(CORALE_ENOMEM, comm->rank, "no memory for a plan");
	if (!ret)
		ret = make_shared(comm, &call, &call.plan);
	if (ret) {
		comm_keep_error(comm);
		free(planned);
		return ret;
	}
	*planned = (struct planned){ handle, call };
	plan->planned = planned;
	*out = plan;
	return 0;
}

int corale_plan_run(corale_plan *plan, const void *send, void *recv, void *stream)
{
	if (process_refuses("corale_plan_run"))
		return CORALE_ENOTSUP;
	const struct planned *planned = planned_of(plan, "corale_plan_run");
	if (!planned) {
		group_refuse(CORALE_EINVAL, log_last_error());
		return CORALE_EINVAL;
	}
	struct call call = planned->call;
	call.send = send;
	call.recv = recv;
	return coll_submit(planned->comm, &call, stream);
}

void corale_plan_destroy(corale_plan *plan)
{
	struct planned *planned =
	    !plan || process_refuses("corale_plan_destroy") ? NULL : planned_of(plan, "corale_plan_destroy");
	if (!planned)
		return;
	plan->planned = NULL;
	call_let_go(&planned->call);
	free(planned);
}
