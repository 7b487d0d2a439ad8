/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "peer.h"
#include "request.h"
#include "types.h"

/* Those of requests. */
static struct pmpi_receiving *first;

/* ---- Mappings of other processes' memory. The oldest goes where there are too many. */

enum { MOST_MAPPINGS = 256 };
struct mapping {
	int owner, ordinal; /* ordinal: it is used at */
	uint64_t id;
	void *allocation;
};
static struct {
	struct mapping of[MOST_MAPPINGS];
	int n, oldest;
} mappings;

static void unmap(const struct mapping *m)
{
	int before;
	if (pmpi_enter(m->ordinal, &before))
		return;
	pmpi.device->unmap(m->allocation);
	pmpi.device->leave(before);
}

static struct mapping *find_mapping(int owner, int ordinal, uint64_t id)
{
	for (int i = 0; i < mappings.n; i++) {
		struct mapping *m = &mappings.of[i];
		if (m->owner == owner && m->ordinal == ordinal && m->id == id)
			return m;
	}
	return NULL;
}

static int map(int owner, int ordinal, const struct pmpi_exported *memory, void **allocation)
{
	struct mapping *m = find_mapping(owner, ordinal, memory->id);
	int before;
	if (m) {
		*allocation = m->allocation;
		return 0;
	}
	int ret = pmpi_enter(ordinal, &before);
	if (ret)
		return ret;
	ret = pmpi.device->map(memory, allocation);
	pmpi.device->leave(before);
	if (ret)
		return ret;
	if (mappings.n == MOST_MAPPINGS) {
		m = &mappings.of[mappings.oldest++ % MOST_MAPPINGS];
		unmap(m);
	} else {
		m = &mappings.of[mappings.n++];
	}
	*m = (struct mapping){ owner, ordinal, memory->id, *allocation };
	return 0;
}

/* ---- The pull ------------------------------------------------------------------------------------------ */

/* The sender's memory, for what runs at *ordinal, as a receive into r's buffer. 1: it can't be mapped. */
static int reach(const struct pmpi_receiving *r, int owner, const struct peer_slot *slot, int *ordinal,
		 void **memory)
{
	*ordinal = r->s.ordinal >= 0 ? r->s.ordinal : pmpi.device->in_use();
	*ordinal = *ordinal < 0 ? 0 : *ordinal;
	const int ret = map(owner, *ordinal, &slot->memory, memory);
	if (!ret)
		*memory = (char *)*memory + slot->memory.at;
	return ret;
}

/* The first `bytes` of the message are copied to the receive's buffer. */
static int copy(const struct pmpi_receiving *r, int owner, struct peer_slot *slot, size_t bytes)
{
	void *from = slot->where == PEER_IN_SLOT ? (char *)slot->data : peer_arena(owner, slot);
	int ordinal = -1, tried;
	if (slot->where == PEER_IN_MEMORY) {
		if (peer_is_gone(owner))
			return log_error(CORALE_EPEER, pmpi.rank,
					 "rank %d died before its message to this rank was read", owner);
		if (reach(r, owner, slot, &ordinal, &from))
			return log_error(CORALE_EDEVICE, pmpi.rank,
					 "the memory of a message of rank %d can't be mapped, though other "
					 "memory of it was: set CORALE_MPI_PEER=no",
					 owner);
	} else if (slot->is_exported && peer_reach_of(pmpi.rank, owner) == PEER_UNTRIED) {
		void *unused;
		const int failed = reach(r, owner, slot, &tried, &unused);
		peer_note_reach(owner, failed ? PEER_NOT_REACHED : PEER_REACHED);
	}
	return bytes ? pmpi_stage_copy(&r->s, PMPI_FROM_PACKED, from, ordinal, bytes) : 0;
}

static int pull(struct pmpi_receiving *r, int owner, int number)
{
	struct peer_slot *slot = peer_slot(owner, (uint32_t)number);
	int ret = peer_slot_pull(owner, slot);
	if (ret)
		return ret;
	r->bytes = slot->bytes < r->s.bytes ? slot->bytes : r->s.bytes;
	ret = copy(r, owner, slot, r->bytes);
	if (!ret && slot->bytes > r->s.bytes)
		ret = MPI_ERR_TRUNCATE;
	peer_slot_pulled(slot);
	pmpi_peer.pulled++;
	return ret;
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
static int read_header(const struct pmpi_receiving *r, int owner, int tag)
{
	const unsigned char *header = r->buffer;
	const int number = header[0] | header[1] << 8 | header[2] << 16;
	const struct peer_slot *slot = peer_slot(owner, (uint32_t)number);
	return slot && peer_slot_names(slot, r->group->id, tag)
		   ? number
		   : peer_slot_oldest(owner, r->group->id, tag, PEER_PROBED);
}

static int pull_if_header(struct pmpi_receiving *r, const MPI_Status *status)
{
	const int owner = pmpi_peer_owner(r->group, status);
	const int number = owner < 0 ? -1 : r->slot >= 0 ? r->slot : read_header(r, owner, status->MPI_TAG);
	if (number < 0)
		return 0;
	r->error = pull(r, owner, number);
	r->is_pulled = 1;
	return 1;
}

/* ---- A receive ----------------------------------------------------------------------------------------- */

/* Buffers of their own for messages: large ones only get memory if one comes that is no header. */
static int take_buffer(struct pmpi_receiving *r)
{
	r->pinned = r->s.ordinal >= 0 && r->s.bytes < pmpi_peer.least ? r->s.bytes : 0;
	r->is_own = !r->pinned;
	r->buffer = r->pinned ? pmpi_pinned(r->pinned) : malloc(r->s.bytes);
	if (!r->buffer)
		log_error(CORALE_ENOMEM, pmpi.rank, "no %zu bytes of host memory for a message", r->s.bytes);
	return r->buffer != NULL;
}

/* MPI is given bytes, as MPICH takes no header for a part of an element of a derived type. */
static void count_bytes(struct pmpi_receiving *r)
{
	r->count = (MPI_Count)r->s.bytes;
	r->type = MPI_BYTE;
#if MPI_VERSION < 4
	if (r->s.bytes > INT_MAX) {
		r->count = r->s.count;
		r->type = r->s.layout->packed;
	}
#endif
}

int pmpi_receiving_begin(struct pmpi_receiving *r, void *buffer, MPI_Count count, MPI_Datatype type,
			 struct pmpi_group *group, MPI_Comm comm)
{
	memset(r, 0, sizeof *r);
	r->slot = -1;
	if (!pmpi_stage_any(&r->s, buffer, count, type))
		return 0;
	r->group = group;
	r->comm = comm;
	r->request = r->send_request = MPI_REQUEST_NULL;
	r->buffer = buffer;
	count_bytes(r);
	if (r->s.bytes < PEER_HEADER) {
		r->buffer = r->header;
		r->count = PEER_HEADER;
		r->type = MPI_BYTE;
	} else if ((r->s.ordinal >= 0 || !r->s.layout->is_contiguous) && !take_buffer(r)) {
		pmpi_stage_forget(&r->s);
		return 0;
	} else if (r->buffer == buffer && r->s.layout->is_named) {
		r->count = count;
		r->type = type;
	}
	if (group)
		group->users++;
	return 1;
}

void pmpi_receiving_end(struct pmpi_receiving *r)
{
	if (r->pinned)
		pmpi_unpinned(r->buffer, r->pinned);
	if (r->is_own)
		free(r->buffer);
	pmpi_stage_forget(&r->s);
	pmpi_group_put(r->group);
}

/* The message came as it is, to r's buffer. */
static int take_message(struct pmpi_receiving *r, MPI_Status *status)
{
	MPI_Count came = 0;
	PMPI_Get_elements_x(status, MPI_BYTE, &came);
	r->bytes = (size_t)came < r->s.bytes ? (size_t)came : r->s.bytes;
	if (came > 0 && r->buffer != r->s.device) {
		const int ret = pmpi_stage_copy(&r->s, PMPI_FROM_PACKED, r->buffer, -1, r->bytes);
		if (ret)
			return ret;
	}
	return (size_t)came > r->s.bytes ? MPI_ERR_TRUNCATE : 0;
}

/* error: MPI's, which then has carried no header. */
int pmpi_receiving_done(struct pmpi_receiving *r, MPI_Status *status, int error)
{
	if (!r->is_done && !r->is_pulled && (error || !pull_if_header(r, status)))
		r->error = take_message(r, status);
	r->is_done = 1;
	if (r->is_pulled || r->error == MPI_ERR_TRUNCATE)
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

int pmpi_receiving_ended(struct pmpi_receiving *r, MPI_Status *status, int error)
{
	const int own = pmpi_receiving_done(r, status, error);
	const MPI_Comm comm = r->comm;
	pmpi_receiving_end(r);
	return error ? error : raise_error(comm, own);
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

static void take_out(struct pmpi_receiving *r)
{
	if (r->before)
		r->before->next = r->next;
	else if (first == r)
		first = r->next;
	if (r->next)
		r->next->before = r->before;
}

static int start(void *arg)
{
	struct pmpi_receiving *r = arg;
	r->is_active = 1;
	r->is_pulled = r->is_done = r->error = 0;
	return 0;
}

/* Of an exchange: what it sends is complete, too. */
static int is_ready(void *arg, MPI_Request request)
{
	struct pmpi_receiving *r = arg;
	int is_done = r->send_request == MPI_REQUEST_NULL;
	MPI_Status status;
	(void)request;
	if (is_done || (r->sending && !pmpi_peer_sent(r->sending, r->send_request)))
		return is_done;
	if (PMPI_Test(&r->send_request, &is_done, &status) || !is_done)
		return 0;
	if (r->sending)
		pmpi_peer_send_end(r->sending, &status);
	r->sending = NULL;
	return 1;
}

static int deliver(void *arg, MPI_Status *status, int error)
{
	struct pmpi_receiving *r = arg;
	r->is_active = 0;
	return pmpi_receiving_done(r, status, error);
}

static void release(void *arg)
{
	struct pmpi_receiving *r = arg;
	take_out(r);
	if (r->in.layout)
		pmpi_stage_end(&r->in);
	free(r->copy);
	pmpi_receiving_end(r);
	free(r);
}

static const struct pmpi_work work = {
	.start = start, .is_ready = is_ready, .deliver = deliver, .is_repeated = 1, .release = release
};

int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error)
{
	if (error) {
		pmpi_receiving_end(r);
		free(r);
		return error;
	}
	r->is_active = !is_persistent;
	r->before = NULL;
	r->next = first;
	if (first)
		first->before = r;
	first = r;
	return pmpi_request_add(r->request, r->comm, is_persistent, &work, r) ? pmpi_fail(r->comm)
									      : MPI_SUCCESS;
}

/* Whether MPI has completed r, which nobody has waited for. */
static int is_matched(const struct pmpi_receiving *r, MPI_Status *status)
{
	int is_complete = 0, is_cancelled = 0;
	if (!r->group || !r->is_active || r->is_pulled ||
	    PMPI_Request_get_status(r->request, &is_complete, status) || !is_complete)
		return 0;
	PMPI_Test_cancelled(status, &is_cancelled);
	return !is_cancelled;
}

void pmpi_peer_progress(void)
{
	MPI_Status status;
	for (struct pmpi_receiving *r = first; r; r = r->next)
		if (is_matched(r, &status))
			pull_if_header(r, &status);
}

void pmpi_peer_claim_matched(const struct pmpi_group *group)
{
	MPI_Status status;
	for (struct pmpi_receiving *r = first; r; r = r->next) {
		if (r->group != group || !is_matched(r, &status))
			continue;
		const int owner = pmpi_peer_owner(group, &status);
		const int number = owner < 0 ? -1 : read_header(r, owner, status.MPI_TAG);
		if (number >= 0)
			peer_slot(owner, (uint32_t)number)->claim = PEER_MATCHED;
	}
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

static int mpi_recv(const struct pmpi_receiving *r, int from, int tag, MPI_Status *status)
{
#if MPI_VERSION >= 4
	return PMPI_Recv_c(r->buffer, r->count, r->type, from, tag, r->comm, status);
#else
	return PMPI_Recv(r->buffer, (int)r->count, r->type, from, tag, r->comm, status);
#endif
}

static int mpi_irecv(struct pmpi_receiving *r, int from, int tag, int is_persistent)
{
#if MPI_VERSION >= 4
	return (is_persistent ? PMPI_Recv_init_c : PMPI_Irecv_c)(r->buffer, r->count, r->type, from, tag,
								 r->comm, &r->request);
#else
	return (is_persistent ? PMPI_Recv_init : PMPI_Irecv)(r->buffer, (int)r->count, r->type, from, tag,
							     r->comm, &r->request);
#endif
}

int pmpi_peer_Recv(void *buffer, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
		   MPI_Status *status, int *ret)
{
	struct pmpi_receiving r;
	MPI_Status own;
	if (!pmpi_receiving_begin(&r, buffer, count, type, pmpi_group_of(comm), comm))
		return 0;
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	*ret = pmpi_receiving_ended(&r, status, mpi_recv(&r, from, tag, status));
	return 1;
}

int pmpi_peer_Irecv(void *buffer, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
		    int is_persistent, MPI_Request *request, int *ret)
{
	struct pmpi_receiving *r = malloc(sizeof *r);
	if (!r || !pmpi_receiving_begin(r, buffer, count, type, pmpi_group_of(comm), comm)) {
		free(r);
		return 0;
	}
	const int error = mpi_irecv(r, from, tag, is_persistent);
	if (!error)
		*request = r->request;
	*ret = pmpi_receiving_keep(r, is_persistent, error);
	return 1;
}
