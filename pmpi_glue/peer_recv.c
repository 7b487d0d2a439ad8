/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"
#include "door.h"
#include "peer.h"
#include "request.h"
#include "statistics.h"
#include "types.h"

/* With the lock. */
static struct pmpi_receiving *first;
static _Atomic int pulling; /* of these; finish looks without the lock */

/* Copies that go on side by side. Messages behind them wait; then their sender may buffer them. */
enum { MOST_PULLING = 16 };

/* ---- Mappings of other processes' memory. The oldest that nobody reads goes where there are too many. */

enum { MOST_MAPPINGS = 256 };
struct pmpi_mapping {
	int owner, ordinal; /* ordinal: it is used at */
	uint64_t id; /* 0: unused */
	void *allocation;
	int readers;
};
static struct {
	struct pmpi_mapping of[MOST_MAPPINGS];
	int n, oldest;
} mappings;

static void unmap(const struct pmpi_mapping *m)
{
	int before;
	if (pmpi_enter(m->ordinal, &before))
		return;
	pmpi.device->unmap(m->allocation);
	pmpi_leave(before);
}

static struct pmpi_mapping *find_mapping(int owner, int ordinal, uint64_t id)
{
	for (int i = 0; i < mappings.n; i++) {
		struct pmpi_mapping *m = &mappings.of[i];
		if (m->id == id && m->owner == owner && m->ordinal == ordinal)
			return m;
	}
	return NULL;
}

/*
 * Both ends of mappings look after freed memory now and then, in calls and by no thread: the driver ends a mapping when the process's kernels have ended, and launches none
 * meanwhile. So none of Corale's may run, which wait for other processes' kernels.
 */
static void unmap_freed(void)
{
	enum { SWEEP_NS = 50000000 };
	static _Atomic int64_t swept_ns;
	const int64_t now = wait_now_ns();
	if (now - swept_ns < SWEEP_NS || pmpi.routed)
		return;
	swept_ns = now;
	peer_note_freed(pmpi.device->allocation);
	pmpi_lock();
	for (int i = 0; i < mappings.n; i++) {
		struct pmpi_mapping *m = &mappings.of[i];
		if (!m->id || m->readers || peer_has_allocation(m->owner, m->id))
			continue;
		unmap(m);
		*m = (struct pmpi_mapping){ .id = 0 };
	}
	pmpi_unlock();
}

static struct pmpi_mapping *make_room(void)
{
	struct pmpi_mapping *m = find_mapping(0, 0, 0);
	if (m)
		return m;
	if (mappings.n < MOST_MAPPINGS)
		return &mappings.of[mappings.n++];
	do
		m = &mappings.of[mappings.oldest++ % MOST_MAPPINGS];
	while (m->readers);
	unmap(m);
	return m;
}

/* NULL: it can't be mapped. */
static struct pmpi_mapping *map(int owner, int ordinal, const struct pmpi_exported *memory)
{
	struct pmpi_mapping *m = find_mapping(owner, ordinal, memory->id);
	void *allocation;
	int before;
	if (m || pmpi_enter(ordinal, &before))
		return m;
	const int failed = pmpi.device->map(memory, &allocation);
	pmpi_leave(before);
	if (failed)
		return NULL;
	m = make_room();
	*m = (struct pmpi_mapping){ owner, ordinal, memory->id, allocation, 0 };
	return m;
}

/* ---- The pull ------------------------------------------------------------------------------------------ */

/* The sender's memory, for what runs at *ordinal, as a receive into r's buffer. NULL: it can't be mapped. */
static struct pmpi_mapping *reach(const struct pmpi_receiving *r, const struct peer_slot *slot, int *ordinal)
{
	*ordinal = r->s.ordinal >= 0 ? r->s.ordinal : pmpi.device->in_use();
	*ordinal = *ordinal < 0 ? 0 : *ordinal;
	return map(r->owner, *ordinal, &slot->memory);
}

static int find_memory(struct pmpi_receiving *r, const struct peer_slot *slot, int *ordinal, void **memory)
{
	if (peer_is_gone(r->owner))
		return log_error(CORALE_EPEER, pmpi.rank,
				 "rank %d died before its message to this rank was read", r->owner);
	r->mapping = reach(r, slot, ordinal);
	if (!r->mapping)
		return log_error(CORALE_EDEVICE, pmpi.rank,
				 "the memory of a message of rank %d can't be mapped, though other "
				 "memory of it was: set CORALE_MPI_PEER=no",
				 r->owner);
	r->mapping->readers++;
	*memory = (char *)r->mapping->allocation + slot->memory.at;
	return 0;
}

/* Starts the copy of r->bytes to the receive's buffer. */
static int copy(struct pmpi_receiving *r, struct peer_slot *slot)
{
	void *from = slot->where == PEER_IN_SLOT ? (char *)slot->data : peer_arena(r->owner, slot);
	int ordinal = -1, tried;
	if (slot->where != PEER_IN_MEMORY && slot->is_exported &&
	    peer_reach_of(pmpi.rank, r->owner) == PEER_UNTRIED)
		peer_note_reach(r->owner, reach(r, slot, &tried) != NULL);
	const int ret = slot->where == PEER_IN_MEMORY ? find_memory(r, slot, &ordinal, &from) : 0;
	return ret || !r->bytes
		   ? ret
		   : pmpi_stage_start(&r->s, PMPI_FROM_PACKED, from, ordinal, r->bytes, &r->stream);
}

static void take_out(struct pmpi_receiving *r)
{
	if (r->before)
		r->before->next = r->next;
	else if (first == r)
		first = r->next;
	if (r->next)
		r->next->before = r->before;
	r->before = r->next = NULL;
}

static void put_in(struct pmpi_receiving *r)
{
	r->before = NULL;
	r->next = first;
	if (first)
		first->before = r;
	first = r;
}

static void set_received(struct pmpi_receiving *r)
{
	r->state = PMPI_RECEIVED;
	take_out(r);
}

static void begin_pull(struct pmpi_receiving *r)
{
	struct peer_slot *slot = peer_slot(r->owner, (uint32_t)r->slot);
	if (pulling >= MOST_PULLING)
		return;
	const int failed = peer_slot_pull(r->owner, slot);
	if (failed < 0) {
		r->error = failed;
		set_received(r);
	}
	if (failed)
		return;
	r->bytes = slot->bytes < r->s.bytes ? slot->bytes : r->s.bytes;
	r->error = copy(r, slot);
	r->state = PMPI_PULLING;
	pulling++;
}

static void end_pull(struct pmpi_receiving *r)
{
	struct peer_slot *slot = peer_slot(r->owner, (uint32_t)r->slot);
	const int copied = r->stream ? pmpi_copied(r->stream) : 1;
	if (!copied)
		return;
	r->stream = NULL;
	if (r->mapping)
		r->mapping->readers--;
	r->mapping = NULL;
	if (!r->error)
		r->error = copied < 0 ? copied : slot->bytes > r->s.bytes ? MPI_ERR_TRUNCATE : 0;
	peer_slot_pulled(slot);
	pmpi_peer.pulled++;
	pulling--;
	set_received(r);
}

int pmpi_peer_owner(const struct pmpi_group *group, const MPI_Status *status)
{
	MPI_Count bytes = 0;
	const int owner = pmpi_group_rank(group, status->MPI_SOURCE);
	if (owner < 0)
		return -1;
	PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
	return bytes == PEER_HEADER ? owner : -1;
}

/*
 * The slot that a receive's header names. A program whose receives share a buffer, which MPI forbids and some do, has lost the header: then the
 * oldest message is as good as any.
 */
static int read_header(const struct pmpi_receiving *r, int tag)
{
	const unsigned char *header = r->buffer;
	const int number = header[0] | header[1] << 8 | header[2] << 16;
	const struct peer_slot *slot = peer_slot(r->owner, (uint32_t)number);
	return slot && peer_slot_names(slot, r->group->id, tag)
		   ? number
		   : peer_slot_oldest(r->owner, r->group->id, tag);
}

/* What MPI's completion has brought. */
static void note(struct pmpi_receiving *r, const MPI_Status *status)
{
	int is_cancelled = 0;
	PMPI_Test_cancelled(status, &is_cancelled);
	r->owner = is_cancelled || !r->group ? -1 : pmpi_peer_owner(r->group, status);
	if (r->owner < 0)
		r->slot = -1;
	else if (r->slot < 0)
		r->slot = read_header(r, status->MPI_TAG);
	r->state = PMPI_MATCHED;
	if (r->slot < 0)
		set_received(r);
	else
		peer_slot(r->owner, (uint32_t)r->slot)->is_claimed = 1;
}

static void look(struct pmpi_receiving *r)
{
	int is_complete = 0;
	MPI_Status status;
	if (PMPI_Request_get_status(r->request, &is_complete, &status))
		set_received(r); /* MPI's error is of the call that ends the request */
	else if (is_complete)
		note(r, &status);
}

/* Whether r is PMPI_RECEIVED, after what can be done for it now. With the lock. */
static int advance(struct pmpi_receiving *r)
{
	if (r->state == PMPI_POSTED)
		look(r);
	if (r->state == PMPI_MATCHED)
		begin_pull(r);
	if (r->state == PMPI_PULLING)
		end_pull(r);
	return r->state == PMPI_RECEIVED;
}

static int advance_locked(struct pmpi_receiving *r)
{
	pmpi_lock();
	const int is_received = advance(r);
	pmpi_unlock();
	return is_received;
}

void pmpi_peer_progress(void)
{
	pmpi_lock();
	for (struct pmpi_receiving *r = first, *next; r; r = next) {
		next = r->next;
		advance(r);
	}
	pmpi_unlock();
}

int pmpi_peer_finish(void)
{
	const int any = pulling > 0;
	for (int turn = 0; pulling; pmpi_go_on(&turn))
		;
	if (pmpi_peer.on && (mappings.n || pmpi_peer.by_header))
		unmap_freed();
	return any;
}

/* Of those that MPI has matched it may not have completed all, if other threads are in MPI. */
int pmpi_peer_claim_matched(const struct pmpi_group *group, const MPI_Status *status)
{
	int is_known = 1;
	for (struct pmpi_receiving *r = first, *next; r; r = next) {
		next = r->next;
		if (r->group != group || r->state != PMPI_POSTED)
			continue;
		look(r);
		is_known &= r->state != PMPI_POSTED || r->slot >= 0 ||
			    (r->from != MPI_ANY_SOURCE && r->from != status->MPI_SOURCE) ||
			    (r->tag != MPI_ANY_TAG && r->tag != status->MPI_TAG);
	}
	return is_known || pmpi.thread_level != MPI_THREAD_MULTIPLE;
}

/* ---- A receive ----------------------------------------------------------------------------------------- */

/* Buffers of their own for messages: large ones only get memory if one comes that is no header. */
static int take_buffer(struct pmpi_receiving *r)
{
	r->pinned = r->s.ordinal >= 0 && (!r->group || r->s.bytes < pmpi_peer.least) ? r->s.bytes : 0;
	r->is_own = !r->pinned;
	r->buffer = r->pinned ? pmpi_pinned(r->pinned) : malloc(r->s.bytes);
	if (!r->buffer)
		log_error(CORALE_ENOMEM, pmpi.rank, "no %zu bytes of host memory for a message", r->s.bytes);
	return r->buffer != NULL;
}

/* MPI is given bytes, as MPICH takes no header for a part of an element of a derived type. */
static void count_bytes(struct pmpi_receiving *r)
{
	r->count = (pmpi_count)r->s.bytes;
	r->type = MPI_BYTE;
	if (sizeof r->count < sizeof r->s.bytes && r->s.bytes > INT_MAX) {
		r->count = (pmpi_count)r->s.count;
		r->type = r->s.layout->packed;
	}
}

int pmpi_receiving_begin(struct pmpi_receiving *r, struct pmpi_staged *s, struct pmpi_group *group,
			 MPI_Comm comm)
{
	*r = (struct pmpi_receiving){ .s = *s,
				      .group = group,
				      .comm = comm,
				      .buffer = s->buffer,
				      .count = (pmpi_count)s->count,
				      .type = s->type,
				      .slot = -1,
				      .state = PMPI_RECEIVED,
				      .request = MPI_REQUEST_NULL,
				      .send_request = MPI_REQUEST_NULL };
	const int is_little = group && s->bytes < PEER_HEADER;
	const int is_elsewhere =
	    s->bytes && (s->ordinal >= 0 || (group && !s->layout->is_contiguous)) && !is_little;
	if (is_little || is_elsewhere || (group && !s->layout->is_named))
		count_bytes(r);
	if (is_little) {
		r->buffer = r->header;
		r->count = PEER_HEADER;
	}
	if (is_elsewhere && !take_buffer(r)) {
		pmpi_stage_forget(&r->s);
		return CORALE_ENOMEM;
	}
	if (group)
		group->users++;
	return 0;
}

struct pmpi_receiving *pmpi_receiving_make(struct pmpi_staged *s, struct pmpi_group *group, MPI_Comm comm)
{
	struct pmpi_receiving *r = malloc(sizeof *r);
	if (r && !pmpi_receiving_begin(r, s, group, comm))
		return r;
	if (!r) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a request of a message");
		pmpi_stage_forget(s);
	}
	free(r);
	return NULL;
}

void pmpi_receiving_free_buffer(struct pmpi_receiving *r)
{
	if (r->pinned)
		pmpi_unpinned(r->buffer, r->pinned);
	if (r->is_own)
		free(r->buffer);
	r->pinned = 0;
	r->is_own = 0;
}

void pmpi_receiving_end(struct pmpi_receiving *r)
{
	pmpi_receiving_free_buffer(r);
	pmpi_stage_forget(&r->s);
	pmpi_group_put(r->group);
}

void pmpi_receiving_posted(struct pmpi_receiving *r)
{
	if (!r->group)
		return;
	pmpi_lock();
	r->state = PMPI_POSTED;
	put_in(r);
	pmpi_unlock();
}

void pmpi_receiving_cancel(struct pmpi_receiving *r)
{
	pmpi_lock();
	take_out(r);
	pmpi_unlock();
	PMPI_Cancel(&r->request);
	PMPI_Wait(&r->request, MPI_STATUS_IGNORE);
}

/* The message came as it is, to r's buffer. */
static int take_message(struct pmpi_receiving *r, MPI_Status *status)
{
	MPI_Count came = 0;
	PMPI_Get_elements_x(status, MPI_BYTE, &came);
	r->bytes = (size_t)came < r->s.bytes ? (size_t)came : r->s.bytes;
	if (came > 0 && r->buffer != r->s.device) {
		const int ret = pmpi_stage_unpack(&r->s, r->buffer, r->bytes, r->pinned != 0);
		if (ret)
			return ret;
	}
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

int pmpi_receiving_wait(struct pmpi_receiving *r, MPI_Status *status, int error, double begin)
{
	int turn = 0;
	if (r->request == MPI_REQUEST_NULL && !error)
		note(r, status);
	while (!advance_locked(r))
		pmpi_go_on(&turn);
	if (r->request != MPI_REQUEST_NULL)
		error = PMPI_Wait(&r->request, status);
	const int own = deliver(r, status, error);
	const MPI_Comm comm = r->comm;
	pmpi_p2p_count(PMPI_RECV, r->slot >= 0, r->bytes, begin);
	pmpi_receiving_end(r);
	pmpi_requests_progress();
	return error ? error : raise_error(comm, own);
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

static int start(void *arg)
{
	struct pmpi_receiving *r = arg;
	r->is_taken = r->error = 0;
	r->slot = -1;
	pmpi_receiving_posted(r);
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
	const int is_received = advance_locked(arg);
	return is_sent(arg) && is_received;
}

static void release(void *arg)
{
	struct pmpi_receiving *r = arg;
	pmpi_receiving_end(r);
	free(r);
}

static const struct pmpi_work work = {
	.start = start, .is_ready = is_ready, .deliver = deliver, .is_repeated = 1, .release = release
};

int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error)
{
	pmpi_requests_progress();
	if (error) {
		pmpi_receiving_end(r);
		free(r);
		return error;
	}
	return pmpi_request_add(r->request, r->comm, is_persistent, &work, r) ? pmpi_fail(r->comm)
									      : MPI_SUCCESS;
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

int pmpi_receiving_post(struct pmpi_receiving *r, int from, int tag, int is_persistent)
{
	r->from = from;
	r->tag = tag;
	pmpi_lock();
	const int error = (is_persistent ? PMPI_ANY_COUNT(Recv_init) : PMPI_ANY_COUNT(Irecv))(
	    r->buffer, r->count, r->type, from, tag, r->comm, &r->request);
	if (!error && !is_persistent)
		start(r);
	pmpi_unlock();
	return error;
}

/* Whether a receive is the door's, with its memory's layout; else it is MPI's. */
static int take(const struct pmpi_incoming *in, struct pmpi_staged *s, struct pmpi_group **group)
{
	*group = pmpi_peer_watches(in->from, in->comm) ? pmpi_group_of(in->comm) : NULL;
	if (in->from == MPI_PROC_NULL || !pmpi_stage_any(s, in->buffer, in->count, in->type))
		return 0;
	if (*group || s->ordinal >= 0)
		return 1;
	pmpi_stage_forget(s);
	return 0;
}

int pmpi_recv_passed(const struct pmpi_incoming *in, double begin, int ret)
{
	return pmpi_p2p_passed(PMPI_RECV, in->count, in->type, begin, ret);
}

#define ARGUMENTS(in) (in)->buffer, (pmpi_count)(in)->count, (in)->type, (in)->from, (in)->tag, (in)->comm

int pmpi_recv(const struct pmpi_incoming *in, MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving r;
	struct pmpi_staged s;
	struct pmpi_group *group;
	MPI_Status own;
	int ret;
	if (!take(in, &s, &group))
		return pmpi_recv_passed(in, begin, PMPI_ANY_COUNT(Recv)(ARGUMENTS(in), status));
	if (pmpi_receiving_begin(&r, &s, group, in->comm))
		return pmpi_fail(in->comm);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	if (!group || pmpi.thread_level != MPI_THREAD_MULTIPLE)
		ret = PMPI_ANY_COUNT(Recv)(r.buffer, r.count, r.type, in->from, in->tag, in->comm, status);
	else if ((ret = pmpi_receiving_post(&r, in->from, in->tag, 0)))
		pmpi_receiving_end(&r);
	return ret && !r.s.layout ? ret : pmpi_receiving_wait(&r, status, ret, begin);
}

int pmpi_irecv(const struct pmpi_incoming *in, int is_persistent, MPI_Request *request)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_staged s;
	struct pmpi_group *group;
	if (!take(in, &s, &group))
		return pmpi_recv_passed(in, begin,
					(is_persistent ? PMPI_ANY_COUNT(Recv_init)
						       : PMPI_ANY_COUNT(Irecv))(ARGUMENTS(in), request));
	struct pmpi_receiving *r = pmpi_receiving_make(&s, group, in->comm);
	if (!r)
		return pmpi_fail(in->comm);
	const int error = pmpi_receiving_post(r, in->from, in->tag, is_persistent);
	if (!error)
		*request = r->request;
	pmpi_p2p_count(PMPI_RECV, group != NULL, r->s.bytes, begin);
	return pmpi_receiving_keep(r, is_persistent, error);
}
