/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side of links: messages, by the scheme that was measured, and credits. */
#include <string.h>

#include "ucx_link.h"

/* Messages may be posted as far as the peer has room, and as far as UCX has released slots here. */
static void set_limit(struct ucx_link *l)
{
	const uint64_t there = l->peer_taken + l->grant.depth, here = l->done + (uint64_t)l->base.out_depth;
	if (l->outs && l->grant.depth)
		atomic_store_explicit(&l->base.limit, there < here ? there : here, memory_order_release);
}

void ucx_link_credited(struct ucx_link *l, uint64_t taken)
{
	if (taken <= l->base.posted && taken > l->peer_taken) /* else an older one came later */
		l->peer_taken = taken;
	set_limit(l);
}

/* On a working connection UCX cancels only requests for which it finds no protocol. */
static void not_sent(struct ucx_link *l, ucs_status_t status)
{
	if (status == UCS_ERR_CANCELED && ucx_link_slab(l))
		ucx_endpoint_abandon(
		    l->p->endpoint, CORALE_ETRANSPORT,
		    "UCX has no way to put from one GPU's memory into another's; its own log may say why");
	else
		ucx_endpoint_lost(l->p->endpoint, status);
}

/* A UCX request of a message has ended. */
static void let_go(struct ucx_out *out, ucs_status_t status)
{
	struct ucx_link *l = out->link;
	if (!--out->busy && out->data) {
		out->data = NULL;
		atomic_fetch_sub_explicit(&l->borrowed, 1, memory_order_release);
	}
	if (!l->comm) {
		ucx_link_retire(l);
		return;
	}
	if (status != UCS_OK)
		not_sent(l, status);
	while (l->done < l->base.posted && !l->outs[l->done % (uint64_t)l->base.out_depth].busy)
		l->done++;
	set_limit(l);
}

static void sent(void *request, ucs_status_t status, void *out)
{
	ucp_request_free(request);
	let_go(out, status);
}

static void take(struct ucx_out *out, void *request)
{
	if (!ucx_goes_on(out->link->worker, request))
		let_go(out, UCS_PTR_STATUS(request));
}

static const void *payload_of(const struct ucx_out *out)
{
	const struct ucx_link *l = out->link;
	const size_t i = (size_t)(out - l->outs);
	if (out->is_inline)
		return l->inline_out + i * LINK_INLINE_BYTES;
	return out->data ? out->data : l->base.out + i * l->base.slot_bytes;
}

static ucp_request_param_t param_of(struct ucx_out *out)
{
	ucp_request_param_t param = ucx_request(sent, out);
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
	param.memh = out->link->out.memory;
	param.memory_type = UCS_MEMORY_TYPE_HOST;
	if (!out->data && !out->is_inline)
		param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
	return param;
}

/* The message itself, or its notice: bytes of payload go with it. */
static void send_am(struct ucx_out *out, unsigned flags, size_t bytes)
{
	ucp_request_param_t param = param_of(out);
	param.flags = flags;
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
	if (!bytes)
		param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_MEMH;
	out->busy++;
	take(out, ucp_am_send_nbx(out->link->p->endpoint->data, 0, &out->wire, sizeof(out->wire),
				  bytes ? payload_of(out) : NULL, bytes, &param));
}

static void send_tag(struct ucx_out *out)
{
	ucp_request_param_t param = param_of(out);
	const struct ucx_link *l = out->link;
	out->busy++;
	take(out, ucp_tag_send_nbx(l->p->endpoint->data, payload_of(out), out->bytes,
				   l->grant.tag + (l->base.posted - 1), &param));
}

/* The put is complete at the peer: its notice may follow. */
static void flushed(void *request, ucs_status_t status, void *arg)
{
	struct ucx_out *out = arg;
	if (request)
		ucp_request_free(request);
	if (status == UCS_OK && out->link->comm && !out->link->p->endpoint->failed)
		send_am(out, UCP_AM_SEND_FLAG_EAGER, 0);
	let_go(out, status);
}

static void send_put(struct ucx_out *out, int ordered)
{
	ucp_request_param_t param = param_of(out);
	struct ucx_link *l = out->link;
	ucp_ep_h ep = l->p->endpoint->data;
	const uint64_t place = (l->base.posted - 1) % l->grant.depth * l->grant.slot_bytes;
	l->p->endpoint->has_put = 1;
	if (ucx_link_slab(l)) { /* a put that may end at once is one that the CPU reads */
		param.memory_type = UCS_MEMORY_TYPE_CUDA;
		param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
	}
	out->busy++;
	take(out, ucp_put_nbx(ep, payload_of(out), out->bytes, l->grant.address + place, l->key, &param));
	if (ordered) {
		send_am(out, UCP_AM_SEND_FLAG_EAGER, 0);
		return;
	}
	param = ucx_request(flushed, out);
	out->busy++;
	void *request = ucp_ep_flush_nbx(ep, &param);
	if (!ucx_goes_on(l->worker, request))
		flushed(NULL, UCS_PTR_STATUS(request), out);
}

/* 0, or why nothing can be sent. */
static int refuse(struct ucx_link *l)
{
	struct ucx_comm *c = l->comm;
	if (c->failure)
		return c->failure;
	if (l->p->state == UCX_PEER_FINE && !l->p->endpoint->failed)
		return 0;
	if (l->p->state == UCX_PEER_FINE) /* its connection has failed, and no handler has run yet */
		ucx_comm_peer_lost(c, l->base.peer, l->p->endpoint->failed, l->p->endpoint->reason);
	ucx_comm_report(c, l->base.peer, CORALE_EPEER, transport_peer_left);
	return CORALE_EPEER;
}

static struct ucx_wire *fill_wire(struct ucx_link *l, struct ucx_wire *wire, enum ucx_kind kind)
{
	const uint64_t taken = atomic_load_explicit(&l->base.taken, memory_order_acquire);
	*wire = (struct ucx_wire){ .comm_id = l->comm->params.comm_id,
				   .from = (uint32_t)l->comm->params.rank,
				   .to = (uint32_t)l->base.peer,
				   .index = (uint16_t)l->base.index,
				   .kind = (uint8_t)kind,
				   .number = taken };
	atomic_store_explicit(&l->taken_sent, taken, memory_order_relaxed);
	return wire;
}

/* Messages in a GPU's slots go by put, inline messages by active message. Where UCX would emulate a put by active messages that the receiver answers, an
 * active message is sent instead. */
static int is_eager(const struct ucx_link *l, enum ucx_scheme scheme, const void *data, size_t bytes)
{
	if (ucx_link_slab(l))
		return data || !bytes;
	return bytes <= UCX_EAGER_BYTES || (scheme == UCX_SCHEME_PUT && l->p->endpoint->class->emulates_put);
}

int ucx_link_post(struct ucx_link *l, enum ucx_scheme scheme, const void *header, const void *data,
		  size_t bytes)
{
	const uint64_t slot = l->base.posted % (uint64_t)l->base.out_depth;
	struct ucx_out *out = &l->outs[slot];
	int ret = refuse(l);
	if (!ret && bytes > UCX_EAGER_BYTES)
		ret = ucx_link_enlarge(l);
	if (ret)
		return ret;
	if (scheme == UCX_SCHEMES)
		scheme = ucx_comm_way(l->comm, l->base.peer);
	const int small = is_eager(l, scheme, data, bytes);
	if (ucx_link_slab(l)) {
		scheme = UCX_SCHEME_PUT;
		out->is_inline = data != NULL;
		if (data)
			memcpy(l->inline_out + slot * LINK_INLINE_BYTES, data, bytes);
		data = NULL;
	}
	struct ucx_wire *wire =
	    fill_wire(l, &out->wire, small || scheme == UCX_SCHEME_AM ? UCX_SLOT : UCX_NOTICE);
	wire->sequence = (uint32_t)l->base.posted;
	wire->scheme = (uint8_t)(small ? 0 : scheme);
	wire->bytes = bytes;
	memcpy(wire->header, header, sizeof(wire->header));
	out->bytes = bytes;
	out->data = data;
	if (data)
		atomic_fetch_add_explicit(&l->borrowed, 1, memory_order_relaxed);
	out->busy = 1; /* until all its requests are started */
	l->base.posted++;
	if (!small && !data)
		ucx_slots_enlarge(l->worker, &l->out);
	if (small || scheme == UCX_SCHEME_AM) {
		send_am(out, small ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV, bytes);
	} else if (scheme == UCX_SCHEME_TAG) {
		send_am(out, UCP_AM_SEND_FLAG_EAGER, 0);
		send_tag(out);
	} else {
		send_put(out, l->p->endpoint->class->ordered);
	}
	let_go(out, UCS_OK);
	return 0;
}

/* ---- Credits ---- */

static void credit_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_credit *credit = arg;
	struct ucx_link *l = credit->link;
	(void)status; /* the endpoint's error handler reports a failed connection */
	if (request)
		ucp_request_free(request);
	credit->busy = 0;
	if (l->comm)
		ucx_link_credit(l);
	else
		ucx_link_retire(l);
}

void ucx_link_credit(struct ucx_link *l)
{
	struct ucx_comm *c = l->comm;
	struct ucx_endpoint *e = l->p->endpoint;
	struct ucx_credit *credit = l->credits[0].busy ? &l->credits[1] : &l->credits[0];
	if (!ucx_link_owes_credit(l) || credit->busy || l->p->state != UCX_PEER_FINE || e->failed)
		return;
	fill_wire(l, &credit->wire, UCX_CREDIT);
	ucp_request_param_t param = ucx_request(credit_sent, credit);
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
	param.flags = UCP_AM_SEND_FLAG_EAGER;
	credit->busy = 1;
	void *request = ucp_am_send_nbx(e->data, 0, &credit->wire, sizeof(credit->wire), NULL, 0, &param);
	if (!ucx_goes_on(c->worker, request))
		credit_sent(NULL, UCS_PTR_STATUS(request), credit);
}
