/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of which a half may be a header: a receive with its request, which is not complete before the send is. */
#include <stdlib.h>

#include "door.h"
#include "peer.h"
#include "request.h"

/* Of host memory that the receive may write to meanwhile. */
static int send_copy(struct pmpi_receiving *r, const struct pmpi_message *m)
{
	struct pmpi_staged s;
	if (!pmpi_stage_any(&s, m->buffer, m->count, m->type))
		return pmpi_fail(m->comm);
	int ret = -1;
	if ((r->copy = malloc(s.bytes + 1)))
		ret = pmpi_stage_copy(&s, PMPI_TO_PACKED, r->copy, -1, s.bytes);
	pmpi_stage_forget(&s);
	if (ret)
		return pmpi_fail(m->comm);
#if MPI_VERSION >= 4
	return PMPI_Isend_c(r->copy, (MPI_Count)s.bytes, MPI_BYTE, m->to, m->tag, m->comm, &r->send_request);
#else
	return PMPI_Isend(r->copy, (int)s.bytes, MPI_BYTE, m->to, m->tag, m->comm, &r->send_request);
#endif
}

/* A message that is no header: as MPI's own, staged if it must be. */
static int send_plain(struct pmpi_receiving *r, const struct pmpi_message *m)
{
	struct pmpi_staged *s = &r->in;
	if (m->to != MPI_PROC_NULL && pmpi_stage_find(s, m->buffer, m->count, m->type) && pmpi_stage_in(s))
		return pmpi_fail(m->comm);
	if (m->to != MPI_PROC_NULL && s->ordinal < 0 && m->is_copied)
		return send_copy(r, m);
	if (s->ordinal < 0)
		*s = (struct pmpi_staged){
			.buffer = (void *)m->buffer, .count = m->count, .type = m->type, .ordinal = -1
		};
#if MPI_VERSION >= 4
	return PMPI_Isend_c(s->buffer, s->count, s->type, m->to, m->tag, m->comm, &r->send_request);
#else
	return PMPI_Isend(s->buffer, (int)s->count, s->type, m->to, m->tag, m->comm, &r->send_request);
#endif
}

static int send(struct pmpi_receiving *r, const struct pmpi_message *m)
{
	struct pmpi_staged s;
	int ret = MPI_SUCCESS;
	const int is_device = m->to != MPI_PROC_NULL && pmpi_stage_find(&s, m->buffer, m->count, m->type);
	if (m->to != MPI_PROC_NULL && pmpi_peer_takes(&s, m->to, m->comm))
		r->sending = pmpi_peer_send(m, &r->send_request, &ret);
	if (is_device)
		pmpi_stage_forget(&s);
	return r->sending || ret ? ret : send_plain(r, m);
}

/* Of which MPI has nothing, or the receive alone: that ends at once, or never had a message. */
static int failed(struct pmpi_receiving *r, int ret)
{
	if (r->request != MPI_REQUEST_NULL)
		pmpi_receiving_cancel(r);
	pmpi_stage_end(&r->in);
	free(r->copy);
	pmpi_receiving_end(r);
	free(r);
	return ret;
}

/* With MPI_PROC_NULL, from which MPI gives out requests that have one handle. */
static int send_only(const struct pmpi_exchange *x, MPI_Request *request, MPI_Status *status, int *ret)
{
	const int is_sent = request ? pmpi_peer_Isend(&x->in, request, ret) : pmpi_peer_Send(&x->in, ret);
	if (is_sent && !*ret && !request)
		*ret = PMPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, x->out_tag, x->in.comm, status);
	return is_sent;
}

int pmpi_peer_exchange(const struct pmpi_exchange *x, MPI_Request *request, MPI_Status *status, int *ret)
{
	if (x->from == MPI_PROC_NULL)
		return send_only(x, request, status, ret);
	const MPI_Comm comm = x->in.comm;
	struct pmpi_receiving *r = malloc(sizeof *r);
	struct pmpi_group *group = pmpi_peer_watches(x->from, comm) ? pmpi_group_of(comm) : NULL;
	MPI_Request own;
	if (!r || !pmpi_receiving_begin(r, x->out, x->out_count, x->out_type, group, comm)) {
		free(r);
		return 0;
	}
	r->in.ordinal = -1;
	const int sends_first = x->in.is_copied; /* from the buffer that the receive writes to */
	*ret = sends_first ? send(r, &x->in) : pmpi_receiving_post(r, x->from, x->out_tag, 0);
	if (!*ret)
		*ret = sends_first ? pmpi_receiving_post(r, x->from, x->out_tag, 0) : send(r, &x->in);
	if (*ret) {
		*ret = failed(r, *ret);
		return 1;
	}
	own = r->request;
	*ret = pmpi_receiving_keep(r, 0, MPI_SUCCESS);
	if (request)
		*request = own;
	else if (!*ret)
		*ret = pmpi_wait_for(&own, status);
	return 1;
}
