/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a communicator, which waits for the calls that other threads are in. */
#include "comm_create.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/wait.h"
#include "call/group.h"
#include "call/runner.h"
#include "comm_doors.h"
#include "gpu.h"
#include "health/diagnose.h"
#include "health/watch.h"

void comm_close(struct comm *comm)
{
	gpu_close(comm);
	struct transport *t = comm->engine.transport; /* NULL: that has closed it */
	const int error = atomic_load(&comm->error);
	if (t && error) /* maybe outside of calls: its end waits for nobody for long */
		t->ops->fail(t, error);
	transport_close(t);
	host_engine_close(&comm->engine);
	comm_close_windows(comm);
	topo_destroy(comm->topo);
	plans_free(&comm->plans);
	mem_close(comm);
	free(comm->sends);
	free(comm->edges);
	free(comm->recvs);
	free(comm->peers);
	pthread_mutex_destroy(&comm->error_lock);
}

void comm_free(struct comm *comm)
{
	comm_close(comm);
	comm_release_origin(comm->origin);
	free(comm);
}

enum { LEAVE_S = 10, NAP_US = 100 };

static int has_callers(const corale_comm *handle)
{
	return atomic_load_explicit(&((corale_comm *)(uintptr_t)handle)->callers, memory_order_acquire) != 0;
}

/* Ends the call that another thread is in, and waits until it has left: 1; 0: it has not in a long time. */
static int end_callers(const corale_comm *handle, struct comm *comm)
{
	const int64_t until = wait_now_ns() + LEAVE_S * 1000000000ll;
	/* Behind this the stores of comm_enter are visible, or its loads see what this thread has stored. Where the kernel forbids it, the store is visible
	 * long before the communicator is freed. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	if (!has_callers(handle))
		return 1;
	comm_fail(comm, CORALE_EABORTED,
		  "corale_comm_destroy was called while another thread is in a call of the communicator, "
		  "which ends by it: one thread at a time uses a communicator");
	if (comm->gpu)
		engine_cuda.abort(comm->gpu, CORALE_EABORTED);
	while (has_callers(handle) && wait_now_ns() < until) {
		usleep(NAP_US);
		wait_progress();
	}
	if (!has_callers(handle))
		return 1;
	log_line(LOG_WARN, comm->rank,
		 "corale_comm_destroy: another thread has not left its call of the communicator for %d s: "
		 "the communicator's memory is kept",
		 LEAVE_S);
	return 0;
}

static void destroy(corale_comm *handle, struct comm *comm)
{
	const int ended = end_callers(handle, comm);
	if (!ended) {
		comm_retire(handle);
		return;
	}
	runner_finish(comm);
	if (comm->gpu)
		gpu_finish(comm);
	last_call_compare(comm);
	if (log_level >= LOG_INFO) /* it looks at every page */
		log_line(LOG_INFO, comm->rank, "communicator ends: %zu bytes of memory reserved, %zu used",
			 corale_comm_memory(handle), corale_comm_memory_used(handle));
	diagnose_leave(comm, WINDOW_DESTROYED);
	watch_remove(comm);
	comm_retire(handle);
	if (end_callers(handle, comm))
		comm_free(comm);
}

void corale_comm_destroy(corale_comm *handle)
{
	if (!handle)
		return;
	struct comm *comm = comm_get(handle, "corale_comm_destroy");
	if (!comm)
		return;
	const size_t calls = group_calls(comm);
	if (calls) {
		log_error(CORALE_EINVAL, comm->rank,
			  "corale_comm_destroy: the open group of this thread has %zu calls of the "
			  "communicator, which stays: end the group first (corale_group_end)",
			  calls);
		comm_keep_error(comm);
		return;
	}
	destroy(handle, comm);
}

void corale_private_comm_destroy_all(void *on_destroy_ctx)
{
	corale_comm *handle;
	while ((handle = comm_find_oldest(on_destroy_ctx))) /* calls in a group find that it is destroyed */
		destroy(handle, atomic_load(&handle->comm));
}
