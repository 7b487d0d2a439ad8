/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of which a half is the door's: a receive with its request, which is not complete before the send is. */
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
		ret = pmpi_receiving_post(r, in, 0);
	return ret || out->is_copied ? ret : send(r, out);
}

/* With MPI_PROC_NULL, from which MPI gives out requests that have one handle. */
static int send_only(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		     MPI_Status *status)
{
	const int ret = request ? pmpi_isend(out, request) : pmpi_send(out);
	return ret || request ? ret : PMPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, in->tag, in->comm, status);
}

static int is_ours(const struct pmpi_message *out, const struct pmpi_incoming *in)
{
	return pmpi_peer_watched(in->from, in->comm) || pmpi_peer_watched(out->to, out->comm) ||
	       (out->to != MPI_PROC_NULL && pmpi_is_device(out->buffer, out->count, out->type)) ||
	       pmpi_is_device(in->buffer, in->count, in->type);
}

int pmpi_exchange(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		  MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_matched of = { .group = pmpi_peer_watched(in->from, in->comm),
				   .comm = in->comm,
				   .slot = -1 };
	struct pmpi_buffer s;
	if (in->from == MPI_PROC_NULL)
		return send_only(out, in, request, status);
	if (!is_ours(out, in) || !pmpi_buffer_find(&s, in->buffer, in->count, in->type))
		return PMPI_NOT_OURS;
	struct pmpi_receiving *r = pmpi_receiving_make(&s, &of);
	int ret = r ? start(r, out, in) : pmpi_fail(in->comm);
	if (!r || (ret && r->request != MPI_REQUEST_NULL))
		return ret; /* a receive without its send stays, as MPI may write to it */
	MPI_Request own = r->request;
	const size_t bytes = r->s.bytes;
	ret = pmpi_receiving_keep(r, 0, ret);
	if (request)
		*request = own;
	else if (!ret)
		ret = pmpi_wait_for(&own, status);
	pmpi_p2p_count(PMPI_EXCHANGE, of.group != NULL, bytes, begin);
	return ret;
}
