#include "ucx_message.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "ucx_calibrate.h"

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
		ucx_comm_report(c, peer, CORALE_EPEER, "the peer has closed its side");
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
	wire->way = (uint8_t)ucx_calibrate_way(c, peer);
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
	for (struct ucx_held **at = &lane->held; *at; at = &(*at)->next) {
		struct ucx_held *held = *at;
		if (held->wire.sequence == sequence) {
			*at = held->next;
			held->next = NULL;
			return held;
		}
	}
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
	if (!held && p->state != UCX_PEER_FINE) {
		ucx_comm_report(c, peer, CORALE_EPEER, "the peer has closed its side");
		return CORALE_EPEER;
	}
	struct ucx_op *op = ucx_op_new(c, peer, lane, request);
	if (!op) {
		ucx_comm_free_held(c->worker, held);
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
	ucx_comm_free_held(c->worker, held);
	return 0;
}

int ucx_message_note(struct ucx_comm *c, int peer, enum ucx_kind kind, const void *text, size_t bytes)
{
	struct ucx_op *op = ucx_op_new(c, peer, 0, NULL);
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
	return ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, op->extra, bytes, NULL);
}

/* Keeps a message; 1 if data is kept too and UCX must not free it. */
static int hold(struct ucx_held **list, const struct ucx_wire *wire, void *data, size_t bytes,
		const ucp_am_recv_param_t *param)
{
	struct ucx_held *held = calloc(1, sizeof(*held));
	if (!held)
		goto lose;
	held->wire = *wire;
	held->bytes = bytes;
	held->from_ucx = bytes && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA);
	if (held->from_ucx) {
		held->data = data;
	} else if (bytes) {
		if (!(held->data = malloc(bytes)))
			goto lose;
		memcpy(held->data, data, bytes);
	}
	while (*list)
		list = &(*list)->next;
	*list = held;
	return held->from_ucx;
lose:
	free(held);
	log_error(CORALE_ENOMEM, (int)wire->to,
		  "transport ucx: lost a message of rank %u: no memory for %zu bytes", wire->from, bytes);
	return 0;
}

static int arrive_message(struct ucx_comm *c, struct ucx_peer *p, const struct ucx_wire *wire, void *data,
			  size_t bytes, const ucp_am_recv_param_t *param)
{
	if (wire->lane > UCX_PROBE_LANE)
		return 0;
	if (wire->lane == UCX_PROBE_LANE) {
		ucx_calibrate_receive(c, wire);
		return 0;
	}
	struct ucx_op *op = take_posted(&p->lanes[wire->lane], wire->sequence);
	if (!op)
		return hold(&p->lanes[wire->lane].held, wire, data, bytes, param);
	meet(op, wire, data);
	return 0;
}

/* Something for an open communicator; 1 if data is kept. */
static int arrive_for(struct ucx_comm *c, const struct ucx_wire *wire, void *data, size_t bytes,
		      const ucp_am_recv_param_t *param)
{
	struct ucx_peer *p;
	if (wire->from >= (uint32_t)c->params.size || ucx_comm_peer(c, (int)wire->from, &p))
		return 0;
	p->heard = 1;
	switch (wire->kind) {
	case UCX_BYE:
		ucx_comm_peer_left(c, (int)wire->from);
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

/* The answer to an announcement. */
static void arrive_cts(struct ucx_worker *w, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	struct ucx_op *op = ucx_op_find(w, wire->send_id);
	if (op) {
		ucx_way_answer(op, wire, data, bytes);
		return;
	}
	struct ucx_comm *c = ucx_comm_find(w, wire->comm_id, wire->to);
	struct ucx_op *note = c && c->peers[wire->from] ? ucx_op_new(c, (int)wire->from, 0, NULL) : NULL;
	if (note) {
		ucx_op_wire(note, 0, UCX_GONE)->recv_id = wire->recv_id;
		ucx_op_send(note, 0, UCP_AM_SEND_FLAG_EAGER, NULL, 0, NULL);
	}
}

static void arrive_end(struct ucx_worker *w, const struct ucx_wire *wire)
{
	struct ucx_op *op = ucx_op_find(w, wire->recv_id);
	if (!op)
		return;
	if (op->receiving)
		ucp_request_cancel(w->ucp, op->receiving);
	else
		ucx_op_finish(op, wire->kind == UCX_FIN ? op->status : CORALE_EPEER);
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
	struct ucx_wire wire;
	if (header_bytes != sizeof(wire))
		return UCS_OK;
	memcpy(&wire, header, sizeof(wire));
	switch (wire.kind) {
	case UCX_CTS:
		arrive_cts(w, &wire, data, bytes);
		return UCS_OK;
	case UCX_DATA:
		return ucx_way_data(w, &wire, data, bytes, param);
	case UCX_FIN:
	case UCX_GONE:
		arrive_end(w, &wire);
		return UCS_OK;
	}
	struct ucx_comm *c = ucx_comm_find(w, wire.comm_id, wire.to);
	int kept = 0;
	if (c)
		kept = arrive_for(c, &wire, data, bytes, param);
	else if (!is_closed(w, wire.comm_id))
		kept = hold(&w->early, &wire, data, bytes, param);
	return kept ? UCS_INPROGRESS : UCS_OK;
}

void ucx_message_deliver_early(struct ucx_comm *c)
{
	static const ucp_am_recv_param_t plain;
	struct ucx_held **at = &c->worker->early;

	while (*at) {
		struct ucx_held *held = *at;
		if (held->wire.comm_id != c->params.comm_id || held->wire.to != (uint32_t)c->params.rank) {
			at = &held->next;
			continue;
		}
		*at = held->next;
		held->next = NULL;
		arrive_for(c, &held->wire, held->data, held->bytes, &plain);
		ucx_comm_free_held(c->worker, held);
	}
}
