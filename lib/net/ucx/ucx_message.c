/* SPDX-License-Identifier: BSD-3-Clause */

#include "ucx_link.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* ---- Notes for communicators that are not open here yet ---- */

/* Early notes are few and small, because their ranks wait for each other. */
enum { EARLY_NOTES = 1 << 16, EARLY_BYTES = 64 << 20 };

struct ucx_early {
	struct ucx_early *next;
	struct ucx_wire wire;
	size_t bytes;
	unsigned char payload[];
};

/* Takes out the note to which a pointer of the queue leads. */
static struct ucx_early *take_early(struct ucx_early_queue *q, struct ucx_early **at)
{
	struct ucx_early *early = *at;
	*at = early->next;
	if (!early->next)
		q->end = at;
	q->bytes -= early->bytes;
	q->count--;
	return early;
}

static void limit_early(struct ucx_worker *w)
{
	struct ucx_early_queue *q = &w->early;
	while (q->count > EARLY_NOTES || q->bytes > EARLY_BYTES) {
		struct ucx_early *oldest = take_early(q, &q->head);
		if (!w->dropped++)
			log_error(
			    CORALE_ENOMEM, (int)oldest->wire.to,
			    "transport ucx: more than %d notes or %d bytes have come for communicators that "
			    "are not open here; the oldest are dropped, now a %s of rank %u for rank %u of "
			    "communicator %016llx, whose creation or first call may wait until "
			    "CORALE_TIMEOUT; does something else send to this process? see docs/security.md",
			    EARLY_NOTES, EARLY_BYTES, ucx_wire_kind_name(&oldest->wire), oldest->wire.from,
			    oldest->wire.to, (unsigned long long)oldest->wire.comm_id);
		free(oldest);
	}
}

static void keep_early(struct ucx_worker *w, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	struct ucx_early_queue *q = &w->early;
	struct ucx_early *early = malloc(sizeof(*early) + bytes);
	if (!early) {
		log_error(CORALE_ENOMEM, (int)wire->to,
			  "transport ucx: lost a note of rank %u: no memory for %zu bytes", wire->from,
			  bytes);
		return;
	}
	early->next = NULL;
	early->wire = *wire;
	early->bytes = bytes;
	if (bytes)
		memcpy(early->payload, data, bytes);
	if (!q->head)
		q->end = &q->head;
	*q->end = early;
	q->end = &early->next;
	q->bytes += bytes;
	q->count++;
	limit_early(w);
}

void ucx_message_free_early(struct ucx_worker *w)
{
	while (w->early.head)
		free(take_early(&w->early, &w->early.head));
}

/* ---- Arrivals ---- */

/* A note for an open communicator. */
static void arrive_note(struct ucx_comm *c, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	struct ucx_peer *p;
	if (wire->from >= (uint32_t)c->params.size) {
		ucx_wire_refuse(&c->worker->refused, wire, bytes, "the communicator has no such rank");
		return;
	}
	if (ucx_comm_peer(c, (int)wire->from, &p))
		return;
	p->has_answered = 1;
	switch (wire->kind) {
	case UCX_BYE: /* once: both ends may have greeted at a time, and the answer to the later greeting is another */
		if (p->state == UCX_PEER_FINE)
			ucx_link_leave(p, wire, data, bytes);
		ucx_comm_peer_left(c, (int)wire->from);
		if (wire->number == UCX_BYE_UNMET) /* its rank could not say how it left */
			ucx_comm_report(c, (int)wire->from, CORALE_EPEER, transport_peer_left);
		return;
	case UCX_WANT:
		ucx_link_want(c, (int)wire->from, wire->index);
		return;
	case UCX_GRANT:
		ucx_link_grant(c, wire, data, bytes);
		return;
	case UCX_CONTROL:
		ucx_comm_add_event(c, (int)wire->from, 0, data, bytes);
		return;
	default:
		return;
	}
}

static int is_closed(const struct ucx_worker *w, uint64_t comm_id)
{
	for (size_t i = 0; i < sizeof(w->closed) / sizeof(w->closed[0]); i++)
		if (w->closed[i] == comm_id)
			return 1;
	return 0;
}

static void arrive_worker_note(struct ucx_worker *w, const struct ucx_wire *wire,
			       const ucp_am_recv_param_t *param)
{
	if (wire->kind != UCX_PING)
		ucx_endpoint_answered(w, wire->number, wire->kind == UCX_MUTE);
	else if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)
		ucx_comm_tell(w, param->reply_ep,
			      &(struct ucx_wire){ .kind = UCX_PONG, .number = wire->number });
}

ucs_status_t ucx_message_arrive(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
				const ucp_am_recv_param_t *param)
{
	struct ucx_worker *w = arg;
	struct ucx_wire wire = { .kind = UCX_KINDS };
	const char *fault = "its header is not as long as it should be";
	if (header_bytes == sizeof(wire)) {
		memcpy(&wire, header, sizeof(wire));
		fault = ucx_wire_fault(&wire, bytes, !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV));
	}
	if (fault) {
		ucx_wire_refuse(&w->refused, &wire, bytes, fault);
		return UCS_OK;
	}
	if (wire.kind >= UCX_PING && wire.kind <= UCX_MUTE) {
		arrive_worker_note(w, &wire, param);
		return UCS_OK;
	}
	struct ucx_comm *c = ucx_comm_find(w, wire.comm_id, wire.to);
	if (wire.kind >= UCX_SLOT)
		return c ? ucx_link_arrive(c, &wire, data, bytes, param) : UCS_OK;
	if (c)
		arrive_note(c, &wire, data, bytes);
	else if (!is_closed(w, wire.comm_id))
		keep_early(w, &wire, data, bytes);
	else if (wire.kind == UCX_BYE)
		ucx_slots_free_retired(w, &wire);
	else if (wire.kind == UCX_HELLO && param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)
		ucx_comm_refuse(w, param->reply_ep, &wire);
	return UCS_OK;
}

void ucx_message_deliver_early(struct ucx_comm *c)
{
	struct ucx_early_queue *q = &c->worker->early;
	for (struct ucx_early **at = &q->head, *early; (early = *at);) {
		if (early->wire.comm_id != c->params.comm_id || early->wire.to != (uint32_t)c->params.rank) {
			at = &early->next;
			continue;
		}
		take_early(q, at);
		arrive_note(c, &early->wire, early->payload, early->bytes);
		free(early);
	}
}
