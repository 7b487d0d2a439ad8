/* SPDX-License-Identifier: BSD-3-Clause */
/* What MPI holds of links: messages that leave, packets that are asked for, payloads that come. All is under the lock. */
#include "mpi_held.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "mpi_retire.h"

static int lose(struct mpi_link *l, int code)
{
	struct mpi_transport *t = l->transport;
	atomic_store_explicit(&l->lost, code, memory_order_relaxed);
	t->lost = 1 + l->base.peer;
	t->lost_code = code;
	return code;
}

int mpi_link_failed(struct mpi_link *l, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;
	MPI_Error_string(error, text, &length);
	return lose(l,
		    log_error(CORALE_EPEER, l->params.rank,
			      "transport mpi: a message to or from rank %d failed: %s", l->base.peer, text));
}

void mpi_link_hold(struct mpi_op_list *list, struct mpi_op *op)
{
	op->next = NULL;
	*list->end = op;
	list->end = &op->next;
}

int mpi_link_tag_to(const struct mpi_link *l, int rank)
{
	return l->transport->peers[rank].first_tag + 2 * l->base.index;
}

/* A message has left: those behind it that had left before count now. */
static void reap(struct mpi_link *l)
{
	const uint64_t depth = (uint64_t)l->base.out_depth;
	for (; l->reaped < l->base.posted && l->outs[l->reaped % depth].complete; l->reaped++)
		l->outs[l->reaped % depth].complete = 0;
	atomic_store_explicit(&l->base.limit, l->reaped + depth, memory_order_release);
}

static void publish(struct mpi_link *l)
{
	const uint64_t depth = (uint64_t)l->base.in_depth;
	uint64_t arrived = atomic_load_explicit(&l->base.arrived, memory_order_relaxed);
	for (; arrived < l->opened && l->ins[arrived % depth].complete; arrived++)
		l->ins[arrived % depth].complete = 0;
	atomic_store_explicit(&l->base.arrived, arrived, memory_order_release);
}

static void finish(struct mpi_op *op)
{
	op->complete = 1;
	if (!op->link)
		free(op);
	else if (op->sends)
		reap(op->link);
	else
		publish(op->link);
}

/* 1 if MPI has let go of it. */
static int is_over(struct mpi_op *op)
{
	int there = 0, error = MPI_Testall(2, op->requests, &there, MPI_STATUSES_IGNORE);
	if (error && op->link)
		mpi_link_failed(op->link, error);
	else if (there)
		finish(op);
	return error || there;
}

/* ---- Receiving: under the lock ---- */

/* Room for one more awaited packet. */
static int make_room(struct mpi_awaited *a)
{
	const size_t room = 2 * (size_t)a->room + 8;
	if (a->count < a->room)
		return 0;
	MPI_Request *requests = realloc(a->requests, room * sizeof(*requests));
	a->requests = requests ? requests : a->requests;
	struct mpi_link **links = realloc(a->links, room * sizeof(*links));
	a->links = links ? links : a->links;
	if (!requests || !links)
		return MPI_ERR_NO_MEM;
	a->room = (int)room;
	return 0;
}

int mpi_link_ask(struct mpi_link *l, void *landing, size_t landing_bytes)
{
	struct mpi_transport *t = l->transport;
	struct mpi_awaited *a = &t->awaited;
	if (l->asked || l->opened >= link_taken(&l->base) + (uint64_t)l->base.in_depth)
		return 0;
	int error = make_room(a);
	if (!error)
		error = MPI_Irecv(&l->packet, sizeof(l->packet), MPI_BYTE, t->peers[l->base.peer].rank,
				  mpi_link_tag_to(l, l->params.rank), t->comm, &a->requests[a->count]);
	if (error)
		return mpi_link_failed(l, error);
	a->links[a->count++] = l;
	l->landing = landing;
	l->landing_bytes = landing_bytes;
	atomic_store_explicit(&l->asked, 1, memory_order_relaxed);
	return 0;
}

static int too_long(struct mpi_link *l)
{
	return lose(l, log_error(CORALE_ETRANSPORT, l->params.rank,
				 "transport mpi: rank %d sent a message of %llu bytes on link %d, whose "
				 "slots have %zu: refused; do all ranks run the same build?",
				 l->base.peer, (unsigned long long)l->packet.bytes, l->base.index,
				 l->base.slot_bytes));
}

/* A packet is there: completes its message, or begins to receive the payload that follows. */
static int open_packet(struct mpi_link *l)
{
	struct mpi_transport *t = l->transport;
	const uint64_t i = l->opened % (uint64_t)l->base.in_depth;
	const size_t bytes = l->packet.bytes;
	struct link_message *m = &l->base.in[i];
	struct mpi_op *op = &l->ins[i];
	const int lands = l->landing && bytes == l->landing_bytes && !t->failure;
	if (bytes > l->base.slot_bytes)
		return too_long(l);
	memcpy(m->header, l->packet.header, sizeof(m->header));
	m->bytes = bytes;
	m->data = lands ? l->landing : l->slots + i * l->base.slot_bytes;
	l->opened++;
	if (bytes <= MPI_LINK_INLINE_BYTES) {
		if (bytes)
			memcpy(m->data, l->packet.payload, bytes);
		finish(op);
		return 0;
	}
	op->borrows = lands;
	const int error = MPI_Irecv(m->data, (int)bytes, MPI_BYTE, t->peers[l->base.peer].rank,
				    mpi_link_tag_to(l, l->params.rank) + 1, t->comm, &op->requests[1]);
	if (error)
		return mpi_link_failed(l, error);
	mpi_link_hold(&t->held, op);
	return lands || t->failure ? 0 : mpi_link_ask(l, NULL, 0);
}

/* MPI has done with an awaited packet. */
static struct mpi_link *forget(struct mpi_awaited *a, int i)
{
	struct mpi_link *l = a->links[i];
	a->count--;
	a->requests[i] = a->requests[a->count];
	a->links[i] = a->links[a->count];
	atomic_store_explicit(&l->asked, 0, memory_order_relaxed);
	return l;
}

/* Opens the packets that are there: one look at all of them, as a proxy awaits one on each link of each peer. */
static int open_packets(struct mpi_awaited *a)
{
	int moved = 0, there = 1, i, error;
	while (a->count && there) {
		error = MPI_Testany(a->count, a->requests, &i, &there, MPI_STATUS_IGNORE);
		if (!there || i == MPI_UNDEFINED)
			return moved;
		struct mpi_link *l = forget(a, i);
		if (error)
			mpi_link_failed(l, error);
		else
			open_packet(l);
		moved = 1;
	}
	return moved;
}

/* ---- All links: under the lock ---- */

/* Control messages that came while no thread could call MPI. */
static void start_notes(struct mpi_transport *t)
{
	const size_t head = sizeof(struct mpi_packet) - MPI_LINK_INLINE_BYTES;
	for (struct mpi_op *op; (op = t->notes.first);) {
		t->notes.first = op->next;
		if (MPI_Isend(op->packet, (int)(head + op->packet->bytes), MPI_BYTE, t->peers[op->peer].rank,
			      t->peers[op->peer].first_tag + MPI_LINK_CONTROL_TAG, t->comm, &op->requests[0]))
			t->lost = 1 + op->peer, t->lost_code = CORALE_EPEER;
		mpi_link_hold(&t->held, op);
	}
	t->notes.end = &t->notes.first;
}

int mpi_link_advance(struct mpi_transport *t)
{
	int moved = open_packets(&t->awaited);
	start_notes(t);
	for (struct mpi_op **at = &t->held.first, *op; (op = *at);) {
		struct mpi_op *next = op->next;
		if (!is_over(op)) {
			at = &op->next;
			continue;
		}
		*at = next;
		if (!next)
			t->held.end = at;
		moved = 1;
	}
	return moved;
}

void mpi_link_cancel(struct mpi_transport *t)
{
	struct mpi_awaited *a = &t->awaited;
	for (int i = a->count - 1; i >= 0; i--) {
		MPI_Status status;
		int done = 0, cancelled = 0;
		MPI_Cancel(&a->requests[i]);
		if (MPI_Test(&a->requests[i], &done, &status) || !done)
			continue;
		MPI_Test_cancelled(&status, &cancelled);
		struct mpi_link *l = forget(a, i);
		if (!cancelled)
			open_packet(l);
	}
}

/* MPI keeps messages to or from a peer. */
static void abandon(struct mpi_transport *t, int peer)
{
	if (t->partners)
		atomic_store(&t->partners[t->peers[peer].rank], MPI_PARTNER_ABANDONED);
}

static void abandon_link(struct mpi_link *l)
{
	l->abandoned = 1;
	abandon(l->transport, l->base.peer);
}

static int is_abandoned(const struct mpi_transport *t, int peer)
{
	return t->partners && atomic_load(&t->partners[t->peers[peer].rank]) == MPI_PARTNER_ABANDONED;
}

int mpi_link_left(const struct mpi_transport *t, int borrowed)
{
	int left = 0;
	for (const struct mpi_op *op = t->held.first; op; op = op->next)
		left += borrowed ? op->borrows : !is_abandoned(t, op->peer);
	return borrowed ? left : left + (t->notes.first != NULL) + t->awaited.count;
}

int mpi_link_abandon(struct mpi_transport *t)
{
	int count = t->awaited.count;
	for (int i = 0; i < t->awaited.count; i++)
		abandon_link(t->awaited.links[i]);
	for (struct mpi_op *op = t->held.first; op; op = op->next, count++)
		if (op->link)
			abandon_link(op->link);
		else
			abandon(t, op->peer);
	for (struct mpi_op *op = t->notes.first, *next; op; op = next, count++) {
		next = op->next;
		free(op);
	}
	t->held = (struct mpi_op_list){ NULL, &t->held.first };
	t->notes = (struct mpi_op_list){ NULL, &t->notes.first };
	t->awaited.count = 0;
	return count;
}
