/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "request.h"

#include <pthread.h>
#include <stdint.h>

#include "door.h"
#include "peer.h"

_Atomic long pmpi_pending_n;

enum { BUCKETS = 4096 };
static struct {
	struct pmpi_pending *buckets[BUCKETS]; /* the newest first */
	struct pmpi_pending *freed; /* active requests that the program has freed: ours */
	_Atomic int freed_n;
} table;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void pmpi_lock_threads(void)
{
	pthread_mutex_lock(&lock);
}

void pmpi_unlock_threads(void)
{
	pthread_mutex_unlock(&lock);
}

static struct pmpi_pending **bucket_of(MPI_Request request)
{
	return &table.buckets[(uint64_t)(uintptr_t)request * 0x9e3779b97f4a7c15u >> 52];
}

/* With the lock: an atomic addition would cost as much as all else here. */
static void count_pending(int more)
{
	const long n = atomic_load_explicit(&pmpi_pending_n, memory_order_relaxed);
	atomic_store_explicit(&pmpi_pending_n, n + more, memory_order_relaxed);
}

void pmpi_request_add(struct pmpi_pending *pending, MPI_Request request, MPI_Comm comm, int is_persistent,
		      const struct pmpi_work *work, void *arg)
{
	struct pmpi_pending **bucket = bucket_of(request);
	*pending = (struct pmpi_pending){ .request = request,
					  .comm = comm,
					  .work = work,
					  .arg = arg,
					  .is_persistent = is_persistent,
					  .is_active = !is_persistent };
	pmpi_lock();
	pending->next = *bucket;
	*bucket = pending;
	count_pending(1);
	pmpi_unlock();
}

struct pmpi_pending *pmpi_pending_claim(MPI_Request request)
{
	if (request == MPI_REQUEST_NULL)
		return NULL;
	pmpi_lock();
	struct pmpi_pending *p = *bucket_of(request);
	while (p && (p->request != request || p->is_claimed))
		p = p->next;
	if (p)
		p->is_claimed = 1;
	pmpi_unlock();
	return p;
}

void pmpi_pending_unclaim(struct pmpi_pending *claimed)
{
	pmpi_lock();
	claimed->is_claimed = 0;
	pmpi_unlock();
}

static void take_out(struct pmpi_pending *pending)
{
	pmpi_lock();
	struct pmpi_pending **link = bucket_of(pending->request);
	while (*link != pending)
		link = &(*link)->next;
	*link = pending->next;
	count_pending(-1);
	pmpi_unlock();
}

/* ---- Completion ---------------------------------------------------------------------------------------- */

int pmpi_pending_is_ready(const struct pmpi_pending *p)
{
	return !p || !p->is_active || !p->work->is_ready || p->work->is_ready(p->arg, p->request);
}

int pmpi_pending_deliver(struct pmpi_pending *p, MPI_Status *status)
{
	int is_cancelled = 0;
	if (!p->is_active || !p->work->deliver || (p->is_delivered && !p->work->is_repeated))
		return MPI_SUCCESS;
	p->is_delivered = 1;
	PMPI_Test_cancelled(status, &is_cancelled);
	const int ret = is_cancelled ? 0 : p->work->deliver(p->arg, status);
	return ret < 0 ? pmpi_fail(p->comm) : ret;
}

int pmpi_pending_complete(struct pmpi_pending *p, MPI_Status *status)
{
	const int ret = pmpi_pending_deliver(p, status);
	if (p->is_persistent) {
		p->is_active = p->is_delivered = 0;
		pmpi_pending_unclaim(p);
	} else {
		take_out(p);
		p->work->release(p->arg);
	}
	return ret;
}

/* ---- Requests that the program has freed ---------------------------------------------------------------- */

int pmpi_pending_free(struct pmpi_pending *p)
{
	take_out(p);
	if (!p->is_active) {
		p->work->release(p->arg);
		return 0;
	}
	pmpi_lock();
	p->next = table.freed;
	table.freed = p;
	table.freed_n++;
	pmpi_unlock();
	return 1;
}

/* Out of the list: one that is complete, NULL: none. */
static struct pmpi_pending *take_complete(MPI_Status *status)
{
	int is_complete = 0;
	pmpi_lock();
	struct pmpi_pending **link = &table.freed, *found;
	while ((found = *link)) {
		const int is_ready = pmpi_pending_is_ready(found);
		if (PMPI_Request_get_status(found->request, &is_complete, status) ||
		    (is_complete && is_ready))
			break;
		link = &found->next;
	}
	if (found) {
		*link = found->next;
		table.freed_n--;
	}
	pmpi_unlock();
	return found;
}

void pmpi_requests_progress(void)
{
	MPI_Status status;
	struct pmpi_pending *pending;
	do
		while (atomic_load_explicit(&table.freed_n, memory_order_relaxed) &&
		       (pending = take_complete(&status))) {
			pmpi_pending_deliver(pending, &status);
			PMPI_Request_free(&pending->request);
			pending->work->release(pending->arg);
		}
	while (pmpi_peer_finish());
}

/* What is still active is MPI's to end: its memory stays. */
void pmpi_requests_end(void)
{
	pmpi_requests_progress();
	for (struct pmpi_pending *p = table.freed, *next; p; p = next) {
		next = p->next;
		PMPI_Request_free(&p->request);
	}
	table.freed = NULL;
	table.freed_n = 0;
}
