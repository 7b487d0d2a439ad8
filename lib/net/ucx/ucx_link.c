#define _GNU_SOURCE
#include "ucx_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/log.h"
#include "ucx_calibrate.h"
#include "ucx_message.h"

struct ucx_link *ucx_link_get(struct ucx_comm *c, int peer, int lane)
{
	struct ucx_peer *p;
	if (ucx_comm_peer(c, peer, &p))
		return NULL;
	struct ucx_link *l = p->links[lane];
	if (l || !(l = calloc(1, sizeof(*l))))
		return l;
	l->base.ops = &ucx_link_ops;
	l->base.peer = peer;
	l->base.direct = 1;
	l->base.lane = lane;
	l->base.slot_bytes = c->params.slots.bytes;
	l->worker = c->worker;
	l->comm = c;
	l->p = p;
	for (int i = 0; i < 2; i++)
		l->credits[i].link = l;
	l->lost = c->failure ? c->failure : p->state == UCX_PEER_FINE ? 0 : CORALE_EPEER;
	p->links[lane] = l;
	return l;
}

static int choose_depth(struct ucx_link *l)
{
	enum { PROBE_DEPTH = 4 };
	struct transport_slots slots = l->comm->params.slots;
	if (l->given)
		return l->memory->depth;
	if (l->base.lane == UCX_PROBE_LANE && slots.depth > PROBE_DEPTH)
		slots.depth = PROBE_DEPTH;
	return link_reserve(&slots, l->comm->params.rank);
}

/* Not counted by the kernel until it is used. */
static unsigned char *map_slots(size_t bytes)
{
	void *memory =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void ucx_link_enlarge(struct ucx_link *l, int sends)
{
	if (l->large[sends] || l->given)
		return;
	l->large[sends] = 1;
	madvise(sends ? l->base.out : l->slots,
		(size_t)(sends ? l->base.out_depth : l->base.in_depth) * l->base.slot_bytes, MADV_HUGEPAGE);
}

static int register_slots(struct ucx_link *l, unsigned char *slots, size_t bytes, ucp_mem_h *out)
{
	ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						      UCP_MEM_MAP_PARAM_FIELD_LENGTH |
						      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
					.address = slots,
					.length = bytes,
					.memory_type = UCS_MEMORY_TYPE_HOST };
	ucs_status_t status = ucp_mem_map(l->comm->worker->context, &params, out);
	return status == UCS_OK
		   ? 0
		   : log_error(ucx_code(status), l->comm->params.rank,
			       "transport ucx: cannot register %zu bytes of slots for rank %d: %s", bytes,
			       l->base.peer, ucs_status_string(status));
}

int ucx_link_slots(struct ucx_link *l, int sends, int *depth, unsigned char **slots, ucp_mem_h *memory)
{
	*depth = choose_depth(l);
	const size_t bytes = (size_t)*depth * l->base.slot_bytes;
	*slots = !l->given ? map_slots(bytes) : sends ? l->memory->out : l->memory->in;
	int ret = *slots ? register_slots(l, *slots, bytes, memory)
			 : log_error(CORALE_ENOMEM, l->comm->params.rank,
				     "transport ucx: no memory for %d slots of %zu bytes for rank %d", *depth,
				     l->base.slot_bytes, l->base.peer);
	if (ret && *slots && !l->given)
		munmap(*slots, bytes);
	return ret;
}

/* Tells the peer where the slots are. */
static int grant(struct ucx_link *l)
{
	struct ucx_comm *c = l->comm;
	struct ucx_grant grant = { .address = (uintptr_t)l->slots,
				   .tag = l->tag,
				   .depth = (uint64_t)l->base.in_depth,
				   .slot_bytes = l->base.slot_bytes };
	unsigned char payload[UCX_GRANT_BYTES];
	void *key;
	size_t key_bytes;
	ucs_status_t status = ucp_rkey_pack(c->worker->context, l->in_memory, &key, &key_bytes);
	if (status != UCS_OK || sizeof(grant) + key_bytes > sizeof(payload))
		return log_error(CORALE_ETRANSPORT, c->params.rank,
				 "transport ucx: no key for the slots of rank %d: %s", l->base.peer,
				 status == UCS_OK ? "it is too long" : ucs_status_string(status));
	memcpy(payload, &grant, sizeof(grant));
	memcpy(payload + sizeof(grant), key, key_bytes);
	ucp_rkey_buffer_release(key);
	return ucx_message_note(c, l->base.peer, l->base.lane, UCX_GRANT, 0, payload,
				sizeof(grant) + key_bytes);
}

int ucx_link_open_in(struct ucx_link *l)
{
	unsigned char *slots;
	int depth;
	if (l->ins)
		return 0;
	int ret = ucx_link_slots(l, 0, &depth, &slots, &l->in_memory);
	if (ret)
		return ret;
	l->ins = calloc((size_t)depth, sizeof(*l->ins));
	l->base.in = calloc((size_t)depth, sizeof(*l->base.in));
	if (!l->ins || !l->base.in || getrandom(&l->tag, sizeof(l->tag), 0) != sizeof(l->tag)) {
		free(l->ins);
		free(l->base.in);
		l->ins = NULL;
		l->base.in = NULL;
		ucp_mem_unmap(l->comm->worker->context, l->in_memory);
		if (!l->given)
			munmap(slots, (size_t)depth * l->base.slot_bytes);
		return log_error(CORALE_ENOMEM, l->comm->params.rank,
				 "transport ucx: no memory for a link to rank %d", l->base.peer);
	}
	for (int i = 0; i < depth; i++) {
		l->ins[i].link = l;
		l->base.in[i].data = slots + (size_t)i * l->base.slot_bytes;
	}
	l->slots = slots;
	l->base.in_depth = depth;
	return grant(l);
}

void ucx_link_want(struct ucx_comm *c, int peer, int lane)
{
	if (lane >= c->params.slots.lanes && lane != UCX_PROBE_LANE)
		return; /* its user makes it when it likes */
	struct ucx_link *l = c->failure ? NULL : ucx_link_get(c, peer, lane);
	if (l)
		ucx_link_open_in(l); /* on failure the peer waits, and this rank's log says why */
}

/*
 * UCX unpacks a key without knowing its length: a map of 64 memory domains and a byte of length for each lead it through at
 * most 16.1 KiB. In a copy with zeros behind it a key that was cut off, or lies, leads nowhere else.
 */
static ucs_status_t unpack_key(ucp_ep_h ep, const void *key, size_t bytes, ucp_rkey_h *out)
{
	enum { KEY_ROOM = 24 << 10 };
	union {
		uint64_t align;
		unsigned char bytes[KEY_ROOM];
	} room;

	memset(&room, 0, sizeof(room));
	memcpy(room.bytes, key, bytes);
	return ucp_ep_rkey_unpack(ep, room.bytes, out);
}

void ucx_link_grant(struct ucx_comm *c, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	struct ucx_grant grant;
	struct ucx_link *l = bytes > sizeof(grant) ? ucx_link_get(c, (int)wire->from, wire->lane) : NULL;
	if (!l || l->grant.depth) {
		ucx_message_refuse(c->worker, wire, bytes, "slots were granted before, or it says no place");
		return;
	}
	const int known = l->given || wire->lane < c->params.slots.lanes || wire->lane == UCX_PROBE_LANE;
	memcpy(&grant, data, sizeof(grant));
	if (!grant.depth || grant.depth > 1 << 20 || (known && grant.slot_bytes != l->base.slot_bytes)) {
		ucx_message_refuse(c->worker, wire, bytes, "its slots are not as they should be");
		return;
	}
	struct ucx_endpoint *e = l->p->endpoint;
	const unsigned char *address = ucx_comm_address(c, (int)wire->from)->worker;
	if (e->failed || ucx_endpoint_data(e, address, c->params.rank))
		return;
	ucs_status_t status =
	    unpack_key(e->data, (const unsigned char *)data + sizeof(grant), bytes - sizeof(grant), &l->key);
	if (status != UCS_OK) {
		ucx_message_refuse(c->worker, wire, bytes, ucs_status_string(status));
		return;
	}
	l->grant = grant;
	ucx_link_credited(l, 0);
}

/* ---- Arrivals ---- */

/* A slot's message is whole: publishes it, with those behind it that came earlier. */
static void publish(struct ucx_link *l, struct ucx_in *in)
{
	struct link *b = &l->base;
	const uint64_t depth = (uint64_t)b->in_depth;
	struct link_message *m = &b->in[in - l->ins];
	uint64_t arrived = atomic_load_explicit(&b->arrived, memory_order_relaxed);
	memcpy(m->header, in->wire.header, sizeof(m->header));
	m->bytes = in->wire.bytes;
	in->number += in->number ? depth : (uint64_t)(in - l->ins) + 1;
	while (l->ins[arrived % depth].number == arrived + 1)
		arrived++;
	atomic_store_explicit(&b->arrived, arrived, memory_order_release);
	if (b->lane == UCX_PROBE_LANE) {
		atomic_store_explicit(&b->taken, arrived, memory_order_relaxed);
		ucx_link_credit(l);
	}
}

static void received(struct ucx_in *in, ucs_status_t status, size_t bytes)
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
		ucx_endpoint_abandon(l->p->endpoint, CORALE_EPEER, "a message was cut off");
}

static void received_am(void *request, ucs_status_t status, size_t bytes, void *in)
{
	ucp_request_free(request);
	received(in, status, bytes);
}

static void received_tag(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *in)
{
	ucp_request_free(request);
	received(in, status, status == UCS_OK ? info->length : 0);
}

/* The payload comes by rendezvous, asked for with data, or by tag. */
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
				      .memh = l->in_memory,
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
		received(in, UCS_PTR_STATUS(request), data ? got : info.length);
}

/* Why no sender of ours made this message, or NULL; *number: which it is. */
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
	if (wire->kind == UCX_NOTICE && wire->way == UCX_WAY_AM)
		return "its payload should be with it";
	return NULL;
}

static ucs_status_t arrive_slot(struct ucx_link *l, const struct ucx_wire *wire, void *data, size_t bytes,
				const ucp_am_recv_param_t *param)
{
	uint64_t number = 0;
	const char *fault = fault_of(l, wire, &number);
	if (fault) {
		ucx_message_refuse(l->comm->worker, wire, bytes, fault);
		return UCS_OK;
	}
	struct ucx_in *in = &l->ins[number % (uint64_t)l->base.in_depth];
	in->wire = *wire;
	if (wire->bytes > UCX_EAGER_BYTES)
		ucx_link_enlarge(l, 0);
	if (wire->kind == UCX_SLOT && param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		receive(l, in, number, data);
		return UCS_INPROGRESS;
	}
	if (wire->kind == UCX_NOTICE && wire->way == UCX_WAY_TAG) {
		receive(l, in, number, NULL);
		return UCS_OK;
	}
	if (wire->kind == UCX_SLOT && bytes)
		memcpy(l->base.in[in - l->ins].data, data, bytes);
	publish(l, in);
	return UCS_OK;
}

ucs_status_t ucx_link_arrive(struct ucx_comm *c, const struct ucx_wire *wire, void *data, size_t bytes,
			     const ucp_am_recv_param_t *param)
{
	struct ucx_peer *p = wire->from < (uint32_t)c->params.size ? c->peers[wire->from] : NULL;
	struct ucx_link *l = p ? p->links[wire->lane] : NULL;
	if (!l) {
		ucx_message_refuse(c->worker, wire, bytes, "no slots were granted");
		return UCS_OK;
	}
	p->heard = 1;
	if (l->outs && l->grant.depth)
		ucx_link_credited(l, wire->number);
	return wire->kind == UCX_CREDIT ? UCS_OK : arrive_slot(l, wire, data, bytes, param);
}

/* ---- Doors ---- */

static struct ucx_link *of(struct link *l)
{
	return (struct ucx_link *)l;
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	struct ucx_comm *c = (struct ucx_comm *)t;
	ucx_lock(c->worker);
	struct ucx_link *l = ucx_link_get(c, params->peer, params->lane);
	uint64_t other = 0;
	if (l && params->memory) {
		l->given = 1;
		l->memory = params->memory;
		l->base.slot_bytes = params->memory->bytes;
		other = l->grant.depth && l->grant.slot_bytes != l->base.slot_bytes ? l->grant.slot_bytes : 0;
	}
	ucx_unlock(c->worker);
	if (!l)
		return CORALE_ENOMEM;
	if (other)
		return log_error(CORALE_EMISMATCH, params->rank,
				 "transport ucx: slots of %zu bytes where rank %d has %llu",
				 params->memory->bytes, params->peer, (unsigned long long)other);
	*out = &l->base;
	return 0;
}

/* While the communicator is open; calls made after a failure are refused. */
static int open_in(struct link *base)
{
	struct ucx_link *l = of(base);
	struct ucx_worker *w = l->comm->worker;
	ucx_lock(w);
	int ret = l->comm->failure ? l->comm->failure : ucx_link_open_in(l);
	base->in_open = !ret;
	ucx_unlock(w);
	return ret;
}

static int open_out(struct link *base)
{
	struct ucx_link *l = of(base);
	struct ucx_worker *w = l->comm->worker;
	ucx_lock(w);
	int ret = l->comm->failure ? l->comm->failure : ucx_link_open_out(l);
	base->out_open = !ret;
	ucx_unlock(w);
	return ret;
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct ucx_link *l = of(base);
	struct ucx_comm *c = l->comm;
	ucx_lock(c->worker);
	int ret = ucx_link_post(l, ucx_calibrate_way(c, base->peer), header, data, bytes);
	ucx_unlock(c->worker);
	return ret;
}

static int release(struct link *base)
{
	struct ucx_link *l = of(base);
	const uint64_t taken = link_taken(base) + 1,
		       half = base->in_depth > 1 ? (uint64_t)base->in_depth / 2 : 1;
	atomic_store_explicit(&base->taken, taken, memory_order_release);
	if (taken - atomic_load_explicit(&l->told, memory_order_relaxed) < half)
		return 0;
	ucx_lock(l->comm->worker);
	ucx_link_credit(l);
	ucx_unlock(l->comm->worker);
	return 0;
}

/* The peer is gone, or this side has failed; what had come before counts. */
static int poll_link(struct link *base, int sends)
{
	struct ucx_link *l = of(base);
	int code = atomic_load_explicit(&l->lost, memory_order_relaxed);
	if (!code)
		return 0;
	ucx_lock(l->comm->worker);
	const uint64_t arrived = atomic_load_explicit(&base->arrived, memory_order_relaxed);
	if (l->comm->failure)
		code = l->comm->failure;
	else if (!sends &&
		 (arrived > link_taken(base) || (l->p->state == UCX_PEER_LEFT && arrived < l->ends)))
		code = 0;
	else
		ucx_comm_report(l->comm, base->peer, code, transport_peer_left);
	ucx_unlock(l->comm->worker);
	return code;
}

static int is_sent(struct link *base)
{
	return !atomic_load_explicit(&of(base)->borrowed, memory_order_acquire);
}

const struct link_ops ucx_link_ops = {
	.open = open_link,
	.open_in = open_in,
	.open_out = open_out,
	.post = post,
	.release = release,
	.poll = poll_link,
	.sent = is_sent,
};
