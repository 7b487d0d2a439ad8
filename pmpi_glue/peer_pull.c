/* SPDX-License-Identifier: BSD-3-Clause */
/* A receiver's copies of messages by header, from their senders' memory, which it maps. */
#include <stdlib.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"
#include "door.h"
#include "peer.h"
#include "request.h"

/* With the lock. */
static struct pmpi_receiving *first;
static _Atomic int pulling; /* of these; finish looks without the lock */

/* Copies that go on side by side. Messages behind them wait; then their sender may buffer them. */
enum { MOST_PULLING = 16 };

/* ---- Mappings of other processes' memory, until it is freed */

struct pmpi_mapping {
	int owner, ordinal; /* ordinal: it is used at */
	uint64_t id;
	void *allocation;
	int readers;
	struct pmpi_mapping *next;
};
static struct pmpi_mapping *mappings;

static void unmap(struct pmpi_mapping *m)
{
	int before;
	if (!pmpi_enter(m->ordinal, &before)) {
		pmpi.device->unmap(m->allocation);
		pmpi_leave(before);
	}
	free(m);
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
	for (struct pmpi_mapping **link = &mappings, *m; (m = *link);) {
		if (m->readers || peer_has_allocation(m->owner, m->id)) {
			link = &m->next;
		} else {
			*link = m->next;
			unmap(m);
		}
	}
	pmpi_unlock();
}

/* NULL: it can't be mapped. */
static struct pmpi_mapping *map(int owner, int ordinal, const struct pmpi_exported *memory)
{
	struct pmpi_mapping *m = mappings;
	void *allocation;
	int before;
	while (m && (m->id != memory->id || m->owner != owner || m->ordinal != ordinal))
		m = m->next;
	if (m || pmpi_enter(ordinal, &before))
		return m;
	m = malloc(sizeof *m);
	const int failed = !m || pmpi.device->map(memory, &allocation);
	pmpi_leave(before);
	if (failed) {
		free(m);
		return NULL;
	}
	*m = (struct pmpi_mapping){ owner, ordinal, memory->id, allocation, 0, mappings };
	return mappings = m;
}

/* ---- The pull ------------------------------------------------------------------------------------------ */

/* The sender's memory, mapped for a copy into r's buffer. CORALE_E*, logged. */
static int find_memory(struct pmpi_receiving *r, const struct peer_slot *slot, int ordinal, void **memory)
{
	if (peer_is_gone(r->owner))
		return log_error(CORALE_EPEER, pmpi.rank,
				 "rank %d died before its message to this rank was read", r->owner);
	r->mapping = map(r->owner, ordinal, &slot->memory);
	if (!r->mapping)
		return log_error(CORALE_EDEVICE, pmpi.rank,
				 "the memory of a message of rank %d can't be mapped, though other "
				 "memory of it was: set CORALE_MPI_PEER=no",
				 r->owner);
	r->mapping->readers++;
	*memory = (char *)r->mapping->allocation + slot->memory.at;
	return 0;
}

/* Starts the copy of r->bytes to the receive's buffer, by its device, or the one in use. */
static int copy(struct pmpi_receiving *r, struct peer_slot *slot)
{
	const int in_use = r->s.ordinal >= 0 ? r->s.ordinal : pmpi.device->in_use(),
		  ordinal = in_use < 0 ? 0 : in_use, is_mapped = slot->where != PEER_IN_ARENA;
	void *from = peer_arena(r->owner, slot);
	if (!is_mapped && slot->is_exported && peer_reach_of(pmpi.rank, r->owner) == PEER_UNTRIED)
		peer_note_reach(r->owner, map(r->owner, ordinal, &slot->memory) != NULL);
	const int ret = is_mapped ? find_memory(r, slot, ordinal, &from) : 0;
	const int where = is_mapped                                                  ? ordinal
			  : r->s.ordinal >= 0 && peer_slot_is_pinned(r->owner, slot) ? PMPI_IN_PINNED
										     : PMPI_IN_HOST;
	return ret || !r->bytes
		   ? ret
		   : pmpi_buffer_copy(&r->s, PMPI_FROM_PACKED, from, where, r->bytes, &r->stream);
}

void pmpi_pull_add(struct pmpi_receiving *r)
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
	if (r->before)
		r->before->next = r->next;
	else if (first == r)
		first = r->next;
	if (r->next)
		r->next->before = r->before;
	r->before = r->next = NULL;
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
	peer_note_reading(0); /* also behind begin_pull, in the same look */
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

int pmpi_peer_owner(const struct pmpi_comm *headers, const MPI_Status *status)
{
	int bytes = 0;
	const int owner = pmpi_peer_rank(headers, status->MPI_SOURCE);
	if (owner < 0)
		return -1;
	PMPI_Get_count(status, MPI_BYTE, &bytes);
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
	return slot && peer_slot_names(slot, r->headers->headers_id, tag)
		   ? number
		   : peer_slot_oldest(r->owner, r->headers->headers_id, tag);
}

void pmpi_pull_note(struct pmpi_receiving *r, const MPI_Status *status)
{
	int is_cancelled = 0;
	r->owner = pmpi_peer_owner(r->headers, status);
	if (r->owner >= 0)
		PMPI_Test_cancelled(status, &is_cancelled);
	if (r->owner < 0 || is_cancelled)
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
		pmpi_pull_note(r, &status);
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

int pmpi_pull_advance(struct pmpi_receiving *r)
{
	pmpi_lock();
	const int is_received = advance(r);
	pmpi_unlock();
	return is_received;
}

void pmpi_pull_await(struct pmpi_receiving *r)
{
	int turn = 0;
	while (!pmpi_pull_advance(r))
		pmpi_go_on(&turn);
}

void pmpi_pull_follow(struct pmpi_receiving *r, const MPI_Status *status, int ret)
{
	if (r->state == PMPI_POSTED && ret)
		set_received(r);
	else if (r->state == PMPI_POSTED)
		pmpi_pull_note(r, status);
	pmpi_pull_await(r);
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
	if (pmpi_peer.on && (mappings || pmpi_peer.by_header))
		unmap_freed();
	return any;
}

/* Of those that MPI has matched it may not have completed all, if other threads are in MPI. */
int pmpi_peer_claim_matched(const struct pmpi_comm *headers, const MPI_Status *status)
{
	int is_known = 1;
	for (struct pmpi_receiving *r = first, *next; r; r = next) {
		next = r->next;
		if (r->headers != headers || r->state != PMPI_POSTED)
			continue;
		look(r);
		is_known &= r->state != PMPI_POSTED || r->slot >= 0 ||
			    (r->in.from != MPI_ANY_SOURCE && r->in.from != status->MPI_SOURCE) ||
			    (r->in.tag != MPI_ANY_TAG && r->in.tag != status->MPI_TAG);
	}
	return is_known || pmpi.thread_level != MPI_THREAD_MULTIPLE;
}
