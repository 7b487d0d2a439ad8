/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes and ends communicators: at once, or at the end of a group, a thread each. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "door.h"

/* Another thread may look there. */
static void put_out(const struct door_job *job, ncclComm_t comm)
{
	if (job->out)
		__atomic_store_n(job->out, comm, __ATOMIC_RELEASE);
}

ncclResult_t door_job_prepare(struct door_job *job)
{
	if (job->kind == DOOR_DESTROY)
		return ncclSuccess;
	const int makes = job->kind != DOOR_SPLIT || job->color != NCCL_SPLIT_NOCOLOR;
	const int rank = job->comm ? job->comm->rank : job->rank;
	job->made = makes ? door_create(rank, job->size, job->ordinal, &job->config) : NULL;
	put_out(job, job->made);
	return makes && !job->made ? ncclSystemError : ncclSuccess;
}

/* What the job was to make is made, or never will be. */
static ncclResult_t finish(struct door_job *job, ncclResult_t result)
{
	const int succeeded = result == ncclSuccess;
	if (!job->made)
		return result;
	if (door_made(job->made, &result))
		door_free(job->made);
	if (succeeded && result != ncclSuccess)
		door_keep_error("the communicator was aborted while it was made");
	if (result != ncclSuccess)
		put_out(job, NULL);
	return result;
}

static void run(struct door_job *job)
{
	static void (*const work[])(struct door_job *) = { [DOOR_INIT] = door_job_init,
							   [DOOR_SPLIT] = door_job_split,
							   [DOOR_SHRINK] = door_job_shrink,
							   [DOOR_DESTROY] = door_job_destroy };
	work[job->kind](job);
	job->result = finish(job, job->result);
	if (job->result != ncclSuccess)
		door_copy_error(job->error);
}

/* A job that will not run makes nothing, which the other ranks of an id are told, and holds its parent no longer, so that the parent can be destroyed. */
static void drop(struct door_job *job)
{
	door_tell_failed(job);
	finish(job, ncclSystemError);
	if (job->kind == DOOR_SPLIT || job->kind == DOOR_SHRINK)
		door_leave(job->comm);
}

static void fail_unstarted(struct door_job *job)
{
	job->result = door_refuse(ncclUnhandledCudaError, "%s", log_last_error());
	snprintf(job->error, sizeof job->error, "%s", log_last_error());
	drop(job);
}

static void *run_in_thread(void *arg)
{
	struct door_job *job = arg;
	const struct door_device *device = door_device_find();
	if (!device || device->select(job->ordinal))
		fail_unstarted(job);
	else
		run(job);
	return NULL;
}

static ncclResult_t run_alone(struct door_job *job)
{
	job->alone = 1;
	run(job);
	return job->result;
}

/* There is no thread for them. */
static void drop_rest(struct door_job *jobs, int n)
{
	for (int i = 0; i < n; i++)
		drop(&jobs[i]);
	for (int i = 0; i < n; i++)
		if (jobs[i].kind == DOOR_DESTROY)
			door_job_destroy(&jobs[i]);
}

void door_jobs_drop(struct door_job *jobs, int n)
{
	int kept = 0;
	for (int i = 0; i < n; i++) {
		drop(&jobs[i]);
		if (jobs[i].kind == DOOR_DESTROY)
			jobs[kept++] = jobs[i];
		else
			free(jobs[i].ranks);
	}
	door_jobs_run(jobs, kept);
}

ncclResult_t door_jobs_run(struct door_job *jobs, int n)
{
	int started = 0;
	ncclResult_t result = ncclSuccess;
	for (; started < n; started++) {
		jobs[started].alone = n == 1;
		int error = process_thread(&jobs[started].thread, run_in_thread, &jobs[started]);
		if (error) {
			result = door_refuse(
			    ncclSystemError,
			    "no thread for rank %d of a group: %s; raise the limit of threads (ulimit -u)",
			    jobs[started].rank, strerror(error));
			break;
		}
	}
	if (started < n)
		drop_rest(&jobs[started], n - started);
	for (int i = 0; i < started; i++) {
		pthread_join(jobs[i].thread, NULL);
		if (result == ncclSuccess && jobs[i].result != ncclSuccess) {
			result = jobs[i].result;
			door_keep_error(jobs[i].error);
		}
	}
	return result;
}

ncclResult_t door_job_submit(const struct door_job *given)
{
	struct door_job job = *given;
	ncclResult_t result = door_job_prepare(&job);
	if (result != ncclSuccess)
		drop(&job);
	else if (!door_grouping())
		result = run_alone(&job);
	else if ((result = door_group_job(&job)) != ncclSuccess)
		drop(&job);
	if (result != ncclSuccess || !door_grouping())
		free(job.ranks);
	return door_group_fail(result);
}
