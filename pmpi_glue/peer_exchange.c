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

static int start(struct pmpi_receiving *r, const struct pmpi_message *out)
{
	int ret =
	    out->is_copied ? send(r, out) : MPI_SUCCESS; /* from the buffer that the receive writes to */
	if (!ret)
		ret = pmpi_receiving_post(r, 0);
	return ret || out->is_copied ? ret : send(r, out);
}

/* Behind a send that has failed: no later message shall come to the receive. One that has come already is received. */
static void cancel(struct pmpi_receiving *r)
{
	MPI_Status status;
	pmpi_lock();
	PMPI_Cancel(&r->request);
	PMPI_Wait(&r->request, &status);
	if (r->state == PMPI_POSTED)
		pmpi_pull_note(r, &status);
	pmpi_unlock();
	pmpi_pull_await(r);
}

/* With MPI_PROC_NULL, from which MPI gives out requests that have one handle. */
static int send_only(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		     MPI_Status *status)
{
	const int ret = request ? pmpi_isend(out, request) : pmpi_send(out);
	return ret || request ? ret : PMPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, in->tag, in->comm, status);
}

int pmpi_exchange(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		  MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving *r;
	if (in->from == MPI_PROC_NULL)
		return send_only(out, in, request, status);
	const int is_ours = pmpi_peer_watched(out->to, out->comm) ||
			    (out->to != MPI_PROC_NULL && pmpi_is_device(out->buffer, out->count, out->type));
	int ret = pmpi_receiving_make(in, is_ours, &r);
	if (ret)
		return ret;
	ret = start(r, out);
	if (ret && r->request != MPI_REQUEST_NULL)
		cancel(r);
	MPI_Request own = r->request;
	const size_t bytes = r->s.bytes;
	const int has_headers = r->headers != NULL;
	ret = pmpi_receiving_keep(r, 0, ret);
	if (request)
		*request = own;
	else if (!ret)
		ret = pmpi_wait_for(&own, status);
	pmpi_p2p_count(PMPI_EXCHANGE, has_headers, bytes, begin);
	return ret;
}
