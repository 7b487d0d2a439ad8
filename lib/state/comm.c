/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of communicators, and what else any layer does with one as it is. */
#include "comm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "host/liveness.h"

struct handles comm_handles = { .lock = PTHREAD_MUTEX_INITIALIZER };

int comm_handle_create(struct comm *comm)
{
	static_assert(sizeof(corale_comm) <= HANDLE_BYTES, "a handle");
	corale_comm *handle = handles_make(&comm_handles);
	if (!handle)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a communicator's handle");
	comm->handle = handle;
	atomic_store(&handle->comm, comm); /* from here on other threads find it (comm_any) */
	return 0;
}

/* A call in a forked child is refused; one in an exit handler signals the peers that this process has not left. */
static int refuses(const char *call)
{
	if (process_refuses(call))
		return 1;
	liveness_calls_on();
	return 0;
}

struct comm *comm_look_up(const corale_comm *handle, int is_one, const char *call)
{
	if (!process_is_usual() && refuses(call))
		return NULL;
	struct comm *comm = is_one ? atomic_load(&((corale_comm *)(uintptr_t)handle)->comm) : NULL;
	if (!comm && handle && !is_one)
		log_line(LOG_ERROR, -1, "%s: %p is no communicator", call, (const void *)handle);
	else if (!comm)
		log_line(LOG_ERROR, -1, "%s: the communicator is %s", call, handle ? "destroyed" : "NULL");
	return comm;
}

struct comm *comm_get(const corale_comm *handle, const char *call)
{
	return comm_look_up(handle, handles_has(&comm_handles, handle), call);
}

struct comm *comm_take(corale_comm *handle, const char *call)
{
	struct comm *comm = comm_get(handle, call);
	if (!comm) /* not counted: threads that ask again and again would keep comm_retire waiting */
		return NULL;
	atomic_fetch_add(&handle->users, 1);
	if (atomic_load(&handle->comm))
		return comm;
	comm_put(handle);
	return comm_get(handle, call); /* NULL: retired meanwhile */
}

void comm_put(corale_comm *handle)
{
	atomic_fetch_sub(&handle->users, 1);
}

int comm_is_idle(uint64_t id, int rank)
{
	corale_comm *handle;
	for (size_t i = 0; (handle = handles_at(&comm_handles, i)); i++) {
		struct comm *comm = atomic_load(&handle->comm);
		if (comm && comm->id == id && comm->rank == rank)
			return comm->issued == atomic_load(&comm->completed);
	}
	return 0;
}

int comm_any(int (*is)(struct comm *comm, void *arg), void *arg)
{
	corale_comm *handle;
	int found = 0;
	for (size_t i = 0; !found && (handle = handles_at(&comm_handles, i)); i++) {
		atomic_fetch_add(&handle->users, 1); /* or it may be freed meanwhile */
		struct comm *comm = atomic_load(&handle->comm);
		found = comm && is(comm, arg);
		comm_put(handle);
	}
	return found;
}

struct owner {
	corale_op op;
	char text[96];
};

static int print_owner(struct comm *comm, void *arg)
{
	struct owner *o = arg;
	snprintf(o->text, sizeof o->text, "communicator %p (rank %d of %d)", (void *)comm->handle, comm->rank,
		 comm->size);
	return comm_premul_of(comm, o->op) != NULL;
}

int comm_refuse_op(const struct comm *comm, const char *call, corale_op op)
{
	struct owner owner = { .op = op };
	if (op >= CORALE_NUM_OPS && comm_any(print_owner, &owner))
		return log_error(CORALE_EINVAL, comm->rank,
				 "%s: operator %d is of %s, the call is of communicator %p (rank %d of %d): "
				 "each communicator needs an operator of its own",
				 call, op, owner.text, (void *)comm->handle, comm->rank, comm->size);
	return log_error(CORALE_EINVAL, comm->rank, "%s: %d is no operator%s", call, op,
			 op < CORALE_NUM_OPS ? "" : ": it was destroyed, or never created");
}

void comm_retire(corale_comm *handle)
{
	atomic_store(&handle->comm, NULL);
	while (atomic_load(&handle->users)) {
		sched_yield();
		wait_progress();
	}
}

void comm_release_origin(void *arg)
{
	struct comm_origin *origin = arg;
	if (atomic_fetch_sub(&origin->users, 1) != 1)
		return;
	if (origin->on_destroy)
		origin->on_destroy(origin->ctx);
	free(origin);
}

/* on_destroy_ctx of a communicator, or of the one that it was split from. */
static const void *root_of(const struct comm *comm)
{
	const struct comm_origin *origin = comm->origin;
	while (origin->on_destroy == comm_release_origin)
		origin = origin->ctx;
	return origin->ctx;
}

corale_comm *comm_find_oldest(const void *on_destroy_ctx)
{
	corale_comm *handle;
	for (size_t i = 0; (handle = handles_at(&comm_handles, i)); i++) {
		const struct comm *comm = atomic_load(&handle->comm);
		if (comm && root_of(comm) == on_destroy_ctx)
			break;
	}
	return handle;
}

void comm_keep_error(struct comm *comm)
{
	pthread_mutex_lock(&comm->error_lock);
	if (!atomic_load(&comm->error))
		snprintf(comm->last_error, sizeof comm->last_error, "%s", log_last_error());
	pthread_mutex_unlock(&comm->error_lock);
}

void call_keep(const struct call *call)
{
	if (call->plan)
		atomic_fetch_add(&call->plan->users, 1);
}

void call_let_go(const struct call *call)
{
	if (!call->plan || atomic_fetch_sub(&call->plan->users, 1) != 1)
		return;
	free(call->plan->fast);
	free(call->plan);
}

size_t *call_copy_counts(struct call *call, size_t n, size_t *room)
{
	const size_t **arrays[] = { &call->send_counts, &call->send_displs, &call->recv_counts,
				    &call->recv_displs };
	for (int i = 0; i < 4; i++) {
		if (!*arrays[i])
			continue;
		memcpy(room, *arrays[i], n * sizeof *room);
		*arrays[i] = room;
		room += n;
	}
	return room;
}
