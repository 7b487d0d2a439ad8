/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's functions that complete, look at and free requests. Where no request of a call has work they hand the call on as it is. */
#include "request.h"

#include <sched.h>
#include <stdlib.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "peer.h"

/* The requests of a call, as they were before it, with their work. */
enum { FEW = 16 };
struct claims {
	int n, found;
	int is_failed; /* a status has an error that MPI has not seen: of comm */
	MPI_Comm comm;
	struct pmpi_pending **pending; /* of each request; NULL: none */
	MPI_Status *own; /* for a program that wants none */
	struct pmpi_pending *few[FEW];
	MPI_Status few_own[FEW];
};

static int has_room(struct claims *c, int n)
{
	c->n = n;
	c->found = c->is_failed = 0;
	c->pending = c->few;
	c->own = c->few_own;
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

/* After MPI's completion of request i. Returns the work's error. */
static int complete(struct claims *c, int i, MPI_Status *status)
{
	if (!c->pending[i])
		return MPI_SUCCESS;
	c->comm = c->pending[i]->comm;
	const int error = pmpi_pending_complete(c->pending[i], status);
	c->pending[i] = NULL;
	return error;
}

/* The same of a call for one request; ret: what MPI returned. */
static int complete_one(struct claims *c, int i, MPI_Status *status, int ret)
{
	const int error = complete(c, i, status);
	if (error && error != MPI_ERR_OTHER && !ret)
		PMPI_Comm_call_errhandler(c->comm, error);
	return ret ? ret : error;
}

/* ---- Requests that are not ready: MPI is not asked to complete them. */

static int are_ready(const struct claims *c)
{
	int are_ready = 1;
	for (int i = 0; i < c->n; i++)
		are_ready &= pmpi_pending_is_ready(c->pending[i]);
	return are_ready;
}

/* MPI yields itself where there are fewer cores than ranks. */
enum { TURNS = 256 };

void pmpi_go_on(int *turn)
{
	pmpi_peer_progress();
	if (++*turn % TURNS == 0)
		sched_yield();
}

static void wait_ready(const struct claims *c)
{
	int turn = 0;
	while (!are_ready(c))
		pmpi_go_on(&turn);
}

/* Puts MPI_REQUEST_NULL in the place of those that are not ready. How many these are. */
static int hide(const struct claims *c, MPI_Request *requests)
{
	int n = 0;
	for (int i = 0; i < c->n; i++)
		if (c->pending[i] && (c->pending[i]->is_hidden = !pmpi_pending_is_ready(c->pending[i]))) {
			requests[i] = MPI_REQUEST_NULL;
			n++;
		}
	return n;
}

static void show(const struct claims *c, MPI_Request *requests)
{
	for (int i = 0; i < c->n; i++)
		if (c->pending[i] && c->pending[i]->is_hidden)
			requests[i] = c->pending[i]->request;
}

/* ---- One request --------------------------------------------------------------------------------------- */

static int may_wait_in_mpi(const struct pmpi_pending *p)
{
	return p->work->follow && p->is_active && pmpi.thread_level != MPI_THREAD_MULTIPLE &&
	       atomic_load_explicit(&pmpi_pending_n, memory_order_relaxed) == 1;
}

PMPI_ENTRY(MPI_Wait, (MPI_Request * request, MPI_Status *status), (request, status))
{
	struct claims c;
	if (claim(&c, 1, request, &status) <= 0)
		return PMPI_Wait(request, status);
	const struct pmpi_pending *p = c.pending[0];
	const int follows = may_wait_in_mpi(p);
	if (!follows)
		wait_ready(&c);
	int ret = PMPI_Wait(request, status);
	if (follows)
		p->work->follow(p->arg, status, ret);
	ret = complete_one(&c, 0, status, ret);
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
		ret = pmpi_pending_deliver(c.pending[0], status);
	end_claims(&c);
	return ret == MPI_ERR_OTHER
		   ? ret
		   : MPI_SUCCESS; /* a truncated message is an error of the call that ends it */
}

int pmpi_look_at(MPI_Request request, int *flag, MPI_Status *status)
{
	return own_MPI_Request_get_status(request, flag, status);
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
	const int error = complete(c, i, &statuses[at]);
	if (error == MPI_ERR_OTHER && !*ret)
		*ret = error;
	if (!error || error == MPI_ERR_OTHER)
		return;
	for (int k = 0; k < c->n && !mpi_ret && !c->is_failed; k++)
		statuses[k].MPI_ERROR = MPI_SUCCESS;
	c->is_failed = 1;
	statuses[at].MPI_ERROR = error;
}

/* After a call that has completed these; indices: NULL: all. ret: what it returned. */
static int complete_some(struct claims *c, const MPI_Request *requests, int count, const int *indices,
			 MPI_Status *statuses, int ret)
{
	const int mpi_ret = ret;
	for (int k = 0; count != MPI_UNDEFINED && k < count; k++) {
		const int i = indices ? indices[k] : k;
		if (!mpi_ret || requests[i] == MPI_REQUEST_NULL ||
		    (mpi_ret == MPI_ERR_IN_STATUS && statuses[k].MPI_ERROR != MPI_ERR_PENDING))
			complete_at(c, i, statuses, k, mpi_ret, &ret);
	}
	if (!c->is_failed || ret)
		return ret;
	PMPI_Comm_call_errhandler(c->comm, MPI_ERR_IN_STATUS); /* errors that MPI has not seen */
	return MPI_ERR_IN_STATUS;
}

PMPI_ENTRY(MPI_Waitall, (int n, MPI_Request *requests, MPI_Status *statuses), (n, requests, statuses))
{
	struct claims c;
	const int claimed = claim(&c, n, requests, &statuses);
	if (claimed <= 0)
		return claimed ? no_memory(n) : PMPI_Waitall(n, requests, statuses);
	wait_ready(&c);
	const int ret = complete_some(&c, requests, n, NULL, statuses, PMPI_Waitall(n, requests, statuses));
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
		ret = complete_some(&c, requests, n, NULL, statuses, ret);
	end_claims(&c);
	return ret;
}

/* MPI_Testany, or MPI_Waitany with flag NULL. */
static int any(int *flag, int n, MPI_Request *requests, int *index, MPI_Status *status)
{
	struct claims c;
	int is_there = 0, ret, turn = 0;
	const int claimed = claim(&c, n, requests, &status);
	if (claimed < 0)
		return no_memory(n);
	if (!claimed)
		return flag ? PMPI_Testany(n, requests, index, flag, status)
			    : PMPI_Waitany(n, requests, index, status);
	for (;; pmpi_go_on(&turn)) {
		const int hidden = hide(&c, requests);
		*index = MPI_UNDEFINED;
		ret = PMPI_Testany(n, requests, index, &is_there, status);
		show(&c, requests);
		is_there = is_there && (*index != MPI_UNDEFINED || !hidden);
		if (ret || is_there || flag)
			break;
	}
	if (flag)
		*flag = is_there;
	if (*index != MPI_UNDEFINED)
		ret = complete_one(&c, *index, status, ret);
	end_claims(&c);
	return ret;
}

PMPI_ENTRY(MPI_Waitany, (int n, MPI_Request *requests, int *index, MPI_Status *status),
	   (n, requests, index, status))
{
	return any(NULL, n, requests, index, status);
}

PMPI_ENTRY(MPI_Testany, (int n, MPI_Request *requests, int *index, int *flag, MPI_Status *status),
	   (n, requests, index, flag, status))
{
	return any(flag, n, requests, index, status);
}

/* MPI_Waitsome (waits) or Testsome. */
static int some(int waits, int n, MPI_Request *requests, int *count, int *indices, MPI_Status *statuses)
{
	struct claims c;
	int ret, turn = 0;
	const int claimed = claim(&c, n, requests, &statuses);
	if (claimed < 0)
		return no_memory(n);
	if (!claimed)
		return (waits ? PMPI_Waitsome : PMPI_Testsome)(n, requests, count, indices, statuses);
	for (;; pmpi_go_on(&turn)) {
		const int hidden = hide(&c, requests);
		*count = MPI_UNDEFINED;
		ret = PMPI_Testsome(n, requests, count, indices, statuses);
		show(&c, requests);
		if (*count == MPI_UNDEFINED && hidden)
			*count = 0;
		if (ret || *count || !waits)
			break;
	}
	ret = complete_some(&c, requests, *count, indices, statuses, ret);
	end_claims(&c);
	return ret;
}

PMPI_ENTRY(MPI_Waitsome, (int n, MPI_Request *requests, int *count, int *indices, MPI_Status *statuses),
	   (n, requests, count, indices, statuses))
{
	return some(1, n, requests, count, indices, statuses);
}

PMPI_ENTRY(MPI_Testsome, (int n, MPI_Request *requests, int *count, int *indices, MPI_Status *statuses),
	   (n, requests, count, indices, statuses))
{
	return some(0, n, requests, count, indices, statuses);
}
