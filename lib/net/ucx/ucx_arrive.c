/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and credits that come over a link: into its slots, whatever the scheme, and published in order. */
#include "ucx_link.h"

#include <string.h>

enum { READ_BACK_BYTES = 8 };

/* Host memory for inline messages of a slot in a GPU's memory. */
static unsigned char *inline_of(const struct ucx_link *l, const struct ucx_in *in)
{
	return l->inline_in + (in - l->ins) * LINK_INLINE_BYTES;
}

/* A slot's message is whole: publishes it, and later messages that came before it. */
static void publish(struct ucx_link *l, struct ucx_in *in)
{
	struct link *b = &l->base;
	const uint64_t depth = (uint64_t)b->in_depth;
	struct link_message *m = &b->in[in - l->ins];
	uint64_t arrived = atomic_load_explicit(&b->arrived, memory_order_relaxed);
	memcpy(m->header, in->wire.header, sizeof(m->header));
	m->bytes = in->wire.bytes;
	if (l->inline_in)
		m->data = m->bytes <= LINK_INLINE_BYTES ? inline_of(l, in) : NULL;
	in->number += in->number ? depth : (uint64_t)(in - l->ins) + 1;
	while (l->ins[arrived % depth].number == arrived + 1)
		arrived++;
	atomic_store_explicit(&b->arrived, arrived, memory_order_release);
	if (b->index == UCX_PROBE_LINK) {
		atomic_store_explicit(&b->taken, arrived, memory_order_relaxed);
		ucx_link_credit(l);
	}
}

static const char cut_off[] = "a message was cut off",
		  not_read[] = "the adapter could not read a message in a GPU's memory back";

static void received(struct ucx_in *in, ucs_status_t status, size_t bytes, const char *fault)
{
	struct ucx_link *l = in->link;
	in->receiving = NULL;
	if (!l->comm) {
		ucx_link_retire(l);
		return;
	}
	if (status == UCS_OK && bytes == in->wire.bytes)
		publish(l, in);
	else if (l->p->state != UCX_PEER_LOST)
		ucx_endpoint_abandon(l->p->endpoint, CORALE_EPEER, fault);
}

/* Uses the slab of the slots, because the communicator may be closed. */
static void read_back(void *request, ucs_status_t status, void *arg)
{
	struct ucx_in *in = arg;
	ucp_request_free(request);
	ucx_slab_read_ended(in->slab);
	received(in, status, in->wire.bytes, not_read);
}

/* A message was put into a GPU's slot: reads back an inline message, or, where the GPU needs that, the last bytes of another. */
static void arrive_in_gpu(struct ucx_link *l, struct ucx_in *in)
{
	struct link_slab *slab = ucx_link_slab(l);
	const size_t i = (size_t)(in - l->ins), bytes = in->wire.bytes,
		     n = bytes <= LINK_INLINE_BYTES ? bytes : READ_BACK_BYTES;
	ucp_request_param_t param = ucx_request(read_back, in);
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
	param.memory_type = UCS_MEMORY_TYPE_HOST;
	if (l->comm->failure)
		return; /* nobody waits for it, and its slab may be unmapped soon */
	if (!bytes || (bytes > LINK_INLINE_BYTES && !slab->reads_back)) {
		publish(l, in);
		return;
	}
	void *request =
	    ucx_slab_read(slab, l->in.at + i * l->base.slot_bytes + bytes - n, n, inline_of(l, in), &param);
	l->comm->worker->nudge = 1;
	in->slab = slab;
	if (UCS_PTR_IS_PTR(request))
		in->receiving = request;
	else
		received(in, UCS_PTR_STATUS(request), bytes, not_read);
}

static void received_am(void *request, ucs_status_t status, size_t bytes, void *in)
{
	ucp_request_free(request);
	received(in, status, bytes, cut_off);
}

static void received_tag(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *in)
{
	ucp_request_free(request);
	received(in, status, status == UCS_OK ? info->length : 0, cut_off);
}

/* Receives the payload by rendezvous, for which `data` asks, or by tag. */
static void receive(struct ucx_link *l, struct ucx_in *in, uint64_t number, void *data)
{
	ucp_worker_h ucp = l->comm->worker->ucp;
	void *slot = l->base.in[in - l->ins].data, *request;
	ucp_tag_recv_info_t info = { .length = 0 };
	size_t got = 0;
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA |
						      UCP_OP_ATTR_FIELD_MEMORY_TYPE |
						      UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FIELD_MEMH,
				      .user_data = in,
				      .memh = l->in.memory,
				      .memory_type = UCS_MEMORY_TYPE_HOST };
	if (data) {
		param.recv_info.length = &got;
		param.cb.recv_am = received_am;
		request = ucp_am_recv_data_nbx(ucp, data, slot, in->wire.bytes, &param);
	} else {
		param.recv_info.tag_info = &info;
		param.cb.recv = received_tag;
		request = ucp_tag_recv_nbx(ucp, slot, in->wire.bytes, l->tag + number, UINT64_MAX, &param);
	}
	if (UCS_PTR_IS_PTR(request))
		in->receiving = request;
	else
		received(in, UCS_PTR_STATUS(request), data ? got : info.length, cut_off);
}

/* Why Corale cannot have sent this payload to these slots, or NULL. */
static const char *form_fault(const struct ucx_link *l, const struct ucx_wire *wire)
{
	const int is_apart = wire->kind == UCX_NOTICE;
	if (ucx_link_slab(l) && (is_apart ? wire->scheme != UCX_SCHEME_PUT : wire->bytes > LINK_INLINE_BYTES))
		return "its payload was not put, as a slot in a GPU's memory takes it";
	if (is_apart && wire->scheme == UCX_SCHEME_AM)
		return "its payload should be with it";
	if (is_apart && !ucx_link_slab(l) && wire->bytes <= UCX_EAGER_BYTES)
		return "it speaks of a payload that is too small to travel apart";
	return NULL;
}

/* Why Corale cannot have sent this message, or NULL; *number: its number. */
static const char *fault_of(const struct ucx_link *l, const struct ucx_wire *wire, uint64_t *number)
{
	if (!l->ins)
		return "no slots were granted";
	const uint64_t taken = link_taken(&l->base), depth = (uint64_t)l->base.in_depth;
	const int32_t ahead = (int32_t)(wire->sequence - (uint32_t)taken);
	*number = taken + (uint64_t)(int64_t)ahead;
	if (ahead < 0 || (uint64_t)ahead >= depth)
		return "no slot is free for the message of its number";
	const struct ucx_in *in = &l->ins[*number % depth];
	if (in->number > *number || in->receiving)
		return "a message of its number is there already";
	if (wire->bytes > l->base.slot_bytes)
		return "it is longer than a slot";
	return form_fault(l, wire);
}

static ucs_status_t arrive_slot(struct ucx_link *l, const struct ucx_wire *wire, void *data, size_t bytes,
				const ucp_am_recv_param_t *param)
{
	uint64_t number = 0;
	const char *fault = fault_of(l, wire, &number);
	if (fault) {
		ucx_wire_refuse(&l->comm->worker->refused, wire, bytes, fault);
		return UCS_OK;
	}
	struct ucx_in *in = &l->ins[number % (uint64_t)l->base.in_depth];
	in->wire = *wire;
	if (wire->bytes > UCX_EAGER_BYTES) {
		ucx_link_enlarge(
		    l); /* both ends have one, or none; an error was logged, and answers go as before */
		ucx_slots_enlarge(l->worker, &l->in);
	}
	if (wire->kind == UCX_NOTICE && ucx_link_slab(l)) {
		arrive_in_gpu(l, in);
		return UCS_OK;
	}
	if (wire->kind == UCX_SLOT && param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		receive(l, in, number, data);
		return UCS_INPROGRESS;
	}
	if (wire->kind == UCX_NOTICE && wire->scheme == UCX_SCHEME_TAG) {
		receive(l, in, number, NULL);
		return UCS_OK;
	}
	if (wire->kind == UCX_SLOT && bytes)
		memcpy(l->inline_in ? inline_of(l, in) : l->base.in[in - l->ins].data, data, bytes);
	publish(l, in);
	return UCS_OK;
}

ucs_status_t ucx_link_arrive(struct ucx_comm *c, const struct ucx_wire *wire, void *data, size_t bytes,
			     const ucp_am_recv_param_t *param)
{
	struct ucx_peer *p = wire->from < (uint32_t)c->params.size ? c->peers[wire->from] : NULL;
	struct ucx_link *l = p ? p->links[wire->index] : NULL;
	if (!l) {
		ucx_wire_refuse(&c->worker->refused, wire, bytes, "no slots were granted");
		return UCS_OK;
	}
	p->has_answered = 1;
	if (l->outs && l->grant.depth)
		ucx_link_credited(l, wire->number);
	return wire->kind == UCX_CREDIT ? UCS_OK : arrive_slot(l, wire, data, bytes, param);
}
