/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread's group: first what makes and ends communicators, all at once; then the calls, as one group of Corale's. A group that fails is
 * closed all the same, and nothing that was not started yet starts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "call/coll.h"
#include "call/group.h"
#include "door.h"
#include "export.h"

struct list {
	size_t n, room;
	void *items;
};

static _Thread_local struct thread_group {
	int depth;
	ncclResult_t error; /* the first */
	struct list calls, jobs;
} group;

int door_grouping(void)
{
	return group.depth > 0;
}

size_t door_group_calls(ncclComm_t comm)
{
	const struct door_call *calls = group.calls.items;
	size_t n = 0;
	for (size_t i = 0; i < group.calls.n; i++)
		n += calls[i].comm == comm;
	return n;
}

ncclResult_t door_group_fail(ncclResult_t result)
{
	if (group.depth && group.error == ncclSuccess)
		group.error = result;
	return result;
}

static ncclResult_t append(struct list *list, const void *item, size_t bytes)
{
	if (!array_grow(&list->items, &list->room, list->n + 1, bytes))
		return door_refuse(ncclSystemError, "no memory for a group of %zu calls", list->n + 1);
	memcpy((char *)list->items + list->n++ * bytes, item, bytes);
	return ncclSuccess;
}

ncclResult_t door_group_call(const struct door_call *call)
{
	return append(&group.calls, call, sizeof *call);
}

ncclResult_t door_group_job(const struct door_job *job)
{
	return append(&group.jobs, job, sizeof *job);
}

/* ---- Calls ------------------------------------------------------------------------------------------------ */

int door_issue(struct door_call *c)
{
	if (c->is_op_destroy)
		return corale_op_destroy(c->call.record.op, c->comm->core);
	return door_is_empty(c) ? 0 : coll_submit(c->comm->core, &c->call, c->stream);
}

/* As one group of Corale's, which is refused where `refused` says so: then the communicators of its calls end. The first error is the result. */
static ncclResult_t run_group(struct door_call *calls, size_t n, ncclResult_t refused)
{
	ncclResult_t result = refused;
	char why[DOOR_ERROR_BYTES];
	corale_group_begin();
	if (refused != ncclSuccess) {
		door_copy_error(why);
		group_refuse(CORALE_ECOMM, why);
	}
	for (size_t i = 0; i < n; i++) {
		const int code = calls[i].is_op_destroy ? 0 : door_issue(&calls[i]);
		if (code && result == ncclSuccess)
			result = door_result(calls[i].comm, code);
	}
	const int code = corale_group_end();
	return result == ncclSuccess ? door_result(calls->comm, code) : result;
}

static ncclResult_t run_single(struct door_call *call)
{
	return call->is_op_destroy ? ncclSuccess : door_result(call->comm, door_issue(call));
}

/* Drops the calls whose communicator can't be used any more: they refuse the group. */
static size_t enter_all(struct door_call *calls, size_t n, ncclResult_t *result)
{
	size_t entered = 0;
	ncclComm_t refused = NULL;
	for (size_t i = 0; i < n; i++) {
		const ncclResult_t one =
		    calls[i].comm == refused ? *result : door_enter(calls[i].comm, "GroupEnd");
		if (one == ncclSuccess) {
			calls[entered++] = calls[i];
			continue;
		}
		refused = calls[i].comm;
		*result = *result == ncclSuccess ? one : *result;
	}
	return entered;
}

static ncclResult_t run_calls(struct door_call *calls, size_t n, ncclResult_t refused)
{
	ncclResult_t result = refused;
	const size_t entered = enter_all(calls, n, &result);
	if (entered)
		result = entered == 1 && result == ncclSuccess ? run_single(calls)
							       : run_group(calls, entered, result);
	for (size_t i = 0; i < entered; i++) {
		if (calls[i].is_op_destroy)
			door_issue(&calls[i]);
		door_leave(calls[i].comm);
	}
	return result;
}

/* ---- The functions ------------------------------------------------------------------------------------------ */

DOOR_EXPORT(ncclGroupStart);
ncclResult_t pncclGroupStart(void)
{
	const ncclResult_t result = door_refuse_forked("GroupStart");
	group.depth += result == ncclSuccess;
	return result;
}

/* Leaves one level. 1: it was the last, and *taken is what was in the group; 0: *result is the call's. */
static int leave(const char *call, struct thread_group *taken, ncclResult_t *result)
{
	*result = door_refuse_forked(call);
	if (*result == ncclSuccess && !group.depth)
		*result = door_refuse(ncclInvalidUsage, "nccl%s without ncclGroupStart in this thread", call);
	if (*result != ncclSuccess || --group.depth)
		return 0;
	*taken = group;
	group = (struct thread_group){ 0 };
	return 1;
}

static void drop_jobs(struct thread_group *taken)
{
	door_jobs_drop(taken->jobs.items, (int)taken->jobs.n);
	taken->jobs.n = 0;
}

static void drop(struct thread_group *taken)
{
	struct door_job *jobs = taken->jobs.items;
	for (size_t i = 0; i < taken->jobs.n; i++)
		free(jobs[i].ranks);
	free(taken->calls.items);
	free(taken->jobs.items);
}

DOOR_EXPORT(ncclGroupEnd);
ncclResult_t pncclGroupEnd(void)
{
	struct thread_group g;
	ncclResult_t result;
	if (!leave("GroupEnd", &g, &result))
		return result;
	result = g.error;
	if (result == ncclSuccess && g.jobs.n)
		result = door_jobs_run(g.jobs.items, (int)g.jobs.n);
	else
		drop_jobs(&g);
	if (g.calls.n)
		result = run_calls(g.calls.items, g.calls.n, result);
	drop(&g);
	return result;
}

/* The group is dropped, as NCCL does. */
DOOR_EXPORT(ncclGroupSimulateEnd);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	struct thread_group g;
	ncclResult_t result;
	if (!leave("GroupSimulateEnd", &g, &result))
		return result;
	drop_jobs(&g);
	drop(&g);
	return door_refuse(ncclInvalidUsage,
			   "ncclGroupSimulateEnd is not offered: the group was dropped and no time is "
			   "estimated; use corale-plan for the modelled time of a call");
}
