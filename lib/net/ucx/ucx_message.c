#include "ucx_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_link.h"

struct note {
	struct ucx_wire wire;
	unsigned char payload[];
};

static void note_sent(void *request, ucs_status_t status, void *note)
{
	(void)status; /* a connection that fails is told of otherwise */
	if (request)
		ucp_request_free(request);
	free(note);
}

int ucx_message_note(struct ucx_comm *c, int peer, int lane, enum ucx_kind kind, uint64_t number,
		     const void *payload, size_t bytes)
{
	struct ucx_endpoint *e = c->peers[peer]->endpoint;
	struct note *note = e->failed ? NULL : malloc(sizeof(*note) + bytes);
	if (!note)
		return e->failed ? CORALE_EPEER
				 : log_error(CORALE_ENOMEM, c->params.rank,
					     "transport ucx: no memory for a note of %zu bytes to rank %d",
					     bytes, peer);
	note->wire = (struct ucx_wire){ .comm_id = c->params.comm_id,
					.from = (uint32_t)c->params.rank,
					.to = (uint32_t)peer,
					.lane = (uint16_t)lane,
					.kind = (uint8_t)kind,
					.bytes = bytes,
					.number = number };
	if (bytes)
		memcpy(note->payload, payload, bytes);
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
						      UCP_OP_ATTR_FIELD_MEMORY_TYPE,
				      .flags = UCP_AM_SEND_FLAG_EAGER,
				      .cb.send = note_sent,
				      .user_data = note,
				      .memory_type = UCS_MEMORY_TYPE_HOST };
	void *request =
	    ucp_am_send_nbx(e->ep, 0, &note->wire, sizeof(note->wire), note->payload, bytes, &param);
	if (UCS_PTR_IS_PTR(request))
		c->worker->nudge = 1;
	else
		note_sent(NULL, UCS_PTR_STATUS(request), note);
	return UCS_PTR_IS_ERR(request) ? ucx_code(UCS_PTR_STATUS(request)) : 0;
}

void ucx_message_refuse(struct ucx_worker *w, const struct ucx_wire *wire, size_t bytes, const char *why)
{
	unsigned n = ++w->refused;
	if (n > 16 && (n & (n - 1)))
		return;
	log_line(
	    LOG_WARN, (int)wire->to,
	    "transport ucx: refused a %s (message %u refused) of %zu bytes that says it is of rank %u, "
	    "communicator %016llx, lane %u, for %llu bytes: %s; it is damaged, or something else sends to "
	    "this process: see docs/security.md",
	    ucx_wire_kind_name(wire), n, bytes, wire->from, (unsigned long long)wire->comm_id, wire->lane,
	    (unsigned long long)wire->bytes, why);
}

/* ---- Notes for communicators that are not open here yet ---- */

/* Few and small, for their ranks wait for each other. */
enum { EARLY_NOTES = 1 << 16, EARLY_BYTES = 64 << 20 };

struct ucx_early {
	struct ucx_early *next;
	struct ucx_wire wire;
	size_t bytes;
	unsigned char payload[];
};

/* Takes out the one that a link of the queue points to. */
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
			    "transport ucx: more than %d notes or %d bytes have come for communicators "
			    "that are not open here; the oldest are dropped, now a %s of rank %u for rank "
			    "%u of communicator %016llx, whose creation or first call may wait until "
			    "CORALE_TIMEOUT; does something else send to this process? see "
			    "docs/security.md",
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
		ucx_message_refuse(c->worker, wire, bytes, "the communicator has no such rank");
		return;
	}
	if (ucx_comm_peer(c, (int)wire->from, &p))
		return;
	p->heard = 1;
	switch (wire->kind) {
	case UCX_BYE:
		ucx_link_leave(p, wire, data, bytes);
		ucx_comm_peer_left(c, (int)wire->from);
		return;
	case UCX_WANT:
		ucx_link_want(c, (int)wire->from, wire->lane);
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
		ucx_message_refuse(w, &wire, bytes, fault);
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
		ucx_link_free_graves(w, &wire);
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
