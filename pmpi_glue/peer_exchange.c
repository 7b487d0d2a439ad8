/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of which a half is the door's: a receive with its request, which is not complete before the send is. */
#include <stdlib.h>

#include "door.h"
#include "peer.h"
#include "request.h"
#include "statistics.h"

static int send(struct pmpi_receiving *r, const struct pmpi_message *m)
{
	int ret;
	r->sending = pmpi_send_begin(m, &r->send_request, &ret);
	return r->sending || ret ? ret : pmpi_send_plain(m, &r->send_request);
}

static int start(struct pmpi_receiving *r, const struct pmpi_message *out, const struct pmpi_incoming *in)
{
	int ret =
	    out->is_copied ? send(r, out) : MPI_SUCCESS; /* from the buffer that the receive writes to */
	if (!ret)
		ret = pmpi_receiving_post(r, in->from, in->tag, 0);
	return ret || out->is_copied ? ret : send(r, out);
}

/* MPI has nothing of it, or the receive alone; a message that has left stays on its way. */
static int failed(struct pmpi_receiving *r, int ret)
{
	if (r->request != MPI_REQUEST_NULL)
		pmpi_receiving_cancel(r);
	pmpi_receiving_end(r);
	free(r);
	return ret;
}

/* With MPI_PROC_NULL, from which MPI gives out requests that have one handle. */
static int send_only(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		     MPI_Status *status)
{
	if (request)
		return pmpi_isend(out, request);
	const int ret = pmpi_send(out);
	return ret ? ret : PMPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, in->tag, in->comm, status);
}

#define SENT (void *)out->buffer, (pmpi_count)out->count, out->type, out->to, out->tag
#define RECEIVED in->buffer, (pmpi_count)in->count, in->type, in->from, in->tag

static int plain(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		 MPI_Status *status)
{
#if PMPI_HAS_MPI4
	if (request)
		return out->is_copied
			   ? PMPI_ANY_COUNT(Isendrecv_replace)(SENT, in->from, in->tag, in->comm, request)
			   : PMPI_ANY_COUNT(Isendrecv)(SENT, RECEIVED, in->comm, request);
#else
	(void)request;
#endif
	return out->is_copied ? PMPI_ANY_COUNT(Sendrecv_replace)(SENT, in->from, in->tag, in->comm, status)
			      : PMPI_ANY_COUNT(Sendrecv)(SENT, RECEIVED, in->comm, status);
}

static int is_ours(const struct pmpi_message *out, const struct pmpi_incoming *in)
{
	return pmpi_peer_watches(in->from, in->comm) || pmpi_peer_watches(out->to, out->comm) ||
	       (out->to != MPI_PROC_NULL && pmpi_is_device(out->buffer, out->count, out->type)) ||
	       (in->from != MPI_PROC_NULL && pmpi_is_device(in->buffer, in->count, in->type));
}

int pmpi_exchange(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		  MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_buffer s;
	if (in->from == MPI_PROC_NULL && is_ours(out, in))
		return send_only(out, in, request, status);
	if (!is_ours(out, in) || !pmpi_buffer_find(&s, in->buffer, in->count, in->type))
		return pmpi_p2p_passed(PMPI_EXCHANGE, out->count, out->type, begin,
				       plain(out, in, request, status));
	struct pmpi_group *group = pmpi_peer_watches(in->from, in->comm) ? pmpi_group_of(in->comm) : NULL;
	struct pmpi_receiving *r = pmpi_receiving_make(&s, group, in->comm);
	int ret = r ? start(r, out, in) : pmpi_fail(in->comm);
	if (!r)
		return ret;
	if (ret)
		return failed(r, ret);
	MPI_Request own = r->request;
	const size_t bytes = r->s.bytes;
	ret = pmpi_receiving_keep(r, 0, MPI_SUCCESS);
	if (request)
		*request = own;
	else if (!ret)
		ret = pmpi_wait_for(&own, status);
	pmpi_p2p_count(PMPI_EXCHANGE, group != NULL, bytes, begin);
	return ret;
}
