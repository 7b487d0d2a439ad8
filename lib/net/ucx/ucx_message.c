#include "ucx_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_link.h"

static void eager_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_op *op = arg;
	if (request)
		ucp_request_free(request);
	ucx_op_finish(op, ucx_code(status));
	ucx_op_released(op);
}

/* The op itself waits for the CTS. */
static void rts_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_op *op = arg;
	if (request)
		ucp_request_free(request);
	if (status != UCS_OK && op->id)
		ucx_op_finish(op, ucx_code(status));
	ucx_op_released(op);
}

int ucx_message_send(struct ucx_comm *c, int peer, int lane, const void *header, const void *buf,
		     size_t bytes, struct transport_request *request)
{
	struct ucx_peer *p;
	int ret = ucx_comm_peer(c, peer, &p);
	if (ret)
		return ret;
	if (p->state != UCX_PEER_FINE) {
		ucx_comm_report(c, peer, CORALE_EPEER, transport_peer_left);
		return CORALE_EPEER;
	}
	struct ucx_op *op = ucx_op_new(c, peer, lane, request);
	if (!op)
		return CORALE_ENOMEM;
	op->sends = 1;
	op->buf = (unsigned char *)buf;
	op->bytes = bytes;
	op->sequence = p->lanes[lane].sent;
	int eager = bytes <= UCX_EAGER_BYTES;
	if (!eager && (ret = ucx_op_publish(op))) {
		op->request = NULL;
		ucx_op_finish(op, ret);
		return ret;
	}
	p->lanes[lane].sent++;
	struct ucx_wire *wire = ucx_op_wire(op, 0, eager ? UCX_EAGER : UCX_RTS);
	wire->bytes = bytes;
	wire->send_id = op->id;
	wire->way = (uint8_t)(c->forced >= 0 ? c->forced : UCX_WAY_AM);
	memcpy(wire->header, header, TRANSPORT_HEADER_BYTES);
	if (eager)
		ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, buf, bytes, eager_sent);
	else
		ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, NULL, 0, rts_sent);
	return 0;
}

/* A recv and its message have met; data: the payload of a small one. */
static void meet(struct ucx_op *op, const struct ucx_wire *wire, const void *data)
{
	op->request->bytes = wire->bytes;
	memcpy(op->request->header, wire->header, TRANSPORT_HEADER_BYTES);
	if (wire->kind == UCX_RTS) {
		ucx_way_ask(op, wire);
		return;
	}
	int fits = wire->bytes <= op->bytes;
	if (fits && wire->bytes)
		memcpy(op->buf, data, wire->bytes);
	ucx_op_finish(op, fits ? 0 : CORALE_EMISMATCH);
}

static void append(struct ucx_lane *lane, struct ucx_op *op)
{
	op->next = NULL;
	if (lane->head)
		lane->tail->next = op;
	else
		lane->head = op;
	lane->tail = op;
}

static struct ucx_held *take_held(struct ucx_lane *lane, uint32_t sequence)
{
	struct ucx_held *before = NULL;
	for (struct ucx_held *held = lane->held.head; held; before = held, held = held->next)
		if (held->wire.sequence == sequence)
			return ucx_held_take(&lane->held, before);
	return NULL;
}

static struct ucx_op *take_posted(struct ucx_lane *lane, uint32_t sequence)
{
	struct ucx_op *before = NULL;
	for (struct ucx_op *op = lane->head; op; before = op, op = op->next) {
		if (op->sequence != sequence)
			continue;
		if (before)
			before->next = op->next;
		else
			lane->head = op->next;
		if (lane->tail == op)
			lane->tail = before;
		return op;
	}
	return NULL;
}

int ucx_message_recv(struct ucx_comm *c, int peer, int lane, void *buf, size_t capacity,
		     struct transport_request *request)
{
	struct ucx_peer *p;
	int ret = ucx_comm_peer(c, peer, &p);
	if (ret)
		return ret;
	struct ucx_held *held = take_held(&p->lanes[lane], p->lanes[lane].posted);
	/* what was only announced does not come any more */
	if (p->state != UCX_PEER_FINE && (!held || held->wire.kind == UCX_RTS)) {
		ucx_held_free(c->worker->ucp, held);
		ucx_comm_report(c, peer, CORALE_EPEER, transport_peer_left);
		return CORALE_EPEER;
	}
	struct ucx_op *op = ucx_op_new(c, peer, lane, request);
	if (!op) {
		ucx_held_free(c->worker->ucp, held);
		return CORALE_ENOMEM;
	}
	op->buf = buf;
	op->bytes = capacity;
	op->sequence = p->lanes[lane].posted++;
	if (!held) {
		append(&p->lanes[lane], op);
		return 0;
	}
	meet(op, &held->wire, held->data);
	ucx_held_free(c->worker->ucp, held);
	return 0;
}

int ucx_message_note(struct ucx_comm *c, int peer, int lane, enum ucx_kind kind, uint64_t number,
		     const void *text, size_t bytes)
{
	struct ucx_op *op = ucx_op_new(c, peer, lane, NULL);
	if (!op)
		return CORALE_ENOMEM;
	if (bytes) {
		if (!(op->extra = malloc(bytes))) {
			ucx_op_finish(op, 0);
			return log_error(CORALE_ENOMEM, c->params.rank,
					 "transport ucx: no memory for %zu bytes", bytes);
		}
		memcpy(op->extra, text, bytes);
	}
	ucx_op_wire(op, 0, kind)->bytes = bytes;
	op->wire[0].send_id = number;
	return ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, op->extra, bytes, NULL);
}

/* Messages for communicators that are not open here yet: few and small, for their ranks wait for each other. */
enum { EARLY_MESSAGES = 1 << 16, EARLY_BYTES = 64 << 20 };

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

/* Keeps a message by its sequence number; 1 if data is kept too and UCX must not free it. */
static int hold(struct ucx_comm *c, struct ucx_lane *lane, const struct ucx_wire *wire, void *data,
		size_t bytes, const ucp_am_recv_param_t *param)
{
	struct ucx_held *before = NULL, *next = lane->held.head, *held;
	if (lane->held.last && (int32_t)(wire->sequence - lane->held.last->wire.sequence) > 0)
		before = lane->held.last, next = NULL;
	for (; next && (int32_t)(wire->sequence - next->wire.sequence) >= 0; next = next->next) {
		if (next->wire.sequence == wire->sequence) {
			ucx_message_refuse(c->worker, wire, bytes,
					   "a message of its number is there already");
			return 0;
		}
		before = next;
	}
	if (!(held = ucx_held_make(wire, data, bytes, param)))
		return 0;
	ucx_held_insert(&lane->held, before, held);
	return held->from_ucx;
}

/* The same without a communicator. */
static int hold_early(struct ucx_worker *w, const struct ucx_wire *wire, void *data, size_t bytes,
		      const ucp_am_recv_param_t *param)
{
	struct ucx_held *held = ucx_held_make(wire, data, bytes, param);
	if (!held)
		return 0;
	int from_ucx = held->from_ucx;
	ucx_held_insert(&w->early, w->early.last, held);
	while (w->early.count > EARLY_MESSAGES || w->early.bytes > EARLY_BYTES) {
		struct ucx_held *oldest = ucx_held_take(&w->early, NULL);
		if (!w->dropped++)
			log_error(
			    CORALE_ENOMEM, (int)wire->to,
			    "transport ucx: more than %d messages or %d bytes have come for communicators "
			    "that are not open here; the oldest are dropped, now a %s of rank %u for rank "
			    "%u of communicator %016llx, whose creation or first call may wait until "
			    "CORALE_TIMEOUT; does something else send to this process? see "
			    "docs/security.md",
			    EARLY_MESSAGES, EARLY_BYTES, ucx_wire_kind_name(&oldest->wire), oldest->wire.from,
			    oldest->wire.to, (unsigned long long)oldest->wire.comm_id);
		ucx_held_free(w->ucp, oldest);
	}
	return from_ucx;
}

static int arrive_message(struct ucx_comm *c, struct ucx_peer *p, const struct ucx_wire *wire, void *data,
			  size_t bytes, const ucp_am_recv_param_t *param)
{
	struct ucx_lane *lane = &p->lanes[wire->lane];
	struct ucx_op *op = take_posted(lane, wire->sequence);
	if (op) {
		meet(op, wire, data);
		return 0;
	}
	if ((int32_t)(wire->sequence - lane->posted) >= 0)
		return hold(c, lane, wire, data, bytes, param);
	if (p->state == UCX_PEER_FINE) /* else its recv was given up */
		ucx_message_refuse(c->worker, wire, bytes, "the message of its number was received already");
	return 0;
}

/* Something for an open communicator; 1 if data is kept. */
static int arrive_for(struct ucx_comm *c, const struct ucx_wire *wire, void *data, size_t bytes,
		      const ucp_am_recv_param_t *param)
{
	struct ucx_peer *p;
	if (wire->from >= (uint32_t)c->params.size) {
		ucx_message_refuse(c->worker, wire, bytes, "the communicator has no such rank");
		return 0;
	}
	if (ucx_comm_peer(c, (int)wire->from, &p))
		return 0;
	p->heard = 1;
	switch (wire->kind) {
	case UCX_BYE:
		ucx_link_leave(p, wire, data, bytes);
		ucx_comm_peer_left(c, (int)wire->from);
		return 0;
	case UCX_WANT:
		ucx_link_want(c, (int)wire->from, wire->lane);
		return 0;
	case UCX_GRANT:
		ucx_link_grant(c, wire, data, bytes);
		return 0;
	case UCX_CONTROL:
		ucx_comm_add_event(c, (int)wire->from, 0, data, bytes);
		return 0;
	case UCX_EAGER:
	case UCX_RTS:
		return c->failure ? 0 : arrive_message(c, p, wire, data, bytes, param);
	default:
		return 0;
	}
}

/* Why a message is not what op waits for, or NULL. */
static const char *fault_of(const struct ucx_op *op, const struct ucx_wire *wire, size_t bytes)
{
	const struct transport_params *params = &op->comm->params;
	int way = op->wire[0].way; /* as announced and asked */

	if (wire->comm_id != params->comm_id || wire->to != (uint32_t)params->rank ||
	    wire->from != (uint32_t)op->peer)
		return "it names a message between other ranks";
	if (wire->lane != op->lane || wire->sequence != op->sequence)
		return "it names another message of these ranks";
	if (op->sends != (wire->kind == UCX_CTS))
		return "it names a message of the other direction";
	if (wire->kind == UCX_CTS && (op->moving || (wire->way != way && wire->way != UCX_WAY_REFUSED)))
		return "it asks for a payload twice, or in another way than was announced";
	if (wire->kind == UCX_CTS && bytes < ucx_way_least(wire))
		return "it does not say where its payload goes";
	if ((wire->kind == UCX_DATA && way != UCX_WAY_AM) || (wire->kind == UCX_FIN && way != UCX_WAY_PUT))
		return "its payload was to come in another way";
	if (way == UCX_WAY_AM && op->receiving && wire->kind != UCX_CTS)
		return "its payload is coming already";
	if ((wire->kind == UCX_DATA || wire->kind == UCX_FIN) && wire->bytes != op->bytes)
		return "another length was announced";
	return NULL;
}

/* The send was given up meanwhile: its receiver is told. */
static void answer_gone(struct ucx_worker *w, const struct ucx_wire *cts)
{
	struct ucx_comm *c = ucx_comm_find(w, cts->comm_id, cts->to);
	if (c && cts->from >= (uint32_t)c->params.size) {
		ucx_message_refuse(w, cts, 0, "the communicator has no such rank");
		return;
	}
	struct ucx_op *note =
	    c && c->peers[cts->from] ? ucx_op_new(c, (int)cts->from, cts->lane, NULL) : NULL;
	if (!note)
		return;
	note->sequence = cts->sequence;
	ucx_op_wire(note, 0, UCX_GONE)->recv_id = cts->recv_id;
	ucx_op_send(note, 0, UCP_AM_SEND_FLAG_EAGER, NULL, 0, NULL);
}

/* Something for an op that its peer knows by its id. */
static ucs_status_t arrive_at(struct ucx_worker *w, const struct ucx_wire *wire, void *data, size_t bytes,
			      const ucp_am_recv_param_t *param)
{
	struct ucx_op *op = ucx_op_find(w, wire->kind == UCX_CTS ? wire->send_id : wire->recv_id);
	if (!op) { /* given up meanwhile */
		if (wire->kind == UCX_CTS)
			answer_gone(w, wire);
		return UCS_OK;
	}
	const char *fault = fault_of(op, wire, bytes);
	if (fault)
		ucx_message_refuse(w, wire, bytes, fault);
	else if (wire->kind == UCX_CTS)
		ucx_way_answer(op, wire, data);
	else if (wire->kind == UCX_DATA)
		return ucx_way_data(op, data, bytes, param);
	else if (op->receiving)
		ucp_request_cancel(w->ucp, op->receiving);
	else
		ucx_op_finish(op, wire->kind == UCX_FIN ? 0 : CORALE_EPEER);
	return UCS_OK;
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
	if (wire.kind >= UCX_CTS && wire.kind <= UCX_GONE)
		return arrive_at(w, &wire, data, bytes, param);
	struct ucx_comm *c = ucx_comm_find(w, wire.comm_id, wire.to);
	int kept = 0;
	if (wire.kind >= UCX_SLOT)
		return c ? ucx_link_arrive(c, &wire, data, bytes, param) : UCS_OK;
	if (c)
		kept = arrive_for(c, &wire, data, bytes, param);
	else if (is_closed(w, wire.comm_id) && wire.kind == UCX_BYE)
		ucx_link_free_graves(w, &wire);
	else if (!is_closed(w, wire.comm_id))
		kept = hold_early(w, &wire, data, bytes, param);
	return kept ? UCS_INPROGRESS : UCS_OK;
}

void ucx_message_deliver_early(struct ucx_comm *c)
{
	static const ucp_am_recv_param_t plain;
	struct ucx_queue *early = &c->worker->early;

	for (struct ucx_held *before = NULL, *held = early->head; held;
	     held = before ? before->next : early->head) {
		if (held->wire.comm_id != c->params.comm_id || held->wire.to != (uint32_t)c->params.rank) {
			before = held;
			continue;
		}
		ucx_held_take(early, before);
		arrive_for(c, &held->wire, held->data, held->bytes, &plain);
		ucx_held_free(c->worker->ucp, held);
	}
}
