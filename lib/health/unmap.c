/* SPDX-License-Identifier: BSD-3-Clause */
#include "unmap.h"

#include <stdlib.h>
#include <string.h>

#include "host/liveness.h"
#include "base/log.h"
#include "base/process.h"

enum { WAIT_MS = 2000, POLL_NS = 1000000 };

static struct window_control *control_of(const struct comm *comm, int local)
{
	return comm->engine.windows[local];
}

/* ---- Who asks ---------------------------------------------------------------------------------------------- */

/* A process that has died stores until its GPU's context is gone, which takes the driver a while. */
static int is_gone(const struct comm *comm, int local)
{
	const struct host_engine *e = &comm->engine;
	return e->liveness[local] && liveness_state(e->liveness[local]) != LIVENESS_ALIVE &&
	       liveness_gone(e->pids[local]);
}

static int has_unmapped(const struct comm *comm, int local)
{
	const struct host_engine *e = &comm->engine;
	return local == e->local ||
	       atomic_load_explicit(&control_of(comm, local)->unmapped[e->local], memory_order_acquire) ||
	       is_gone(comm, local);
}

static int poll_unmapped(void *arg)
{
	const struct comm *comm = arg;
	int all = 1;
	for (int q = 0; q < comm->engine.locals; q++)
		all &= has_unmapped(comm, q);
	return all;
}

int unmap_wait(struct comm *comm)
{
	const struct wait_policy policy = { .timeout_ns = WAIT_MS * 1000000ll, .sleep_ns = POLL_NS };
	if (!comm->gpu || comm->size == 1)
		return 1;
	atomic_store(&control_of(comm, comm->engine.local)->asks_unmap, 1);
	if (wait_until(&policy, poll_unmapped, comm) > 0)
		return 1;
	for (int q = 0; q < comm->engine.locals; q++)
		if (!has_unmapped(comm, q))
			log_line(LOG_WARN, comm->rank,
				 "rank %d (process %ld) has not said within %d s that its GPU stores nothing "
				 "more into this rank's registered memory: it may still write there; memory "
				 "of corale_mem_alloc is therefore not freed",
				 comm_local_rank(comm, q), (long)comm->engine.pids[q], WAIT_MS / 1000);
	return 0;
}

/* ---- Who answers ------------------------------------------------------------------------------------------- */

struct helper {
	struct comm *comm;
	int local, failed;
};

static void answer(struct comm *comm, int local)
{
	atomic_store_explicit(&control_of(comm, comm->engine.local)->unmapped[local], 1,
			      memory_order_release);
}

static void *work(void *arg)
{
	struct helper *h = arg;
	struct comm *comm = h->comm;
	if (!engine_memory.unmap(comm->gpu, h->local, h->failed))
		answer(comm, h->local);
	free(h);
	atomic_store_explicit(&comm->watch.unmapping, 0, memory_order_release);
	return NULL;
}

/* One at a time; who can't be answered now is answered by a later look, or has waited in vain. */
static void start(struct comm *comm, int local)
{
	struct helper *h = malloc(sizeof *h);
	if (!h)
		return;
	*h = (struct helper){ comm, local, atomic_load(&comm->error) != 0 };
	atomic_store(&comm->watch.unmapping, 1);
	int error = process_thread(NULL, work, h);
	if (!error)
		return;
	atomic_store(&comm->watch.unmapping, 0);
	free(h);
	log_line(LOG_WARN, comm->rank, "no thread to answer rank %d, which gives up its memory: %s",
		 comm_local_rank(comm, local), strerror(error));
}

void unmap_answer(struct comm *comm)
{
	const struct host_engine *e = &comm->engine;
	const struct window_control *mine = control_of(comm, e->local);
	for (int p = 0; p < e->locals && !atomic_load(&comm->watch.unmapping); p++)
		if (p != e->local && atomic_load(&control_of(comm, p)->asks_unmap) &&
		    !atomic_load(&mine->unmapped[p]))
			start(comm, p);
}

static int poll_idle(void *arg)
{
	struct comm *comm = arg;
	return !atomic_load_explicit(&comm->watch.unmapping, memory_order_acquire);
}

void unmap_finish(struct comm *comm)
{
	wait_until(&(struct wait_policy){ .sleep_ns = POLL_NS }, poll_idle, comm);
}

void unmap_answer_all(struct comm *comm)
{
	for (int p = 0; comm->engine.windows && p < comm->engine.locals; p++)
		if (comm->engine.windows[comm->engine.local])
			answer(comm, p);
}
