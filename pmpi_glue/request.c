/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions that start, complete, look at and free requests. Where no request of a call has work they hand the call on as it is. */
#include "request.h"

#include <sched.h>
#include <stdlib.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "peer.h"
#include "request_table.h"

/* The requests of a call, as they were before it, with their work. */
enum { FEW = 16 };
struct claims {
	int n, found;
	int waits; /* some work says when its request is ready */
	int is_failed; /* a status has an error that MPI has not seen: of comm */
	MPI_Comm comm;
	struct pmpi_pending **pending; /* of each request; NULL: none */
	MPI_Status *own; /* for a program that wants none */
	struct pmpi_pending *few[FEW];
	MPI_Status few_own[FEW];
};

static int has_room(struct claims *c, int n)
{
	*c = (struct claims){ .n = n, .pending = c->few, .own = c->few_own };
	if (n <= FEW)
		return 1;
	c->pending = calloc((size_t)n, sizeof(struct pmpi_pending *));
	c->own = malloc((size_t)n * sizeof(*c->own));
	return c->pending && c->own;
}

static void end_claims(struct claims *c)
{
	for (int i = 0; c->pending && i < c->n; i++)
		if (c->pending[i])
			pmpi_pending_unclaim(c->pending[i]);
	if (c->pending != c->few) {
		free(c->pending);
		free(c->own);
	}
	pmpi_requests_progress();
}

/*
 * 1: some have work, and *statuses is there, also for a program that ignores it; 0: none has, and there is nothing to end; -1: no memory. statuses: NULL for
 * a function without.
 */
static int claim(struct claims *c, int n, const MPI_Request *requests, MPI_Status **statuses)
{
	if (!atomic_load_explicit(&pmpi_pending_n, memory_order_relaxed) || n <= 0 || !requests) {
		pmpi_requests_progress();
		return 0;
	}
	if (!has_room(c, n)) {
		if (c->pending)
			end_claims(c);
		return -1;
	}
	for (int i = 0; i < n; i++) {
		c->pending[i] = pmpi_pending_claim(requests[i]);
		c->found += c->pending[i] != NULL;
		c->waits |= c->pending[i] && c->pending[i]->work->is_ready;
	}
	if (!c->found)
		end_claims(c);
	else if (statuses && (*statuses == MPI_STATUS_IGNORE || *statuses == MPI_STATUSES_IGNORE))
		*statuses = c->own;
	return c->found > 0;
}

static int no_memory(int n)
{
	log_error(CORALE_ENOMEM, pmpi.rank, "no memory to wait for %d requests", n);
	return pmpi_fail(MPI_COMM_WORLD);
}

/* After MPI's completion of request i, with its error. Returns the work's. */
static int complete(struct claims *c, int i, MPI_Status *status, int mpi_error)
{
	if (!c->pending[i])
		return MPI_SUCCESS;
	c->comm = c->pending[i]->comm;
	const int error = pmpi_pending_complete(c->pending[i], status, mpi_error);
	c->pending[i] = NULL;
	return error;
}

/* The same of a call for one request; ret: what MPI returned. */
static int complete_one(struct claims *c, int i, MPI_Status *status, int ret)
{
	const int error = complete(c, i, status, ret);
	if (error && error != MPI_ERR_OTHER && !ret)
		PMPI_Comm_call_errhandler(c->comm, error);
	return ret ? ret : error;
}

/* ---- Requests that are not ready: MPI is not asked to complete them. */

static int are_ready(const struct claims *c)
{
	int are_ready = 1;
	for (int i = 0; c->waits && i < c->n; i++)
		are_ready &= pmpi_pending_is_ready(c->pending[i]);
	return are_ready;
}

static void go_on(void)
{
	pmpi_peer_progress();
	sched_yield();
}

static void wait_ready(const struct claims *c)
{
	while (!are_ready(c))
		go_on();
}

/* To `masked`, with MPI_REQUEST_NULL for those that are not ready. How many these are. */
static int mask(const struct claims *c, const MPI_Request *requests, MPI_Request *masked)
{
	int n = 0;
	for (int i = 0; i < c->n; i++) {
		const int is_ready = pmpi_pending_is_ready(c->pending[i]);
		masked[i] = is_ready ? requests[i] : MPI_REQUEST_NULL;
		n += !is_ready;
	}
	return n;
}

/* ---- One request --------------------------------------------------------------------------------------- */

PMPI_ENTRY(MPI_Wait, (MPI_Request * request, MPI_Status *status), (request, status))
{
	struct claims c;
	if (claim(&c, 1, request, &status) <= 0)
		return PMPI_Wait(request, status);
	wait_ready(&c);
	const int ret = complete_one(&c, 0, status, PMPI_Wait(request, status));
	end_claims(&c);
	return ret;
}

int pmpi_wait_for(MPI_Request *request, MPI_Status *status)
{
	return own_MPI_Wait(request, status);
}

PMPI_ENTRY(MPI_Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status))
{
	struct claims c;
	if (claim(&c, 1, request, &status) <= 0)
		return PMPI_Test(request, flag, status);
	int ret = MPI_SUCCESS;
	*flag = 0;
	if (are_ready(&c))
		ret = PMPI_Test(request, flag, status);
	if (ret || *flag)
		ret = complete_one(&c, 0, status, ret);
	end_claims(&c);
	return ret;
}

/* The data must be in the program's buffer when it hears that a request is complete. */
PMPI_ENTRY(MPI_Request_get_status, (MPI_Request request, int *flag, MPI_Status *status),
	   (request, flag, status))
{
	struct claims c;
	if (claim(&c, 1, &request, &status) <= 0)
		return PMPI_Request_get_status(request, flag, status);
	int ret = MPI_SUCCESS;
	*flag = 0;
	if (are_ready(&c))
		ret = PMPI_Request_get_status(request, flag, status);
	if (!ret && *flag)
		ret = pmpi_pending_deliver(c.pending[0], status, MPI_SUCCESS);
	end_claims(&c);
	return ret == MPI_ERR_OTHER
		   ? ret
		   : MPI_SUCCESS; /* a truncated message is an error of the call that ends it */
}

PMPI_ENTRY(MPI_Request_free, (MPI_Request * request), (request))
{
	struct claims c;
	if (claim(&c, 1, request, NULL) <= 0)
		return PMPI_Request_free(request);
	int ret = MPI_SUCCESS;
	if (pmpi_pending_free(c.pending[0]))
		*request = MPI_REQUEST_NULL;
	else
		ret = PMPI_Request_free(request);
	c.pending[0] = NULL;
	end_claims(&c);
	return ret;
}

/* ---- Several ------------------------------------------------------------------------------------------- */

/* Request i, with the status `at`, after a call for several that MPI has returned mpi_ret from. */
static void complete_at(struct claims *c, int i, MPI_Status *statuses, int at, int mpi_ret, int *ret)
{
	const int error =
	    complete(c, i, &statuses[at], mpi_ret == MPI_ERR_IN_STATUS ? statuses[at].MPI_ERROR : mpi_ret);
	if (error == MPI_ERR_OTHER && !*ret)
		*ret = error;
	if (!error || error == MPI_ERR_OTHER)
		return;
	for (int k = 0; k < c->n && !mpi_ret && !c->is_failed; k++)
		statuses[k].MPI_ERROR = MPI_SUCCESS;
	c->is_failed = 1;
	statuses[at].MPI_ERROR = error;
}

/* Ends these: ret is what the call returns, unless statuses have errors that MPI has not seen. */
static int fail_in_status(const struct claims *c, int ret)
{
	if (!c->is_failed || ret)
		return ret;
	PMPI_Comm_call_errhandler(c->comm, MPI_ERR_IN_STATUS);
	return MPI_ERR_IN_STATUS;
}

/* After a call that completes all; ret: what it returned. */
static int complete_all(struct claims *c, const MPI_Request *requests, MPI_Status *statuses, int ret)
{
	const int mpi_ret = ret;
	for (int i = 0; i < c->n; i++)
		if (!mpi_ret || requests[i] == MPI_REQUEST_NULL ||
		    (mpi_ret == MPI_ERR_IN_STATUS && statuses[i].MPI_ERROR != MPI_ERR_PENDING))
			complete_at(c, i, statuses, i, mpi_ret, &ret);
	return fail_in_status(c, ret);
}

static int complete_some(struct claims *c, const MPI_Request *requests, int count, const int *indices,
			 MPI_Status *statuses, int ret)
{
	const int mpi_ret = ret;
	for (int k = 0; count != MPI_UNDEFINED && k < count; k++)
		if (!mpi_ret || requests[indices[k]] == MPI_REQUEST_NULL ||
		    (mpi_ret == MPI_ERR_IN_STATUS && statuses[k].MPI_ERROR != MPI_ERR_PENDING))
			complete_at(c, indices[k], statuses, k, mpi_ret, &ret);
	return fail_in_status(c, ret);
}

static int complete_any(struct claims *c, int index, MPI_Status *status, int ret)
{
	return index == MPI_UNDEFINED ? ret : complete_one(c, index, status, ret);
}

PMPI_ENTRY(MPI_Waitall, (int n, MPI_Request *requests, MPI_Status *statuses), (n, requests, statuses))
{
	struct claims c;
	const int claimed = claim(&c, n, requests, &statuses);
	if (claimed <= 0)
		return claimed ? no_memory(n) : PMPI_Waitall(n, requests, statuses);
	wait_ready(&c);
	const int ret = complete_all(&c, requests, statuses, PMPI_Waitall(n, requests, statuses));
	end_claims(&c);
	return ret;
}

PMPI_ENTRY(MPI_Testall, (int n, MPI_Request *requests, int *flag, MPI_Status *statuses),
	   (n, requests, flag, statuses))
{
	struct claims c;
	const int claimed = claim(&c, n, requests, &statuses);
	if (claimed <= 0)
		return claimed ? no_memory(n) : PMPI_Testall(n, requests, flag, statuses);
	int ret = MPI_SUCCESS;
	*flag = 0;
	if (are_ready(&c))
		ret = PMPI_Testall(n, requests, flag, statuses);
	if (ret || *flag)
		ret = complete_all(&c, requests, statuses, ret);
	end_claims(&c);
	return ret;
}

/* MPI_Waitany (waits) or Testany where requests may not be ready. */
static int any_ready(const struct claims *c, int waits, MPI_Request *requests, int *index, int *flag,
		     MPI_Status *status)
{
	MPI_Request few[FEW], *masked = c->n > FEW ? malloc((size_t)c->n * sizeof *masked) : few;
	int ret = MPI_SUCCESS;
	if (!masked)
		return no_memory(c->n);
	for (;; go_on()) {
		const int n = mask(c, requests, masked);
		ret = PMPI_Testany(c->n, masked, index, flag, status);
		*flag = *flag && (*index != MPI_UNDEFINED || !n);
		if (ret || *flag || !waits)
			break;
	}
	if (*index != MPI_UNDEFINED)
		requests[*index] = masked[*index];
	if (masked != few)
		free(masked);
	return ret;
}

PMPI_ENTRY(MPI_Waitany, (int n, MPI_Request *requests, int *index, MPI_Status *status),
	   (n, requests, index, status))
{
	struct claims c;
	const int claimed = claim(&c, n, requests, &status);
	if (claimed <= 0)
		return claimed ? no_memory(n) : PMPI_Waitany(n, requests, index, status);
	int flag, ret;
	*index = MPI_UNDEFINED;
	ret = c.waits ? any_ready(&c, 1, requests, index, &flag, status)
		      : PMPI_Waitany(n, requests, index, status);
	ret = complete_any(&c, *index, status, ret);
	end_claims(&c);
	return ret;
}

PMPI_ENTRY(MPI_Testany, (int n, MPI_Request *requests, int *index, int *flag, MPI_Status *status),
	   (n, requests, index, flag, status))
{
	struct claims c;
	const int claimed = claim(&c, n, requests, &status);
	if (claimed <= 0)
		return claimed ? no_memory(n) : PMPI_Testany(n, requests, index, flag, status);
	*index = MPI_UNDEFINED;
	int ret = c.waits ? any_ready(&c, 0, requests, index, flag, status)
			  : PMPI_Testany(n, requests, index, flag, status);
	if (ret || *flag)
		ret = complete_any(&c, *index, status, ret);
	end_claims(&c);
	return ret;
}

typedef int some_function(int n, MPI_Request *requests, int *count, int *indices, MPI_Status *statuses);

static int some_ready(const struct claims *c, int waits, MPI_Request *requests, int *count, int *indices,
		      MPI_Status *statuses)
{
	MPI_Request few[FEW], *masked = c->n > FEW ? malloc((size_t)c->n * sizeof *masked) : few;
	int ret = MPI_SUCCESS;
	if (!masked)
		return no_memory(c->n);
	for (;; go_on()) {
		const int n = mask(c, requests, masked);
		ret = PMPI_Testsome(c->n, masked, count, indices, statuses);
		if (*count == MPI_UNDEFINED && n)
			*count = 0;
		if (ret || *count || !waits)
			break;
	}
	for (int k = 0; *count != MPI_UNDEFINED && k < *count; k++)
		requests[indices[k]] = masked[indices[k]];
	if (masked != few)
		free(masked);
	return ret;
}

static int some(some_function *mpi, int waits, int n, MPI_Request *requests, int *count, int *indices,
		MPI_Status *statuses)
{
	struct claims c;
	const int claimed = claim(&c, n, requests, &statuses);
	if (claimed <= 0)
		return claimed ? no_memory(n) : mpi(n, requests, count, indices, statuses);
	*count = MPI_UNDEFINED;
	int ret = c.waits ? some_ready(&c, waits, requests, count, indices, statuses)
			  : mpi(n, requests, count, indices, statuses);
	ret = complete_some(&c, requests, *count, indices, statuses, ret);
	end_claims(&c);
	return ret;
}

PMPI_ENTRY(MPI_Waitsome, (int n, MPI_Request *requests, int *count, int *indices, MPI_Status *statuses),
	   (n, requests, count, indices, statuses))
{
	return some(PMPI_Waitsome, 1, n, requests, count, indices, statuses);
}

PMPI_ENTRY(MPI_Testsome, (int n, MPI_Request *requests, int *count, int *indices, MPI_Status *statuses),
	   (n, requests, count, indices, statuses))
{
	return some(PMPI_Testsome, 0, n, requests, count, indices, statuses);
}

/* ---- Persistent requests ------------------------------------------------------------------------------- */

/* Whether work says that the request may start. 0 or an MPI error code. */
static int prepare(MPI_Request request)
{
	if (!atomic_load_explicit(&pmpi_pending_n, memory_order_relaxed))
		return MPI_SUCCESS;
	struct pmpi_pending *pending = pmpi_pending_find(request);
	if (!pending)
		return MPI_SUCCESS;
	if (pending->work->start && pending->work->start(pending->arg))
		return pmpi_fail(pending->comm);
	pending->is_active = 1;
	pending->is_delivered = 0;
	return MPI_SUCCESS;
}

PMPI_ENTRY(MPI_Start, (MPI_Request * request), (request))
{
	const int ret = prepare(*request);
	return ret ? ret : PMPI_Start(request);
}

PMPI_ENTRY(MPI_Startall, (int n, MPI_Request *requests), (n, requests))
{
	for (int i = 0; i < n; i++) {
		const int ret = prepare(requests[i]);
		if (ret)
			return ret;
	}
	return PMPI_Startall(n, requests);
}
