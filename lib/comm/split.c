/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators from communicators. The parent's sends and receives are the bootstrap of the new ones. */
#include <stdlib.h>

#include "comm_doors.h"
#include "base/log.h"
#include "call/runner.h"
#include "health/diagnose.h"

struct split {
	struct comm *parent;
	int *ranks; /* of the parent, in the order of the new communicator */
	int size;
};

/* The other ranks wait for this one: the parent ends. */
static int fail_memory(struct comm *parent)
{
	comm_fail(parent, CORALE_ENOMEM, "corale_comm_split: no memory to exchange with the other ranks");
	return CORALE_ENOMEM;
}

/* Everybody sends to everybody: no step of this depends on which other communicators are being made. */
static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	const struct split *s = ctx;
	struct call *calls = calloc(2 * (size_t)s->size, sizeof *calls);
	if (!calls)
		return fail_memory(s->parent);
	for (int i = 0; i < s->size; i++) {
		unsigned char *to = (unsigned char *)out + (size_t)i * bytes;
		calls[2 * i] = (struct call){ .record.coll = CORALE_SEND,
					      .send = in,
					      .record.count = bytes,
					      .record.type = CORALE_UINT8,
					      .record.root = s->ranks[i] };
		calls[2 * i + 1] = (struct call){ .record.coll = CORALE_RECV,
						  .recv = to,
						  .record.count = bytes,
						  .record.type = CORALE_UINT8,
						  .record.root = s->ranks[i] };
	}
	int ret = runner_call(s->parent, calls, 2 * s->size, NULL);
	free(calls);
	return ret;
}

static int compare(const void *x, const void *y)
{
	const struct comm_split *a = x, *b = y;
	return a->key != b->key ? (a->key < b->key ? -1 : 1) : a->rank - b->rank;
}

int comm_split_ranks(struct comm_split *all, int n, const struct comm_split *own, int *ranks, int *mine)
{
	int size = 0;
	qsort(all, (size_t)n, sizeof *all, compare);
	for (int i = 0; i < n; i++) {
		if (all[i].color != own->color)
			continue;
		if (all[i].rank == own->rank)
			*mine = size;
		ranks[size++] = all[i].rank;
	}
	return size;
}

/* The ranks of this rank's color, in order; *mine is this rank's place among them. */
static int choose_ranks(struct comm *comm, int color, int key, struct split *s, int *mine)
{
	struct comm_split own = { color, key, comm->rank };
	struct comm_split *all = calloc((size_t)comm->size, sizeof *all);
	s->ranks = calloc((size_t)comm->size, sizeof *s->ranks);
	int ret = all && s->ranks ? 0 : fail_memory(comm);
	struct call call = { .record.coll = CORALE_ALL_GATHER,
			     .send = &own,
			     .recv = all,
			     .record.count = sizeof own,
			     .record.type = CORALE_UINT8 };
	if (!ret)
		ret = runner_call(comm, &call, 1, NULL);
	if (!ret)
		s->size = comm_split_ranks(all, comm->size, &own, s->ranks, mine);
	free(all);
	return ret;
}

static int split(struct comm *comm, int color, int key, corale_comm **out)
{
	if (atomic_load(&comm->error))
		return log_error(CORALE_ECOMM, comm->rank,
				 "corale_comm_split: the communicator failed earlier: %s", comm->failure);
	struct split s = { comm, NULL, 0 };
	int mine = 0, ret = choose_ranks(comm, color < 0 ? -1 : color, key, &s, &mine);
	corale_comm *made = NULL;
	if (!ret && color >= 0) {
		corale_bootstrap bootstrap = { mine, s.size, &s, allgather };
		corale_config config;
		corale_config_init(&config);
		config.timeout_seconds = comm->settings.timeout > 0 ? comm->settings.timeout : -1;
		config.memory_cap = comm->settings.memory_cap;
		config.max_channels = comm->gpu ? comm->settings.max_ctas : comm->settings.max_channels;
		config.cta_policy = comm->settings.cta_policy + CORALE_CTA_POLICY_AUTO;
		config.device = comm->gpu ? CORALE_DEVICE_CUDA : CORALE_DEVICE_HOST;
		struct comm_traits traits = comm->traits;
		traits.timeout_name = comm->timeout_name;
		atomic_fetch_add(&comm->origin->users, 1);
		int entered = comm->gpu ? engine_cuda.enter(comm->gpu) : 0; /* the child's is the same */
		ret = corale_private_comm_create(&bootstrap, &config, comm->transport_row, &traits,
						 comm_release_origin, comm->origin,
						 out ? &made : NULL); /* which its ranks must learn */
		if (comm->gpu)
			engine_cuda.leave(comm->gpu, entered);
	}
	free(s.ranks);
	if (!ret && !out)
		ret =
		    log_error(CORALE_EINVAL, comm->rank, "corale_comm_split: no place for the communicator");
	if (!ret)
		*out = made;
	return ret;
}

int corale_comm_split(corale_comm *handle, int color, int key, corale_comm **out)
{
	struct comm *comm = comm_enter(handle, "corale_comm_split");
	const int ret = comm ? split(comm, color, key, out) : CORALE_EINVAL;
	comm_leave(handle);
	return ret;
}
