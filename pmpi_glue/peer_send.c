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

/*
 * What must be copied to host memory, of LEAST_PINNED bytes or more, goes to parts of the arena that devices reach, else by pinned memory and MPI. But Open MPI 4.1 writes behind a
 * receive that is shorter than a message of a rank to itself, which therefore never goes so.
 */
enum { LATE_NS = 1000000, LEAST_PINNED = 16 << 10 };

struct pmpi_sending {
	struct pmpi_message m;
	struct pmpi_buffer s;
	int is_header; /* else it is staged, or (ordinal -1) copied */
	int is_persistent;
	struct pmpi_host host; /* what MPI has then */
	struct pmpi_bytes as;
	uint64_t comm; /* id */
	struct pmpi_exported memory; /* id 0: no other process can read it */
	int to; /* in MPI_COMM_WORLD */
	int slot; /* -1: none */
	int64_t matched_ns; /* when this was seen; 0: not yet */
	unsigned char header[PEER_HEADER];
	/* Of a send that does not wait for its match: MPI's of the header, where the program has one of the door's. */
	MPI_Request inner;
	int has_own_request;
	struct pmpi_pending pending;
};

static struct peer_slot *slot_of(const struct pmpi_sending *w)
{
	return peer_slot(pmpi.rank, (uint32_t)w->slot);
}

/* It may end before its receive is there. */
static int needs_no_match(const struct pmpi_sending *w)
{
	return w->m.mode == PMPI_STANDARD && w->s.bytes <= pmpi_peer.eager;
}

/* Whether the receiver may read the program's buffer itself. */
static int is_read_in_place(const struct pmpi_buffer *s, const struct pmpi_message *m)
{
	return s->layout->is_contiguous && m->mode != PMPI_BUFFERED && !m->is_copied;
}

static const void *first_byte(const struct pmpi_buffer *s)
{
	return (void *)((uintptr_t)s->at + (s->layout->is_contiguous ? 0 : (uintptr_t)s->layout->runs[0].at));
}

/* ---- The slot ------------------------------------------------------------------------------------------ */

static int copy_to_arena(const struct pmpi_sending *w, struct peer_slot *slot)
{
	const int is_pinned = w->s.bytes >= LEAST_PINNED && peer_slot_is_pinned(pmpi.rank, slot),
		  ret = is_pinned ? 0 : peer_slot_fill(slot);
	slot->where = PEER_IN_ARENA;
	pmpi_peer.buffered++;
	return ret ? ret
		   : pmpi_buffer_copy(&w->s, PMPI_TO_PACKED, peer_arena(pmpi.rank, slot),
				      is_pinned ? PMPI_IN_PINNED : PMPI_IN_HOST, w->s.bytes, NULL);
}

/* Whether the pool has memory of the buffer's device, and the receiver has come so far with mapping it. */
static int has_pool(const struct pmpi_buffer *s, int to, enum peer_reach reach)
{
	return s->ordinal >= 0 && s->ordinal < PMPI_DEVICES && peer_reach_of(to, pmpi.rank) == reach;
}

/* 1: it was not. The slot's number is w's. */
static int copy_to_pool(const struct pmpi_sending *w, int number, struct peer_slot *slot)
{
	if (!has_pool(&w->s, w->to, PEER_REACHED))
		return 1;
	struct peer_part *part = peer_part_take(w->s.ordinal, w->s.bytes);
	if (!part)
		return 1;
	if (pmpi_buffer_copy(&w->s, PMPI_TO_PACKED, part->memory, w->s.ordinal, w->s.bytes, NULL)) {
		peer_part_give(part);
		return 1;
	}
	peer_note_allocation(part->exported.id, part->memory);
	peer_slot_keep(number, part);
	slot->memory = part->exported;
	slot->where = PEER_IN_POOL;
	pmpi_peer.buffered++;
	pmpi_peer.pooled++;
	return 0;
}

static int copy_before(const struct pmpi_sending *w, int number, struct peer_slot *slot)
{
	return copy_to_pool(w, number, slot) ? copy_to_arena(w, slot) : 0;
}

/* Memory of the pool that the receiver may try to map, where the program's has no handle: else all messages of it went through host memory. */
static void offer_part(const struct pmpi_sending *w, int number, struct peer_slot *slot)
{
	const int is_untried = w->to != pmpi.rank && has_pool(&w->s, w->to, PEER_UNTRIED);
	struct peer_part *part = is_untried ? peer_part_take(w->s.ordinal, 1) : NULL;
	if (!part)
		return;
	peer_slot_keep(number, part);
	peer_note_allocation(part->exported.id, part->memory);
	slot->memory = part->exported;
	slot->is_exported = 1;
}

/* Whether the program may have its buffer again before the message is matched, or no other process can read it, as far as this rank knows. */
static int is_copied_first(const struct pmpi_sending *w, struct peer_slot *slot)
{
	slot->memory = w->memory;
	slot->is_exported = w->memory.id != 0;
	if (slot->is_exported)
		peer_note_allocation(w->memory.id, first_byte(&w->s));
	return !is_read_in_place(&w->s, &w->m) || (w->is_persistent && needs_no_match(w)) ||
	       !slot->is_exported || peer_reach_of(w->to, pmpi.rank) != PEER_REACHED;
}

/* 1: there is no room. CORALE_E*, logged. */
static int fill(struct pmpi_sending *w)
{
	const int number = peer_slot_take(w->s.bytes);
	if (number < 0)
		return 1;
	struct peer_slot *slot = peer_slot(pmpi.rank, (uint32_t)number);
	slot->to = w->to;
	slot->tag = w->m.tag;
	slot->comm = w->comm;
	slot->is_claimed = 0;
	slot->where = PEER_IN_MEMORY;
	pmpi_peer.by_header++;
	const int ret = is_copied_first(w, slot) ? copy_before(w, number, slot) : 0;
	if (!slot->is_exported)
		offer_part(w, number, slot);
	if (ret) {
		peer_slot_drop(number);
		return ret;
	}
	w->slot = number;
	w->matched_ns = 0;
	for (int i = 0; i < PEER_HEADER; i++)
		w->header[i] = (unsigned char)(number >> 8 * i);
	return 0;
}

/* Before the header, in one lock with it. */
static void post(struct pmpi_sending *w)
{
	static uint64_t sequence;
	struct peer_slot *slot = slot_of(w);
	slot->sequence = ++sequence;
	atomic_store(&slot->state, slot->where == PEER_IN_MEMORY ? PEER_POSTED : PEER_BUFFERED);
}

/* About what a copy to shared memory takes. */
static int64_t copy_ns(const struct pmpi_sending *w)
{
	enum { BYTES_PER_NS = 4 };
	return (int64_t)(w->s.bytes / BYTES_PER_NS);
}

/* The receiver is late: from here on the send needs it no more. Other messages to this rank are read after that. */
static void buffer_now(struct pmpi_sending *w, struct peer_slot *slot)
{
	uint32_t state = PEER_POSTED;
	if (!atomic_compare_exchange_strong(&slot->state, &state, PEER_BUFFERING))
		return;
	peer_note_reading(copy_ns(w));
	const int failed = copy_before(w, w->slot, slot);
	if (failed) {
		slot->where = PEER_IN_MEMORY;
		w->matched_ns += 1000 * (int64_t)LATE_NS; /* until then the receiver may come */
	}
	atomic_store(&slot->state, failed ? PEER_POSTED : PEER_BUFFERED);
}

/* ---- A send -------------------------------------------------------------------------------------------- */

/* Where others can read a message, of a type with gaps its first bytes; id 0: they can't. */
static struct pmpi_exported exported(const struct pmpi_buffer *s, int to)
{
	struct pmpi_exported memory;
	const size_t bytes = s->layout->is_contiguous ? s->bytes : 1;
	const int is_exported =
	    s->ordinal >= 0 && to != pmpi.rank && !pmpi.device->export_memory(first_byte(s), bytes, &memory);
	return is_exported ? memory : (struct pmpi_exported){ .id = 0 };
}

/* Whether a message goes by a header. *memory: where it lies, if it is a device's. */
static int takes(const struct pmpi_buffer *s, const struct pmpi_message *m, int is_persistent, int to,
		 struct pmpi_exported *memory)
{
	if (to < 0 || s->bytes <= PEER_HEADER || s->ordinal < 0)
		return to >= 0 && s->bytes == PEER_HEADER;
	const int in_place = is_read_in_place(s, m);
	*memory = exported(s, to);
	if (!memory->id || peer_reach_of(to, pmpi.rank) == PEER_NOT_REACHED ||
	    (!in_place && s->ordinal >= PMPI_DEVICES))
		return s->bytes >= pmpi_peer.least &&
		       (s->bytes < LEAST_PINNED || to == pmpi.rank || peer_table_pins(s->bytes) ||
			has_pool(s, to, PEER_REACHED));
	return s->bytes >= pmpi_peer.least || (in_place && !is_persistent && peer_is_used_often(memory->id));
}

/* NULL and *ret MPI_SUCCESS: it is MPI's. */
static struct pmpi_sending *make_record(const struct pmpi_message *m, const struct pmpi_buffer *s,
					int is_persistent, int *ret)
{
	const struct pmpi_comm *headers = pmpi_peer_comm(m->comm);
	const int to = pmpi_peer_rank(headers, m->to);
	struct pmpi_exported memory = { .id = 0 };
	const int is_header = takes(s, m, is_persistent, to, &memory);
	if (!is_header && s->ordinal < 0 && !m->is_copied)
		return NULL;
	struct pmpi_sending *w = malloc(sizeof *w);
	if (!w) {
		*ret = pmpi_fail(m->comm);
		return NULL;
	}
	*w = (struct pmpi_sending){ .m = *m,
				    .s = *s,
				    .is_header = is_header,
				    .is_persistent = is_persistent,
				    .comm = headers ? headers->headers_id : 0,
				    .memory = memory,
				    .to = to,
				    .slot = -1 };
	w->as = pmpi_bytes_begin(s->bytes);
	return w;
}

static struct pmpi_sending *make(const struct pmpi_message *m, int is_persistent, int *ret)
{
	struct pmpi_sending *w = NULL;
	struct pmpi_buffer s;
	*ret = MPI_SUCCESS;
	if (m->to == MPI_PROC_NULL || m->count <= 0 || !pmpi_buffer_find(&s, m->buffer, m->count, m->type))
		return NULL;
	if (s.ordinal >= 0 || s.bytes == PEER_HEADER || m->is_copied)
		w = make_record(m, &s, is_persistent, ret);
	if (!w)
		pmpi_buffer_end(&s);
	return w;
}

static void end(void *arg)
{
	struct pmpi_sending *w = arg;
	if (w->slot >= 0)
		peer_slot_drop(w->slot);
	pmpi_host_free(&w->host);
	pmpi_bytes_end(&w->as);
	pmpi_buffer_end(&w->s);
	free(w);
}

/* Copies it to memory that MPI can read, and that the program's receive does not write to meanwhile. */
static int stage(struct pmpi_sending *w)
{
	const int ret = w->host.memory ? 0 : pmpi_host_take(&w->host, w->s.bytes, w->s.ordinal >= 0);
	return ret ? ret
		   : pmpi_buffer_copy(&w->s, PMPI_TO_PACKED, w->host.memory, PMPI_IN_PINNED, w->s.bytes,
				      NULL);
}

/* What the message needs before MPI has it. Without room for a header it is staged; data of 3 bytes are known by their slot, which names no receive. */
static int prepare(struct pmpi_sending *w)
{
	const int filled = w->is_header ? fill(w) : 1;
	if (filled <= 0)
		return filled;
	w->is_header = 0;
	return stage(w);
}

static __typeof__(PMPI_ANY_COUNT(Isend)) *const isends[] = { PMPI_ANY_COUNT(Isend), PMPI_ANY_COUNT(Issend),
							     PMPI_ANY_COUNT(Irsend), PMPI_ANY_COUNT(Ibsend) };

int pmpi_send_plain(const struct pmpi_message *m, MPI_Request *request)
{
	return isends[m->mode](m->buffer, (pmpi_count)m->count, m->type, m->to, m->tag, m->comm, request);
}

/* The message as MPI has it. What may not end before its receive is there is matched when MPI's send is complete. */
static struct pmpi_message given(const struct pmpi_sending *w)
{
	struct pmpi_message m = w->m;
	m.buffer = w->is_header ? (const void *)w->header : w->host.memory;
	m.count = w->is_header ? PEER_HEADER : w->as.count;
	m.type = w->is_header ? MPI_BYTE : w->as.type;
	if (w->is_header && m.mode != PMPI_BUFFERED && !needs_no_match(w))
		m.mode = PMPI_SYNCHRONOUS;
	return m;
}

static int give_to_mpi(struct pmpi_sending *w, MPI_Request *request)
{
	const struct pmpi_message m = given(w);
	pmpi_lock();
	if (w->is_header)
		post(w);
	const int ret = pmpi_send_plain(&m, request);
	pmpi_unlock();
	return ret;
}

struct pmpi_sending *pmpi_send_begin(const struct pmpi_message *m, MPI_Request *request, int *ret)
{
	struct pmpi_sending *w = make(m, 0, ret);
	if (!w)
		return NULL;
	*ret = prepare(w) ? pmpi_fail(m->comm) : give_to_mpi(w, request);
	if (!*ret)
		return w;
	end(w);
	return NULL;
}

/* If the receiver has died while it read, that won't end. */
static int is_cut_off(const struct pmpi_sending *w, int64_t now)
{
	return now - w->matched_ns > LATE_NS && peer_is_gone(w->to);
}

/* A receiver that reads is in a call that goes on with its other messages, too. Waiting as long as the copy takes loses less than a copy that was not needed. */
static int is_late(const struct pmpi_sending *w, int64_t now)
{
	const int64_t reading_ns = peer_reading_ns(w->to);
	return now - (reading_ns > w->matched_ns ? reading_ns : w->matched_ns) >=
	       pmpi_peer.wait_ns + copy_ns(w);
}

int pmpi_send_is_ready(struct pmpi_sending *w, MPI_Request request)
{
	int is_matched = 0, is_cancelled = 0;
	MPI_Status status;
	struct peer_slot *slot = w->slot < 0 ? NULL : slot_of(w);
	PMPI_Request_get_status(request, &is_matched, &status);
	if (!is_matched || !slot)
		return is_matched;
	PMPI_Test_cancelled(&status, &is_cancelled);
	const uint32_t state = slot->state;
	const int64_t now = wait_now_ns();
	if (is_cancelled || state == PEER_DONE || state == PEER_BUFFERED)
		return 1;
	if (!w->matched_ns)
		w->matched_ns = now;
	if (state == PEER_PULLING)
		return is_cut_off(w, now);
	if (is_late(w, now))
		buffer_now(w, slot);
	return slot->state == PEER_BUFFERED || slot->state == PEER_DONE;
}

static void leave_slot(struct pmpi_sending *w)
{
	if (w->slot >= 0)
		peer_slot_leave(w->slot);
	w->slot = -1;
}

void pmpi_send_end(struct pmpi_sending *w, const MPI_Status *status)
{
	int is_cancelled = 0;
	PMPI_Test_cancelled(status, &is_cancelled);
	if (!is_cancelled)
		leave_slot(w);
	end(w);
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

int pmpi_send(const struct pmpi_message *m)
{
	const double begin = pmpi_statistics_begin();
	MPI_Request request;
	MPI_Status status;
	int turn = 0, ret;
	struct pmpi_sending *w = pmpi_send_begin(m, &request, &ret);
	if (!w)
		return ret ? ret : PMPI_NOT_OURS;
	while (!pmpi_send_is_ready(w, request))
		pmpi_go_on(&turn);
	ret = PMPI_Wait(&request, &status);
	pmpi_p2p_count(PMPI_SEND, w->is_header, w->s.bytes, begin);
	pmpi_send_end(w, &status);
	pmpi_peer_finish();
	return ret;
}

static int start(void *arg)
{
	struct pmpi_sending *w = arg;
	if (!w->is_header)
		return stage(w);
	if (w->slot >= 0) /* of a send that was cancelled */
		peer_slot_drop(w->slot);
	w->slot = -1;
	w->memory = exported(&w->s, w->to); /* the program may have other memory there by now */
	const int ret = fill(w);
	if (!ret)
		post(w);
	return ret <= 0 ? ret
			: log_error(CORALE_ENOMEM, pmpi.rank,
				    "no room for a message of %zu bytes to rank %d: too many sends of device "
				    "memory have not met their receives",
				    w->s.bytes, w->to);
}

/* MPI alone knows of a message that is staged. */
static int is_ready(void *arg, MPI_Request request)
{
	struct pmpi_sending *w = arg;
	if (!w->has_own_request)
		return w->slot < 0 || pmpi_send_is_ready(w, request);
	if (w->inner != MPI_REQUEST_NULL && pmpi_send_is_ready(w, w->inner)) {
		PMPI_Wait(&w->inner, MPI_STATUS_IGNORE);
		PMPI_Grequest_complete(request);
	}
	return w->inner == MPI_REQUEST_NULL;
}

static int deliver(void *arg, MPI_Status *status)
{
	(void)status;
	leave_slot(arg);
	return 0;
}

static const struct pmpi_work work = {
	.start = start, .is_ready = is_ready, .deliver = deliver, .release = end
};

/* Its receiver may read it yet. */
static int is_unread(const struct pmpi_sending *w)
{
	return w->slot >= 0 && slot_of(w)->where == PEER_IN_MEMORY;
}

static int query(void *arg, MPI_Status *status)
{
	(void)arg;
	status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
	PMPI_Status_set_cancelled(status, 0);
	return PMPI_Status_set_elements(status, MPI_BYTE, 0);
}

static int nothing(void *arg)
{
	(void)arg;
	return MPI_SUCCESS;
}

/* Its header has left. */
static int not_cancelled(void *arg, int is_complete)
{
	(void)arg;
	(void)is_complete;
	return MPI_SUCCESS;
}

/*
 * Where MPI's request of a header is complete, as that of a short send soon is, MPI may give out one handle for all that are. The program's must not be complete before the
 * message is read or copied, so it gets one of the door's.
 */
static int make_own_request(struct pmpi_sending *w, MPI_Request *request)
{
	w->inner = *request;
	w->has_own_request = 1;
	return PMPI_Grequest_start(query, nothing, not_cancelled, NULL, request);
}

int pmpi_isend(const struct pmpi_message *m, MPI_Request *request)
{
	const double begin = pmpi_statistics_begin();
	int ret, is_complete = 0;
	MPI_Status status;
	struct pmpi_sending *w = pmpi_send_begin(m, request, &ret);
	if (!w)
		return ret ? ret : PMPI_NOT_OURS;
	pmpi_p2p_count(PMPI_SEND, w->is_header, w->s.bytes, begin);
	ret = PMPI_Request_get_status(*request, &is_complete, &status);
	if (is_unread(w) && (is_complete || needs_no_match(w))) {
		ret = make_own_request(w, request);
	} else if (is_complete) {
		pmpi_send_end(w, &status);
		return ret;
	}
	if (ret)
		return pmpi_fail(m->comm);
	pmpi_request_add(&w->pending, *request, m->comm, 0, &work, w);
	return MPI_SUCCESS;
}

int pmpi_send_init(const struct pmpi_message *made, MPI_Request *request)
{
	static __typeof__(PMPI_ANY_COUNT(Send_init)) *const inits[] = { PMPI_ANY_COUNT(Send_init),
									PMPI_ANY_COUNT(Ssend_init),
									PMPI_ANY_COUNT(Rsend_init),
									PMPI_ANY_COUNT(Bsend_init) };
	const double begin = pmpi_statistics_begin();
	int ret;
	struct pmpi_sending *w = make(made, 1, &ret);
	if (!w)
		return ret ? ret : PMPI_NOT_OURS;
	if (!w->is_header && pmpi_host_take(&w->host, w->s.bytes, 1)) {
		end(w);
		return pmpi_fail(made->comm);
	}
	const struct pmpi_message m = given(w);
	ret = inits[m.mode](m.buffer, (pmpi_count)m.count, m.type, m.to, m.tag, m.comm, request);
	pmpi_p2p_count(PMPI_SEND, w->is_header, w->s.bytes, begin);
	if (ret)
		end(w);
	else
		pmpi_request_add(&w->pending, *request, m.comm, 1, &work, w);
	return ret;
}
