/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm_doors.h"

#include <stdlib.h>
#include <string.h>

#include "health/diagnose.h"
#include "gpu.h"

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
	return (comm->gpu ? engine_memory.memory(comm->gpu) : 0) + sizeof *comm + window +
	       (comm->peers ? (size_t)comm->size * sizeof *comm->peers : 0) +
	       host_engine_memory(&comm->engine) + plans_bytes(&comm->plans) + plans_bytes(&comm->gpu_plans);
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

void comm_publish(corale_comm *handle, const void *buffer, size_t bytes)
{
	const struct comm *comm = comm_get(handle, "comm_publish");
	if (comm && comm->gpu)
		engine_memory.publish(comm->gpu, buffer, bytes);
}

size_t comm_device_memory(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "comm_device_memory");
	return comm && comm->gpu ? engine_memory.memory(comm->gpu) : corale_comm_memory(handle);
}

size_t comm_pinned_memory(const corale_comm *handle)
{
	const struct comm *comm = comm_get(handle, "comm_pinned_memory");
	if (!comm)
		return 0;
	return comm->gpu ? engine_memory.pinned_memory(comm->gpu) : atomic_load(&comm->engine.memory);
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

static int async_error(struct comm *comm)
{
	int error = atomic_load(&comm->error);
	if (!error && comm->gpu)
		return gpu_failure(comm);
	if (error || !(error = diagnose_peers(comm)))
		return error;
	if (diagnose_patience(comm)) /* the call that runs ends first */
		return 0;
	atomic_store(&comm->error_reported, 1);
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

static void quit(corale_comm *handle, enum window_left how, const char *text)
{
	struct comm *comm = comm_take(handle, "comm_quit");
	if (!comm)
		return;
	diagnose_leave(comm, how); /* first: a call that has seen the error gives its buffers back */
	comm_end(comm, CORALE_EABORTED, text);
	if (comm->gpu) {
		engine_cuda.release(comm->gpu);
		engine_cuda.quit(comm->gpu, CORALE_EABORTED);
	}
	comm_put(handle);
}

void comm_quit(corale_comm *handle)
{
	quit(handle, WINDOW_ABORTED, "the communicator was aborted on this rank");
}

void comm_revoke(corale_comm *handle)
{
	quit(handle, WINDOW_REVOKED, "the communicator was revoked on this rank");
}
