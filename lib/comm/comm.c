#include "state/comm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/diagnose.h"
#include "gpu.h"
#include "base/log.h"
#include "base/process.h"

/* ---- Handles ------------------------------------------------------------------------ */

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static corale_comm *handles; /* every one ever made: two words each, the price of safe use after destroy */

int comm_handle_create(struct comm *comm)
{
	corale_comm *handle = calloc(1, sizeof *handle);
	if (!handle)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a communicator's handle");
	atomic_store(&handle->comm, comm);
	comm->handle = handle;
	pthread_mutex_lock(&handles_lock);
	handle->next = handles;
	handles = handle;
	pthread_mutex_unlock(&handles_lock);
	return 0;
}

struct comm *comm_get(const corale_comm *handle, const char *call)
{
	if (process_refuses(call))
		return NULL;
	struct comm *comm = handle ? atomic_load(&((corale_comm *)(uintptr_t)handle)->comm) : NULL;
	if (!comm)
		log_line(LOG_ERROR, -1, "%s: the communicator is %s", call, handle ? "destroyed" : "NULL");
	return comm;
}

struct comm *comm_take(corale_comm *handle, const char *call)
{
	if (handle)
		atomic_fetch_add(&handle->users, 1);
	struct comm *comm = comm_get(handle, call);
	if (!comm && handle)
		comm_put(handle);
	return comm;
}

void comm_put(corale_comm *handle)
{
	atomic_fetch_sub(&handle->users, 1);
}

void comm_retire(corale_comm *handle)
{
	atomic_store(&handle->comm, NULL);
	while (atomic_load(&handle->users))
		sched_yield();
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

/* What the front door wants back of a communicator, or of the one that it was split from. */
static const void *root_of(const struct comm *comm)
{
	const struct comm_origin *origin = comm->origin;
	while (origin->on_destroy == comm_release_origin)
		origin = origin->ctx;
	return origin->ctx;
}

corale_comm *comm_find_oldest(const void *on_destroy_ctx)
{
	corale_comm *oldest = NULL;
	pthread_mutex_lock(&handles_lock);
	for (corale_comm *handle = handles; handle; handle = handle->next) {
		const struct comm *comm = atomic_load(&handle->comm);
		if (comm && root_of(comm) == on_destroy_ctx)
			oldest = handle;
	}
	pthread_mutex_unlock(&handles_lock);
	return oldest;
}

/* ---- Queries ------------------------------------------------------------------------ */

int corale_comm_rank(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_rank");
	return comm ? comm->rank : CORALE_EINVAL;
}

int corale_comm_size(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_size");
	return comm ? comm->size : CORALE_EINVAL;
}

int corale_comm_node(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_node");
	return comm ? comm->topo->map.node_of[comm->rank] : CORALE_EINVAL;
}

int corale_comm_nodes(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_nodes");
	return comm ? comm->topo->map.nodes : CORALE_EINVAL;
}

int corale_comm_local_rank(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_local_rank");
	return comm ? comm->topo->map.local_of[comm->rank] : CORALE_EINVAL;
}

/* window: of its bytes, those that count. */
static size_t memory_of(const struct comm *comm, size_t window)
{
	return (comm->gpu ? engine_cuda.memory(comm->gpu) : 0) + sizeof *comm + window +
	       (comm->peers ? (size_t)comm->size * sizeof *comm->peers : 0) +
	       host_engine_memory(&comm->engine) + plans_bytes(&comm->plans) + plans_bytes(&comm->gpu_plans) +
	       plans_bytes(&comm->narrow_plans);
}

size_t corale_comm_memory(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_memory");
	return comm ? memory_of(comm, comm->engine.layout.bytes) : 0;
}

size_t corale_comm_memory_used(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_memory_used");
	if (!comm)
		return 0;
	const struct host_engine *e = &comm->engine;
	return memory_of(comm, e->windows ? window_used(e->windows[e->local], e->layout.bytes) : 0);
}

size_t comm_device_memory(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "comm_device_memory");
	return comm && comm->gpu ? engine_cuda.memory(comm->gpu) : corale_comm_memory(handle);
}

void corale_config_init(corale_config *config)
{
	if (!config)
		return;
	memset(config, 0, sizeof *config);
	config->size = sizeof *config;
}

/* ---- Failure ------------------------------------------------------------------------ */

const char *corale_comm_last_error(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "corale_comm_last_error");
	if (!comm)
		return "the communicator is NULL or destroyed";
	return atomic_load(&comm->error) ? comm->failure : comm->last_error;
}

void comm_keep_error(struct comm *comm)
{
	pthread_mutex_lock(&comm->error_lock);
	if (!atomic_load(&comm->error))
		snprintf(comm->last_error, sizeof comm->last_error, "%s", log_last_error());
	pthread_mutex_unlock(&comm->error_lock);
}

static int async_error(struct comm *comm)
{
	int error = atomic_load(&comm->error);
	if (!error && comm->gpu)
		return gpu_failure(comm);
	if (error || !(error = diagnose_peers(comm)))
		return error;
	atomic_store(&comm->told, 1);
	if (error != CORALE_EMISMATCH) /* which the next call explains: it knows what was called */
		diagnose_end(comm, &(struct record){ .coll = CORALE_NUM_COLLS }, error);
	return error;
}

int corale_comm_async_error(const corale_comm *given)
{
	corale_comm *handle = (corale_comm *)(uintptr_t)given;
	struct comm *comm = comm_take(handle, "corale_comm_async_error");
	if (!comm)
		return CORALE_EINVAL;
	int error = async_error(comm);
	comm_put(handle);
	return error;
}

int corale_comm_abort(corale_comm *handle)
{
	struct comm *comm = comm_take(handle, "corale_comm_abort");
	if (!comm)
		return CORALE_EINVAL;
	comm_fail(comm, CORALE_EABORTED, "corale_comm_abort was called on this rank");
	if (comm->gpu)
		engine_cuda.abort(comm->gpu, CORALE_EABORTED);
	comm_put(handle);
	return 0;
}

void comm_quit(corale_comm *handle)
{
	struct comm *comm = comm_take(handle, "comm_quit");
	if (!comm)
		return;
	diagnose_leave(comm,
		       WINDOW_ABORTED); /* first: a call that has seen the error gives its buffers back */
	comm_end(comm, CORALE_EABORTED, "the communicator was aborted on this rank");
	if (comm->gpu) {
		engine_cuda.release(comm->gpu);
		engine_cuda.quit(comm->gpu, CORALE_EABORTED);
	}
	comm_put(handle);
}

void call_keep(const struct call *call)
{
	if (call->plan)
		atomic_fetch_add(&call->plan->users, 1);
}

void call_let_go(const struct call *call)
{
	if (call->plan && atomic_fetch_sub(&call->plan->users, 1) == 1)
		free(call->plan);
}
