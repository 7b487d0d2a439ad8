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
	    r->s.ordinal >= 0 && (!r->group || r->s.bytes < pmpi_peer.least || !r->s.layout->is_contiguous);
	const int ret = pmpi_host_take(&r->host, r->s.bytes, is_pinned);
	r->buffer = r->host.memory;
	return ret;
}

/* A message that was probed, and is a header, has a place for that alone. s ends with r. CORALE_ENOMEM, logged: then it has ended. */
static int begin_receiving(struct pmpi_receiving *r, struct pmpi_buffer *s, const struct pmpi_matched *of)
{
	*r = (struct pmpi_receiving){ .s = *s,
				      .group = of->group,
				      .comm = of->comm,
				      .buffer = s->at,
				      .slot = of->slot,
				      .state = PMPI_RECEIVED,
				      .request = MPI_REQUEST_NULL,
				      .send_request = MPI_REQUEST_NULL };
	const int is_little = of->slot >= 0 || (of->group && s->bytes < PEER_HEADER);
	if (is_little)
		r->buffer = r->header;
	else if (s->bytes && (s->ordinal >= 0 || !s->layout->is_contiguous) && take_host(r)) {
		pmpi_buffer_end(&r->s);
		return CORALE_ENOMEM;
	}
	r->as = pmpi_bytes_begin(is_little ? PEER_HEADER : s->bytes);
	if (of->group && of->slot < 0)
		of->group->users++;
	return 0;
}

struct pmpi_receiving *pmpi_receiving_make(struct pmpi_buffer *s, const struct pmpi_matched *of)
{
	struct pmpi_receiving *r = malloc(sizeof *r);
	if (r && !begin_receiving(r, s, of))
		return r;
	if (!r) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a request of a message");
		pmpi_buffer_end(s);
	}
	free(r);
	return NULL;
}

static void end(struct pmpi_receiving *r)
{
	pmpi_host_free(&r->host);
	pmpi_bytes_end(&r->as);
	pmpi_buffer_end(&r->s);
	pmpi_group_put(r->group);
}

/* MPI has it: a header may come. */
static void posted(struct pmpi_receiving *r)
{
	if (!r->group)
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
static int deliver(void *arg, MPI_Status *status, int error)
{
	struct pmpi_receiving *r = arg;
	(void)error;
	if (r->slot < 0 && !r->is_taken)
		r->error = take_message(r, status);
	r->is_taken = 1;
	if (r->slot >= 0 || r->error == MPI_ERR_TRUNCATE)
		PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)r->bytes);
	return r->error;
}

/* What the program hears: its error handler is called for what the door has found. */
static int raise_error(MPI_Comm comm, int error)
{
	if (error < 0)
		return pmpi_fail(comm);
	if (error)
		PMPI_Comm_call_errhandler(comm, error);
	return error;
}

/* The end of a blocking receive that was posted, or (request MPI_REQUEST_NULL) has ended in MPI with status and error. An MPI error code. */
static int wait_for(struct pmpi_receiving *r, MPI_Status *status, int error, double begin)
{
	int turn = 0;
	if (r->request == MPI_REQUEST_NULL && !error)
		pmpi_pull_note(r, status);
	while (!pmpi_pull_advance(r))
		pmpi_go_on(&turn);
	if (r->request != MPI_REQUEST_NULL)
		error = PMPI_Wait(&r->request, status);
	const int own = deliver(r, status, error);
	const MPI_Comm comm = r->comm;
	pmpi_p2p_count(PMPI_RECV, r->slot >= 0, r->bytes, begin);
	end(r);
	pmpi_requests_progress();
	return error ? error : raise_error(comm, own);
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

static void release(void *arg)
{
	struct pmpi_receiving *r = arg;
	end(r);
	free(r);
}

static const struct pmpi_work work = {
	.start = start, .is_ready = is_ready, .deliver = deliver, .is_repeated = 1, .release = release
};

int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error)
{
	pmpi_requests_progress();
	if (error) {
		end(r);
		free(r);
		return error;
	}
	return pmpi_request_add(r->request, r->comm, is_persistent, &work, r) ? pmpi_fail(r->comm)
									      : MPI_SUCCESS;
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

int pmpi_receiving_post(struct pmpi_receiving *r, const struct pmpi_incoming *in, int is_persistent)
{
	int error;
	r->from = in->from;
	r->tag = in->tag;
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

int pmpi_receiving_find(const struct pmpi_incoming *in, struct pmpi_buffer *s, struct pmpi_matched *of)
{
	const int is_nothing = in->message ? *in->message == MPI_MESSAGE_NO_PROC : in->from == MPI_PROC_NULL;
	if (is_nothing || !pmpi_buffer_find(s, in->buffer, in->count, in->type))
		return 0;
	*of = (struct pmpi_matched){ .comm = in->comm, .slot = -1 };
	if (in->message)
		pmpi_matched_find(*in->message, of);
	else
		of->group = pmpi_peer_watched(in->from, in->comm);
	if (of->group || s->ordinal >= 0)
		return 1;
	pmpi_buffer_end(s);
	return 0;
}

int pmpi_recv(const struct pmpi_incoming *in, MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving r;
	struct pmpi_buffer s;
	struct pmpi_matched of;
	MPI_Status own;
	int ret;
	if (!pmpi_receiving_find(in, &s, &of))
		return PMPI_NOT_OURS;
	if (begin_receiving(&r, &s, &of))
		return pmpi_fail(in->comm);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	if (in->message)
		ret = PMPI_ANY_COUNT(Mrecv)(r.buffer, r.as.count, r.as.type, in->message, status);
	else if (!r.group || pmpi.thread_level != MPI_THREAD_MULTIPLE)
		ret = PMPI_ANY_COUNT(Recv)(r.buffer, r.as.count, r.as.type, in->from, in->tag, in->comm,
					   status);
	else if ((ret = pmpi_receiving_post(&r, in, 0)))
		end(&r);
	return ret && !r.s.layout ? ret : wait_for(&r, status, ret, begin);
}

int pmpi_irecv(const struct pmpi_incoming *in, int is_persistent, MPI_Request *request)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_buffer s;
	struct pmpi_matched of;
	if (!pmpi_receiving_find(in, &s, &of))
		return PMPI_NOT_OURS;
	struct pmpi_receiving *r = pmpi_receiving_make(&s, &of);
	if (!r)
		return pmpi_fail(in->comm);
	const int error = pmpi_receiving_post(r, in, is_persistent);
	if (!error)
		*request = r->request;
	pmpi_p2p_count(PMPI_RECV, r->group != NULL, r->s.bytes, begin);
	return pmpi_receiving_keep(r, is_persistent, error);
}
