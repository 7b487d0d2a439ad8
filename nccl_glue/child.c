/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators from a parent: splits and shrinks. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "export.h"
#include "init.h"

/* ---- Jobs ---------------------------------------------------------------------------------------------------- */

static void create_child(struct door_job *job, const struct door_members *m)
{
	struct boot *parent = job->comm->boot, *boot = NULL;
	int ret = 0;
	if (m->n > 1)
		ret = boot_child(parent, m->ranks, m->n, job->tag, &boot);
	job->result = ret ? door_init_failed(job, ret, log_last_error()) : door_init_create(job, boot, m);
}

/* By a bootstrap of its own, so that several splits of a parent can be under way. */
static int gather_choices(const struct door_job *job, const struct comm_split *own, struct comm_split *all)
{
	const struct ncclComm *parent = job->comm;
	struct boot *boot = NULL;
	int *ranks, ret;
	if (parent->size == 1) {
		*all = *own;
		return 0;
	}
	ranks = malloc((size_t)parent->size * sizeof *ranks);
	if (!ranks)
		return log_error(CORALE_ENOMEM, parent->rank, "no memory for %d ranks", parent->size);
	for (int r = 0; r < parent->size; r++)
		ranks[r] = r;
	ret = boot_child(parent->boot, ranks, parent->size, job->tag | 1, &boot);
	if (!ret) {
		struct door_meeting meeting = { .job = job, .boot = boot, .ranks = ranks, .n = parent->size };
		ret = door_meet(&meeting, own, sizeof *own, all);
		boot_close(boot);
	}
	free(ranks);
	return ret;
}

void door_job_split(struct door_job *job)
{
	const struct ncclComm *parent = job->comm;
	const struct comm_split own = { job->color, job->key, parent->rank };
	struct comm_split *all = malloc((size_t)parent->size * sizeof *all);
	struct door_members m = { malloc((size_t)parent->size * sizeof *m.ranks), 0, 0 };
	int ret = all && m.ranks
		      ? gather_choices(job, &own, all)
		      : log_error(CORALE_ENOMEM, parent->rank, "no memory for %d ranks", parent->size);
	if (ret) {
		job->result = door_logged_error(ret);
	} else if (job->color != NCCL_SPLIT_NOCOLOR) {
		m.n = comm_split_ranks(all, parent->size, &own, m.ranks, &m.mine);
		create_child(job, &m);
	}
	free(m.ranks);
	free(all);
	door_leave(job->comm);
}

void door_job_shrink(struct door_job *job)
{
	struct door_members m = { job->ranks, job->nranks, 0 };
	while (m.ranks[m.mine] != job->comm->rank)
		m.mine++;
	create_child(job, &m);
	door_leave(job->comm);
}

/* ---- The functions ------------------------------------------------------------------------------------------- */

/* Tags of children: alike on all their ranks, as these make the same children in the same order. All ranks make splits. */
static uint64_t split_tag(struct ncclComm *parent)
{
	return 4 * ++parent->splits; /* and the next one */
}

/* Ranks that were excluded do not count a shrink, so each set of ranks counts its own. 0: no memory. */
static uint64_t shrink_tag(struct ncclComm *parent, const struct door_job *job)
{
	const size_t bytes = (size_t)job->nranks * sizeof *job->ranks; /* in ascending order */
	struct door_shrinks *s = parent->shrinks;
	while (s && (s->n != job->nranks || memcmp(s->ranks, job->ranks, bytes) != 0))
		s = s->next;
	if (!s && (s = malloc(sizeof *s + bytes))) {
		*s = (struct door_shrinks){ .n = job->nranks, .next = parent->shrinks };
		memcpy(s->ranks, job->ranks, bytes);
		parent->shrinks = s;
	}
	return s ? 4 * ++s->number + 2 : 0;
}

/*
 * The child has the parent's configuration, unless it is given one. The parent lives until the job has ended. A refused call has no tag. result: whether the
 * call may be made.
 */
static ncclResult_t submit_child(struct door_job *job, const ncclConfig_t *config, ncclResult_t result)
{
	job->ordinal = job->comm->ordinal;
	job->config = job->comm->config;
	if (result == ncclSuccess && config)
		result = door_read_config(job->call, config, &job->config);
	if (result == ncclSuccess)
		job->tag = job->kind == DOOR_SPLIT ? split_tag(job->comm) : shrink_tag(job->comm, job);
	if (result == ncclSuccess && job->tag) {
		const uint64_t set =
		    hash_bytes(job->tag, job->ranks, (size_t)job->nranks * sizeof *job->ranks);
		job->making = job->kind == DOOR_SPLIT ? window_wait_of(WINDOW_IN_SPLIT, job->tag / 4, 0)
						      : window_wait_of(WINDOW_IN_SHRINK, set >> 21, 0);
		comm_begin_making(job->comm->core, job->making);
		return door_job_submit(job);
	}
	if (result == ncclSuccess)
		result = door_refuse(ncclSystemError, "nccl%s: no memory", job->call);
	free(job->ranks);
	door_leave(job->comm);
	return door_group_fail(result);
}

static ncclResult_t check_split(ncclComm_t parent, int color, ncclComm_t *out)
{
	if (!out || color < NCCL_SPLIT_NOCOLOR)
		return door_refuse(ncclInvalidArgument,
				   "ncclCommSplit: color %d; expected 0 or more, or "
				   "NCCL_SPLIT_NOCOLOR, and a place for the communicator",
				   color);
	return atomic_load(&parent->state) == DOOR_REVOKED
		   ? ncclSuccess
		   : door_result(parent, corale_comm_async_error(parent->core));
}

DOOR_EXPORT(ncclCommSplit);
ncclResult_t pncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
	struct door_job job = { .kind = DOOR_SPLIT,
				.call = "CommSplit",
				.comm = parent,
				.out = out,
				.color = color,
				.key = key };
	const ncclResult_t result = door_enter_any(parent, "CommSplit");
	return result == ncclSuccess ? submit_child(&job, config, check_split(parent, color, out))
				     : door_group_fail(result);
}

/* The parent's ranks but those that are excluded. */
static int remaining(const struct ncclComm *parent, const int *excluded, int n, int **out)
{
	int used = 0;
	*out = malloc((size_t)parent->size * sizeof **out);
	for (int r = 0; *out && r < parent->size; r++) {
		int stays = 1;
		for (int i = 0; i < n; i++)
			stays &= excluded[i] != r;
		if (stays)
			(*out)[used++] = r;
	}
	return used;
}

static ncclResult_t check_shrink(ncclComm_t parent, const int *excluded, int n, ncclComm_t *out)
{
	if (!out || !excluded || n < 1 || n >= parent->size)
		return door_refuse(ncclInvalidArgument,
				   "ncclCommShrink: %d ranks to be excluded; expected 1 to %d, and a place "
				   "for the communicator",
				   n, parent->size - 1);
	for (int i = 0; i < n; i++)
		if (excluded[i] < 0 || excluded[i] >= parent->size || excluded[i] == parent->rank)
			return door_refuse(ncclInvalidArgument,
					   "ncclCommShrink: rank %d is to be excluded by rank %d; expected "
					   "another rank from 0 to %d",
					   excluded[i], parent->rank, parent->size - 1);
	return ncclSuccess;
}

DOOR_EXPORT(ncclCommShrink);
ncclResult_t pncclCommShrink(ncclComm_t parent, int *excluded, int n, ncclComm_t *out, ncclConfig_t *config,
			     int flags)
{
	struct door_job job = { .kind = DOOR_SHRINK, .call = "CommShrink", .comm = parent, .out = out };
	ncclResult_t result = door_enter_any(parent, "CommShrink");
	if (result != ncclSuccess)
		return door_group_fail(result);
	result = check_shrink(parent, excluded, n, out);
	if (result == ncclSuccess) {
		job.nranks = remaining(parent, excluded, n, &job.ranks);
		if (!job.ranks)
			result = door_refuse(ncclSystemError, "ncclCommShrink: no memory for %d ranks",
					     parent->size);
	}
	if (result == ncclSuccess && flags & NCCL_SHRINK_ABORT)
		comm_revoke(parent->core);
	job.parent_error = corale_comm_async_error(parent->core);
	return submit_child(&job, config, result);
}
