/* SPDX-License-Identifier: BSD-3-Clause */
#include "p2p.h"

#include <stdlib.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "request.h"
#include "statistics.h"

int pmpi_p2p_find(struct pmpi_staged *s, int peer, const void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (pmpi_stage_find(s, buffer, peer == MPI_PROC_NULL ? 0 : count, type))
		return 1;
	s->count = count;
	return 0;
}

int pmpi_p2p_passed(enum pmpi_function function, const struct pmpi_staged *s, double begin, int ret)
{
	MPI_Count size = 0;
	if (function != PMPI_SEND)
		pmpi_requests_progress();
	if (!pmpi.counts)
		return ret;
	if (s->type != MPI_DATATYPE_NULL)
		PMPI_Type_size_x(s->type, &size);
	pmpi_statistics_count(function, PMPI_IS_PASSED, PMPI_HOST_MEMORY, (size_t)size * (size_t)s->count,
			      begin);
	return ret;
}

int pmpi_p2p_staged(enum pmpi_function function, size_t bytes, double begin, int ret)
{
	if (pmpi.counts)
		pmpi_statistics_count(function, PMPI_IS_STAGED, PMPI_NO_ROUTE, bytes, begin);
	return ret;
}

int pmpi_p2p_routed(enum pmpi_function function, struct pmpi_staged *s, double begin, int ret)
{
	if (pmpi.counts)
		pmpi_statistics_count(function, PMPI_IS_ROUTED, PMPI_NO_REASON, s->bytes, begin);
	pmpi_stage_forget(s); /* nothing was taken */
	return ret;
}

int pmpi_p2p_received_by_peer(double begin, int ret)
{
	pmpi_requests_progress();
	if (pmpi.counts)
		pmpi_statistics_count(PMPI_RECV, PMPI_IS_ROUTED, PMPI_NO_REASON, 0, begin);
	return ret;
}

int pmpi_p2p_received(struct pmpi_staged *s, const MPI_Status *status, int ret, MPI_Comm comm)
{
	const int error = pmpi_stage_out_received(s, status);
	pmpi_stage_end(s);
	pmpi_requests_progress();
	return ret || !error ? ret : pmpi_fail(comm);
}

struct pmpi_p2p *pmpi_p2p_make(const struct pmpi_staged *in, const struct pmpi_staged *out)
{
	const struct pmpi_staged none = { .ordinal = -1 };
	struct pmpi_p2p *p = malloc(sizeof(*p));
	if (!p)
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a request of a device buffer");
	else
		*p = (struct pmpi_p2p){ in ? *in : none, out ? *out : none };
	return p;
}

void pmpi_p2p_end(struct pmpi_p2p *p)
{
	pmpi_stage_end(&p->in);
	pmpi_stage_end(&p->out);
	free(p);
}

static int start(void *arg)
{
	return pmpi_stage_again(&((struct pmpi_p2p *)arg)->in);
}

static int deliver(void *arg, MPI_Status *status, int error)
{
	(void)error;
	return pmpi_stage_out_received(&((struct pmpi_p2p *)arg)->out, status);
}

static void release(void *arg)
{
	pmpi_p2p_end(arg);
}

static const struct pmpi_work p2p_work = { .start = start, .deliver = deliver, .release = release };

int pmpi_p2p_keep(struct pmpi_p2p *p, int ret, const MPI_Request *request, MPI_Comm comm, int is_persistent)
{
	if (ret) {
		pmpi_p2p_end(p);
		return ret;
	}
	/* Without a record MPI still uses the buffers: they stay. */
	return pmpi_request_add(*request, comm, is_persistent, &p2p_work, p) ? pmpi_fail(comm) : MPI_SUCCESS;
}

int pmpi_p2p_failed(struct pmpi_staged *in, struct pmpi_staged *out, MPI_Comm comm)
{
	if (in)
		pmpi_stage_end(in);
	if (out)
		pmpi_stage_end(out);
	return pmpi_fail(comm);
}
