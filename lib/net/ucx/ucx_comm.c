/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"

void ucx_comm_free(struct ucx_comm *c)
{
	if (!c)
		return;
	for (int r = 0; c->peers && r < c->params.size; r++)
		free(c->peers[r]);
	for (struct ucx_event *event = c->events, *next; event; event = next) {
		next = event->next;
		free(event);
	}
	free(c->peers);
	free(c->address);
	free(c);
}

/* The scheme named by CORALE_UCX_MESSAGE, or -1. */
static int forced_way(const struct settings *settings)
{
	for (int scheme = 0; scheme < UCX_SCHEMES; scheme++)
		if (!strcmp(settings->ucx_message, ucx_scheme_names[scheme]))
			return scheme;
	return -1;
}

struct ucx_comm *ucx_comm_new(const struct transport_params *params)
{
	struct ucx_comm *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->params = *params;
	c->params.devices = NULL; /* of the caller, for a while */
	c->events_end = &c->events;
	c->forced = forced_way(params->settings);
	c->peers = calloc((size_t)params->size, sizeof(struct ucx_peer *));
	if (c->peers)
		return c;
	ucx_comm_free(c);
	return NULL;
}

struct ucx_comm *ucx_comm_find(struct ucx_worker *w, uint64_t comm_id, uint32_t rank)
{
	for (struct ucx_comm *c = w->comms; c; c = c->next)
		if (c->params.comm_id == comm_id && c->params.rank == (int)rank)
			return c;
	return NULL;
}

struct note {
	struct ucx_wire wire;
	unsigned char payload[];
};

static void note_sent(void *request, ucs_status_t status, void *note)
{
	(void)status; /* the endpoint's error handler reports a failed connection */
	if (request)
		ucp_request_free(request);
	free(note);
}

int ucx_comm_note(struct ucx_comm *c, int peer, int index, enum ucx_kind kind, uint64_t number,
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
					.index = (uint16_t)index,
					.kind = (uint8_t)kind,
					.bytes = bytes,
					.number = number };
	if (bytes)
		memcpy(note->payload, payload, bytes);
	ucp_request_param_t param = ucx_request(note_sent, note);
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
	param.flags = UCP_AM_SEND_FLAG_EAGER | (kind == UCX_HELLO ? UCP_AM_SEND_FLAG_REPLY : 0u);
	param.memory_type = UCS_MEMORY_TYPE_HOST;
	void *request =
	    ucp_am_send_nbx(e->ep, 0, &note->wire, sizeof(note->wire), note->payload, bytes, &param);
	if (!ucx_goes_on(c->worker, request))
		note_sent(NULL, UCS_PTR_STATUS(request), note);
	return UCS_PTR_IS_ERR(request) ? ucx_code(UCS_PTR_STATUS(request)) : 0;
}

int ucx_comm_tell(struct ucx_worker *w, ucp_ep_h ep, const struct ucx_wire *wire)
{
	struct note *note = malloc(sizeof(*note));
	if (!note)
		return CORALE_ENOMEM;
	note->wire = *wire;
	ucp_request_param_t param = ucx_request(note_sent, note);
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
	param.flags = UCP_AM_SEND_FLAG_EAGER | (wire->kind == UCX_PING ? UCP_AM_SEND_FLAG_REPLY : 0u);
	void *request = ucp_am_send_nbx(ep, 0, &note->wire, sizeof(note->wire), NULL, 0, &param);
	if (!ucx_goes_on(w, request))
		note_sent(NULL, UCS_PTR_STATUS(request), note);
	return 0;
}

void ucx_comm_refuse(struct ucx_worker *w, ucp_ep_h ep, const struct ucx_wire *hello)
{
	ucx_comm_tell(w, ep,
		      &(struct ucx_wire){ .comm_id = hello->comm_id,
					  .from = hello->to,
					  .to = hello->from,
					  .kind = UCX_BYE,
					  .number = UCX_BYE_UNMET });
}

static const char unreached[] = "no connection to it can be made; if its process lives, CORALE_NET_DEVICES "
				"and UCX_TLS leave no network that both share";

int ucx_comm_peer(struct ucx_comm *c, int rank, struct ucx_peer **out)
{
	struct ucx_peer *p = c->peers[rank];
	if (!p) {
		if (!(p = calloc(1, sizeof(*p))))
			return log_error(CORALE_ENOMEM, c->params.rank,
					 "transport ucx: no memory for peer %d", rank);
		const struct ucx_address *a = ucx_comm_address(c, rank);
		int ret = ucx_endpoint_get(c->worker, a->uid, a->worker, c->params.rank, &p->endpoint);
		if (ret) {
			free(p);
			if (ret == CORALE_EPEER) /* no connection will say that it has ended */
				ucx_comm_add_event(c, rank, ret, unreached, sizeof(unreached));
			return ret;
		}
		p->lost = c->failure;
		c->peers[rank] = p;
		ucx_comm_note(c, rank, 0, UCX_HELLO, 0, NULL, 0);
	}
	if (p->endpoint->failed && p->state == UCX_PEER_FINE)
		ucx_comm_peer_lost(c, rank, p->endpoint->failed, p->endpoint->reason);
	*out = p;
	return 0;
}

void ucx_comm_add_event(struct ucx_comm *c, int peer, int code, const void *text, size_t bytes)
{
	struct ucx_event *event = calloc(1, sizeof(*event));
	if (!event) {
		log_error(CORALE_ENOMEM, c->params.rank, "transport ucx: no memory for news of rank %d",
			  peer);
		return;
	}
	event->peer = peer;
	event->code = code;
	event->bytes = bytes < sizeof(event->text) ? bytes : sizeof(event->text);
	if (bytes)
		memcpy(event->text, text, event->bytes);
	c->worker->news = c->worker->nudge = 1;
	*c->events_end = event;
	c->events_end = &event->next;
}

void ucx_comm_report(struct ucx_comm *c, int rank, int code, const char *reason)
{
	struct ucx_peer *p = c->peers[rank];
	if (p->reported)
		return;
	p->reported = 1;
	ucx_comm_add_event(c, rank, code, reason, strlen(reason) + 1);
}

void ucx_comm_peer_left(struct ucx_comm *c, int rank)
{
	struct ucx_peer *p = c->peers[rank];
	if (!p || p->state != UCX_PEER_FINE)
		return;
	p->state = UCX_PEER_LEFT;
	p->lost = CORALE_EPEER;
}

void ucx_comm_peer_lost(struct ucx_comm *c, int rank, int code, const char *reason)
{
	struct ucx_peer *p = c->peers[rank];
	if (!p || p->state == UCX_PEER_LOST)
		return;
	if (p->state == UCX_PEER_FINE)
		ucx_comm_report(c, rank, code, reason);
	p->state = UCX_PEER_LOST;
	p->lost_ns = wait_now_ns();
	p->lost = code;
}

void ucx_comm_fail(struct ucx_comm *c, int code)
{
	if (!c->failure)
		c->failure = code;
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r])
			c->peers[r]->lost = c->failure;
}

void ucx_comm_reap(struct ucx_worker *w)
{
	w->failures = 0;
	ucx_endpoint_reap_loop(w);
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next) {
		if (!e->failed || e->closed)
			continue;
		ucx_endpoint_close(e);
		for (struct ucx_comm *c = w->comms; c; c = c->next)
			for (int r = 0; r < c->params.size; r++)
				if (c->peers[r] && c->peers[r]->endpoint == e)
					ucx_comm_peer_lost(c, r, e->failed, e->reason);
	}
}

static void call_handlers(struct ucx_comm *c, struct ucx_event *events)
{
	for (struct ucx_event *event = events, *next; event; event = next) {
		next = event->next;
		if (event->code)
			c->params.on_failure(c->params.handler_ctx, event->peer, event->code, event->text);
		else
			c->params.on_control(c->params.handler_ctx, event->peer, event->text, event->bytes);
		free(event);
	}
}

int ucx_comm_dispatch(struct ucx_worker *w)
{
	int any = 0;

	ucx_lock(w);
	w->news = 0;
	for (struct ucx_comm *c = w->comms; c; c = c->next) {
		if (c->dispatching)
			continue; /* by a thread that also handles events that come meanwhile */
		c->dispatching = 1; /* so c stays open, and its events in order */
		while (c->events) {
			struct ucx_event *events = c->events;
			c->events = NULL;
			c->events_end = &c->events;
			ucx_unlock(w);
			call_handlers(c, events);
			ucx_lock(w);
			any = 1;
		}
		c->dispatching = 0;
	}
	ucx_unlock(w);
	return any;
}
