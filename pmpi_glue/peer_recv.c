/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
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

static void end(struct pmpi_receiving *r)
{
	if (r->host.memory)
		pmpi_host_free(&r->host);
	pmpi_bytes_end(&r->as);
	pmpi_buffer_end(&r->s);
	pmpi_comm_put(r->headers);
}

/* Records for later receives, linked by next. With the lock. */
static struct pmpi_receiving *unused;

static struct pmpi_receiving *take_record(void)
{
	pmpi_lock();
	struct pmpi_receiving *r = unused;
	if (r)
		unused = r->next;
	pmpi_unlock();
	return r ? r : malloc(sizeof *r);
}

static void release(void *arg)
{
	struct pmpi_receiving *r = arg;
	end(r);
	pmpi_lock();
	r->next = unused;
	unused = r;
	pmpi_unlock();
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

/* What is known of a receive before it has a record. */
struct found {
	struct pmpi_buffer s;
	struct pmpi_comm *headers; /* it is one of its users; NULL: no headers */
	MPI_Comm comm;
	int slot;
};

/* 0: it is MPI's: of host memory, and no header comes. */
static int find(struct found *f, const struct pmpi_incoming *in, int is_wanted)
{
	if ((in->message ? *in->message == MPI_MESSAGE_NO_PROC : in->from == MPI_PROC_NULL) ||
	    !pmpi_buffer_find(&f->s, in->buffer, in->count, in->type))
		return 0;
	f->comm = in->comm;
	f->slot = -1;
	f->headers = in->message ? pmpi_matched_take(*in->message, &f->comm, &f->slot)
				 : pmpi_comm_share(pmpi_peer_watched(in->from, in->comm));
	if (is_wanted || f->headers || f->s.ordinal >= 0)
		return 1;
	pmpi_buffer_end(&f->s);
	return 0;
}

static void forget(struct found *f)
{
	pmpi_buffer_end(&f->s);
	pmpi_comm_put(f->headers);
}

/* Sets what is not set later, each by itself: zeros for the whole record cost a message of host memory 10 ns. 0 or CORALE_ENOMEM, logged. */
static int begin(struct pmpi_receiving *r, const struct pmpi_incoming *in, const struct found *f)
{
	r->in = *in;
	r->s = f->s;
	r->headers = f->headers;
	r->slot = f->slot;
	r->state = PMPI_RECEIVED;
	r->request = r->send_request = MPI_REQUEST_NULL;
	r->host = (struct pmpi_host){ 0 };
	r->next = r->before = NULL;
	r->mapping = NULL;
	r->stream = NULL;
	r->sending = NULL;
	r->bytes = 0;
	r->is_taken = r->error = 0;
	r->in.comm = f->comm;
	return fill(r);
}

int pmpi_receiving_make(const struct pmpi_incoming *in, int is_wanted, struct pmpi_receiving **out)
{
	struct found f;
	if (!find(&f, in, is_wanted))
		return PMPI_NOT_OURS;
	struct pmpi_receiving *r = *out = take_record();
	if (r && !begin(r, in, &f))
		return MPI_SUCCESS;
	if (r) {
		release(r);
	} else {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a receive");
		forget(&f);
	}
	return pmpi_fail(f.comm);
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
	const int is_there = r->buffer == r->s.at;
	if (is_there && !pmpi.counts)
		return 0; /* MPI knows of its length */
	PMPI_Get_elements_x(status, MPI_BYTE, &came);
	r->bytes = (size_t)came < r->s.bytes ? (size_t)came : r->s.bytes;
	const int ret =
	    came <= 0 || is_there
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

static void follow(void *arg, const MPI_Status *status, int ret)
{
	pmpi_pull_follow(arg, status, ret);
}

static const struct pmpi_work work = { .start = start,
				       .is_ready = is_ready,
				       .follow = follow,
				       .deliver = deliver,
				       .is_repeated = 1,
				       .release = release };
static const struct pmpi_work exchange_work = {
	.is_ready = is_ready, .deliver = deliver, .is_repeated = 1, .release = release
};

int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error)
{
	const int is_exchange = r->sending || r->send_request != MPI_REQUEST_NULL;
	pmpi_requests_progress();
	if (error)
		release(r);
	else
		pmpi_request_add(&r->pending, r->request, r->in.comm, is_persistent,
				 is_exchange ? &exchange_work : &work, r);
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

/* By MPI; *status is there. An MPI error code. */
static int receive(struct pmpi_receiving *r, MPI_Status *status)
{
	const struct pmpi_incoming *in = &r->in;
	if (in->message)
		return PMPI_ANY_COUNT(Mrecv)(r->buffer, r->as.count, r->as.type, in->message, status);
	if (!r->headers || pmpi.thread_level != MPI_THREAD_MULTIPLE)
		return PMPI_ANY_COUNT(Recv)(r->buffer, r->as.count, r->as.type, in->from, in->tag, in->comm,
					    status);
	const int error = pmpi_receiving_post(r, 0);
	if (error)
		PMPI_Status_set_elements(status, MPI_BYTE, 0);
	return error;
}

/* Until the message of a header is there. ret: receive's, or what MPI has returned without. An MPI error code. */
static int pull(struct pmpi_receiving *r, MPI_Status *status, int ret)
{
	if (r->request == MPI_REQUEST_NULL && !ret)
		pmpi_pull_note(r, status);
	pmpi_pull_await(r);
	return r->request == MPI_REQUEST_NULL ? ret : PMPI_Wait(&r->request, status);
}

/* has_come: MPI has received a header already, to where the message belongs. */
static int recv_with_record(const struct pmpi_incoming *in, const struct found *f, int has_come,
			    MPI_Status *status, double start)
{
	struct pmpi_receiving r;
	int ret = MPI_SUCCESS, failed = begin(&r, in, f);
	if (!failed) {
		ret = pull(&r, status, has_come ? MPI_SUCCESS : receive(&r, status));
		failed = deliver(&r, status);
	}
	pmpi_p2p_count(PMPI_RECV, r.slot >= 0, r.bytes, start);
	end(&r);
	if (ret || !failed)
		return ret;
	if (failed < 0)
		return pmpi_fail(f->comm);
	PMPI_Comm_call_errhandler(f->comm, failed);
	return failed;
}

/* Whether MPI puts what is no header to where it belongs, and no other thread looks at it: that needs no record, whose making would be felt by messages of host memory. */
static int is_simple(const struct found *f, const struct pmpi_incoming *in)
{
	return f->headers && !in->message && f->s.ordinal < 0 && f->s.layout->is_contiguous &&
	       f->s.bytes >= PEER_HEADER && f->s.bytes <= INT_MAX && pmpi.thread_level != MPI_THREAD_MULTIPLE;
}

int pmpi_recv(const struct pmpi_incoming *in, MPI_Status *status)
{
	const double start = pmpi_statistics_begin();
	struct found f;
	MPI_Status own;
	int ret = MPI_SUCCESS;
	if (!find(&f, in, 0))
		return PMPI_NOT_OURS;
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	const int simple = is_simple(&f, in);
	if (simple)
		ret = PMPI_Recv(f.s.at, (int)f.s.bytes, MPI_BYTE, in->from, in->tag, in->comm, status);
	if (simple && (ret || pmpi_peer_owner(f.headers, status) < 0)) {
		if (pmpi.counts)
			pmpi_statistics_count(PMPI_RECV, PMPI_IS_PASSED, PMPI_HOST_MEMORY, f.s.bytes, start);
		forget(&f);
	} else {
		ret = recv_with_record(in, &f, simple, status, start);
	}
	pmpi_requests_progress();
	return ret;
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
