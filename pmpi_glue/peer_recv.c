/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"
#include "door.h"
#include "peer.h"
#include "request.h"
#include "statistics.h"
#include "types.h"

/* ---- A receive ----------------------------------------------------------------------------------------- */

/* Messages get memory of their own: pinned, if it is likely that one comes that is no header. */
static int take_host(struct pmpi_receiving *r)
{
	const int is_pinned =
	    r->s.ordinal >= 0 && (!r->headers || r->s.bytes < pmpi_peer.least || !r->s.layout->is_contiguous);
	const int ret = pmpi_host_take(&r->host, r->s.bytes, is_pinned);
	r->buffer = r->host.memory;
	return ret;
}

static void end(void *arg)
{
	struct pmpi_receiving *r = arg;
	pmpi_host_free(&r->host);
	pmpi_bytes_end(&r->as);
	pmpi_buffer_end(&r->s);
	pmpi_comm_put(r->headers);
	free(r);
}

/* A message that was probed, and is a header, has a place for that alone. */
static int fill(struct pmpi_receiving *r)
{
	const int is_little = r->slot >= 0 || (r->headers && r->s.bytes < PEER_HEADER);
	r->as = pmpi_bytes_begin(is_little ? PEER_HEADER : r->s.bytes);
	r->buffer = is_little ? (char *)r->header : r->s.at;
	return !is_little && r->s.bytes && (r->s.ordinal >= 0 || !r->s.layout->is_contiguous) ? take_host(r)
											      : 0;
}

int pmpi_receiving_make(const struct pmpi_incoming *in, int is_ours, struct pmpi_receiving **out)
{
	const int is_nothing = in->message ? *in->message == MPI_MESSAGE_NO_PROC : in->from == MPI_PROC_NULL;
	struct pmpi_receiving made = { .in = *in,
				       .slot = -1,
				       .state = PMPI_RECEIVED,
				       .request = MPI_REQUEST_NULL,
				       .send_request = MPI_REQUEST_NULL };
	if (is_nothing || !pmpi_buffer_find(&made.s, in->buffer, in->count, in->type))
		return PMPI_NOT_OURS;
	if (in->message)
		pmpi_matched_take(*in->message, &made);
	else if ((made.headers = pmpi_peer_watched(in->from, in->comm)))
		made.headers->users++;
	if (!made.headers && made.s.ordinal < 0 && !is_ours) {
		pmpi_buffer_end(&made.s);
		return PMPI_NOT_OURS;
	}
	struct pmpi_receiving *r = *out = malloc(sizeof *r);
	if (!r) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a receive");
		pmpi_buffer_end(&made.s);
		pmpi_comm_put(made.headers);
		return pmpi_fail(made.in.comm);
	}
	*r = made;
	if (!fill(r))
		return MPI_SUCCESS;
	end(r);
	return pmpi_fail(made.in.comm);
}

/* MPI has it: a header may come. */
static void posted(struct pmpi_receiving *r)
{
	if (!r->headers)
		return;
	pmpi_lock();
	r->state = PMPI_POSTED;
	pmpi_pull_add(r);
	pmpi_unlock();
}

/* The message came as it is, to r's buffer. */
static int take_message(struct pmpi_receiving *r, MPI_Status *status)
{
	MPI_Count came = 0;
	PMPI_Get_elements_x(status, MPI_BYTE, &came);
	r->bytes = (size_t)came < r->s.bytes ? (size_t)came : r->s.bytes;
	const int ret =
	    came <= 0 || r->buffer == r->s.at
		? 0
		: pmpi_buffer_copy(&r->s, PMPI_FROM_PACKED, r->buffer,
				   r->host.pinned ? PMPI_IN_PINNED : PMPI_IN_HOST, r->bytes, NULL);
	if (ret)
		return ret;
	return (size_t)came > r->s.bytes ? MPI_ERR_TRUNCATE : 0;
}

/* Behind MPI's completion: the message is in the program's buffer, and status has its length. 0, CORALE_E* (logged) or MPI_ERR_TRUNCATE. */
static int deliver(void *arg, MPI_Status *status)
{
	struct pmpi_receiving *r = arg;
	if (r->slot < 0 && !r->is_taken)
		r->error = take_message(r, status);
	r->is_taken = 1;
	if (r->slot >= 0 || r->error == MPI_ERR_TRUNCATE)
		PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)r->bytes);
	return r->error;
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

static int start(void *arg)
{
	struct pmpi_receiving *r = arg;
	r->is_taken = r->error = 0;
	r->slot = -1;
	posted(r);
	return 0;
}

/* Of an exchange: what it sends is complete. */
static int is_sent(struct pmpi_receiving *r)
{
	int is_done = r->send_request == MPI_REQUEST_NULL;
	MPI_Status status;
	if (is_done || (r->sending && !pmpi_send_is_ready(r->sending, r->send_request)))
		return is_done;
	if (PMPI_Test(&r->send_request, &is_done, &status) || !is_done)
		return 0;
	if (r->sending)
		pmpi_send_end(r->sending, &status);
	r->sending = NULL;
	return 1;
}

static int is_ready(void *arg, MPI_Request request)
{
	(void)request;
	const int is_received = pmpi_pull_advance(arg);
	return is_sent(arg) && is_received;
}

static const struct pmpi_work work = {
	.start = start, .is_ready = is_ready, .deliver = deliver, .is_repeated = 1, .release = end
};

int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error)
{
	pmpi_requests_progress();
	if (error)
		end(r);
	else if (pmpi_request_add(r->request, r->in.comm, is_persistent, &work, r))
		error = pmpi_fail(r->in.comm);
	return error;
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

int pmpi_receiving_post(struct pmpi_receiving *r, int is_persistent)
{
	const struct pmpi_incoming *in = &r->in;
	int error;
	pmpi_lock();
	if (in->message)
		error = PMPI_ANY_COUNT(Imrecv)(r->buffer, r->as.count, r->as.type, in->message, &r->request);
	else
		error = (is_persistent ? PMPI_ANY_COUNT(Recv_init) : PMPI_ANY_COUNT(Irecv))(
		    r->buffer, r->as.count, r->as.type, in->from, in->tag, in->comm, &r->request);
	if (!error && !is_persistent)
		posted(r);
	pmpi_unlock();
	return error;
}

/* Until it is received. *status is there, and nothing of it is delivered. An MPI error code. */
static int receive(struct pmpi_receiving *r, MPI_Status *status)
{
	const struct pmpi_incoming *in = &r->in;
	int error, turn = 0;
	if (in->message)
		error = PMPI_ANY_COUNT(Mrecv)(r->buffer, r->as.count, r->as.type, in->message, status);
	else if (!r->headers || pmpi.thread_level != MPI_THREAD_MULTIPLE)
		error = PMPI_ANY_COUNT(Recv)(r->buffer, r->as.count, r->as.type, in->from, in->tag, in->comm,
					     status);
	else if ((error = pmpi_receiving_post(r, 0)))
		PMPI_Status_set_elements(status, MPI_BYTE, 0);
	if (r->request == MPI_REQUEST_NULL && !error)
		pmpi_pull_note(r, status);
	while (!pmpi_pull_advance(r))
		pmpi_go_on(&turn);
	return r->request == MPI_REQUEST_NULL ? error : PMPI_Wait(&r->request, status);
}

int pmpi_recv(const struct pmpi_incoming *in, MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving *r;
	MPI_Status own;
	int ret = pmpi_receiving_make(in, 0, &r);
	if (ret)
		return ret;
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	ret = receive(r, status);
	const MPI_Comm comm = r->in.comm;
	const int failed = deliver(r, status);
	pmpi_p2p_count(PMPI_RECV, r->slot >= 0, r->bytes, begin);
	end(r);
	pmpi_requests_progress();
	if (ret || !failed)
		return ret;
	if (failed < 0)
		return pmpi_fail(comm);
	PMPI_Comm_call_errhandler(comm, failed);
	return failed;
}

int pmpi_irecv(const struct pmpi_incoming *in, int is_persistent, MPI_Request *request)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving *r;
	int ret = pmpi_receiving_make(in, 0, &r);
	if (ret)
		return ret;
	ret = pmpi_receiving_post(r, is_persistent);
	if (!ret)
		*request = r->request;
	pmpi_p2p_count(PMPI_RECV, r->headers != NULL, r->s.bytes, begin);
	return pmpi_receiving_keep(r, is_persistent, ret);
}
