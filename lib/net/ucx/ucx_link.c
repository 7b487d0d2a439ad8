/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ucx_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/wait.h"

enum {
	READ_NS = 20 * 1000 *
		  1000, /* after a connection was lost, for which what has come over the other one is read; */
	SENT_NS = 1000 * 1000 * 1000 /* and for which messages are awaited that the peer has sent */
};

struct ucx_link *ucx_link_get(struct ucx_comm *c, int peer, int index)
{
	struct ucx_peer *p;
	if (ucx_comm_peer(c, peer, &p))
		return NULL;
	struct ucx_link *l = p->links[index];
	if (l || !(l = calloc(1, sizeof(*l))))
		return l;
	const struct link_params params = { .peer = peer, .index = index, .slots = &c->params.slots };
	link_init(&l->base, &ucx_link_ops, &params);
	l->base.direct = 1;
	l->worker = c->worker;
	l->comm = c;
	l->p = p;
	for (int i = 0; i < 2; i++)
		l->credits[i].link = l;
	p->links[index] = l;
	/* Shared memory is faster for small messages and credits, too. An error was logged: they go as notes do. */
	if (c->worker->has_memory)
		ucx_link_enlarge(l);
	return l;
}

/* Grants the slots to the peer: sends their address and key. */
static int grant(struct ucx_link *l)
{
	struct ucx_comm *c = l->comm;
	struct ucx_grant grant = { .address = (uintptr_t)l->in.at,
				   .tag = l->tag,
				   .depth = (uint64_t)l->base.in_depth,
				   .slot_bytes = l->base.slot_bytes };
	unsigned char payload[UCX_GRANT_BYTES];
	void *key;
	size_t key_bytes;
	ucs_status_t status = ucp_rkey_pack(c->worker->context, l->in.memory, &key, &key_bytes);
	if (status != UCS_OK || sizeof(grant) + key_bytes > sizeof(payload))
		return log_error(CORALE_ETRANSPORT, c->params.rank,
				 "transport ucx: no key for the slots of rank %d: %s", l->base.peer,
				 status == UCS_OK ? "it is too long" : ucs_status_string(status));
	memcpy(payload, &grant, sizeof(grant));
	memcpy(payload + sizeof(grant), key, key_bytes);
	ucp_rkey_buffer_release(key);
	return ucx_comm_note(c, l->base.peer, l->base.index, UCX_GRANT, 0, payload,
			     sizeof(grant) + key_bytes);
}

static int depth_of(const struct ucx_link *l)
{
	enum { PROBE_DEPTH = 4 };
	struct transport_slots slots = l->comm->params.slots;
	if (l->memory)
		return l->memory->depth;
	if (l->base.index == UCX_PROBE_LINK && slots.depth > PROBE_DEPTH)
		slots.depth = PROBE_DEPTH;
	return link_reserve(&slots, l->comm->params.rank);
}

/* Host memory for inline messages of slots in a GPU's memory. */
static int make_inline(const struct ucx_link *l, size_t depth, unsigned char **at)
{
	return !ucx_link_slab(l) || *at || (*at = calloc(depth, LINK_INLINE_BYTES));
}

static int no_memory(const struct ucx_link *l)
{
	return log_error(CORALE_ENOMEM, l->comm->params.rank,
			 "transport ucx: no memory for a link to rank %d", l->base.peer);
}

/* Makes the slots for messages of the peer, once, and grants them; 0 or an error. */
static int make_in(struct ucx_link *l)
{
	struct link *b = &l->base;
	if (l->ins)
		return 0;
	const size_t depth = (size_t)depth_of(l);
	struct ucx_in *ins = calloc(depth, sizeof(*ins));
	struct link_message *messages = calloc(depth, sizeof(*messages));
	int ret = ins && messages && make_inline(l, depth, &l->inline_in) &&
			  getrandom(&l->tag, sizeof(l->tag), 0) == sizeof(l->tag)
		      ? ucx_slots_make(&l->in, l->comm, b->peer, l->memory, 0, depth * b->slot_bytes)
		      : no_memory(l);
	if (ret) {
		free(ins);
		free(messages);
		return ret;
	}
	for (size_t i = 0; i < depth; i++) {
		ins[i].link = l;
		messages[i].data = ucx_link_slab(l) ? NULL : l->in.at + i * b->slot_bytes;
	}
	l->ins = ins;
	b->in = messages;
	b->in_depth = (int)depth;
	return grant(l);
}

/* Makes the slots to send from, once; 0 or an error. */
static int make_out(struct ucx_link *l)
{
	struct link *b = &l->base;
	if (l->outs)
		return 0;
	const size_t depth = (size_t)depth_of(l);
	struct ucx_out *outs = calloc(depth, sizeof(*outs));
	int ret = outs && make_inline(l, depth, &l->inline_out)
		      ? ucx_slots_make(&l->out, l->comm, b->peer, l->memory, 1, depth * b->slot_bytes)
		      : no_memory(l);
	if (ret) {
		free(outs);
		return ret;
	}
	for (size_t i = 0; i < depth; i++)
		outs[i].link = l;
	l->outs = outs;
	b->out = l->out.at;
	b->out_depth = (int)depth;
	if (!l->grant.depth)
		return ucx_comm_note(l->comm, b->peer, b->index, UCX_WANT, 0, NULL, 0);
	ucx_link_credited(l, 0);
	return 0;
}

void ucx_link_want(struct ucx_comm *c, int peer, int index)
{
	if (index >= c->params.slots.links && index != UCX_PROBE_LINK)
		return; /* its user opens it */
	struct ucx_link *l = c->failure ? NULL : ucx_link_get(c, peer, index);
	if (l)
		make_in(l); /* on failure the peer waits; this rank's log says why */
}

void ucx_link_grant(struct ucx_comm *c, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	struct ucx_grant grant;
	struct ucx_link *l = bytes > sizeof(grant) ? ucx_link_get(c, (int)wire->from, wire->index) : NULL;
	if (!l || l->grant.depth) {
		ucx_wire_refuse(&c->worker->refused, wire, bytes,
				"slots were granted before, or it says no place");
		return;
	}
	const int known = l->memory || wire->index < c->params.slots.links || wire->index == UCX_PROBE_LINK;
	memcpy(&grant, data, sizeof(grant));
	if (!grant.depth || grant.depth > 1 << 20 || (known && grant.slot_bytes != l->base.slot_bytes)) {
		ucx_wire_refuse(&c->worker->refused, wire, bytes, "its slots are not as they should be");
		return;
	}
	if (l->p->endpoint->failed)
		return;
	const ucs_status_t status =
	    ucx_link_keep_key(l, (const unsigned char *)data + sizeof(grant), bytes - sizeof(grant));
	if (status != UCS_OK) {
		ucx_wire_refuse(&c->worker->refused, wire, bytes, ucs_status_string(status));
		return;
	}
	l->grant = grant;
	ucx_link_credited(l, 0);
}

/* ---- Doors ---- */

static struct ucx_link *of(struct link *l)
{
	return (struct ucx_link *)l;
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	struct ucx_comm *c = (struct ucx_comm *)t;
	struct ucx_peer *p;
	ucx_lock(c->worker);
	const int ret = ucx_comm_peer(c, params->peer, &p);
	struct ucx_link *l = ret ? NULL : ucx_link_get(c, params->peer, params->index);
	uint64_t other = 0;
	if (l && params->memory) {
		l->memory = params->memory;
		l->base.slot_bytes = params->memory->bytes;
		other = l->grant.depth && l->grant.slot_bytes != l->base.slot_bytes ? l->grant.slot_bytes : 0;
	}
	ucx_unlock(c->worker);
	if (!l)
		return ret ? ret
			   : log_error(CORALE_ENOMEM, params->rank,
				       "transport ucx: no memory for a link to rank %d", params->peer);
	if (other)
		return log_error(CORALE_EMISMATCH, params->rank,
				 "transport ucx: slots of %zu bytes where rank %d has %llu",
				 params->memory->bytes, params->peer, (unsigned long long)other);
	*out = &l->base;
	return 0;
}

/* Refuses calls after a failure. While the communicator is open. */
static int make(struct link *base, int (*direction)(struct ucx_link *l), int *open)
{
	struct ucx_link *l = of(base);
	ucx_lock(l->worker);
	int ret = l->comm->failure ? l->comm->failure : direction(l);
	*open = !ret;
	ucx_unlock(l->worker);
	return ret;
}

static int open_in(struct link *base)
{
	return make(base, make_in, &base->in_open);
}

static int open_out(struct link *base)
{
	return make(base, make_out, &base->out_open);
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct ucx_link *l = of(base);
	struct ucx_comm *c = l->comm;
	ucx_lock(c->worker);
	int ret = ucx_link_post(l, UCX_SCHEMES, header, data, bytes);
	ucx_unlock(c->worker);
	return ret;
}

static int release(struct link *base)
{
	struct ucx_link *l = of(base);
	atomic_store_explicit(&base->taken, link_taken(base) + 1, memory_order_release);
	if (!ucx_link_owes_credit(l))
		return 0;
	ucx_lock(l->comm->worker);
	ucx_link_credit(l);
	ucx_unlock(l->comm->worker);
	return 0;
}

/*
 * 1: a message of a peer that is gone may still come: it has said how many it sent, or its connection for data, which does not say when it ends, may have more
 * than was read when the other one failed.
 */
static int may_arrive(const struct ucx_link *l, uint64_t arrived)
{
	const struct ucx_peer *p = l->p;
	const int64_t wait_ns = arrived < l->ends ? SENT_NS : READ_NS;
	return p->state == UCX_PEER_LOST ? wait_now_ns() - p->lost_ns < wait_ns : arrived < l->ends;
}

/* The peer is gone, or this side has failed; messages that arrived before still count. */
static int poll_link(struct link *base, int sends)
{
	struct ucx_link *l = of(base);
	int code = atomic_load_explicit(&l->p->lost, memory_order_relaxed);
	if (!code)
		return 0;
	ucx_lock(l->comm->worker);
	const uint64_t arrived = atomic_load_explicit(&base->arrived, memory_order_relaxed);
	if (l->comm->failure)
		code = l->comm->failure;
	else if (!sends && (arrived > link_taken(base) || may_arrive(l, arrived)))
		code = 0;
	else
		ucx_comm_report(l->comm, base->peer, code, transport_peer_left);
	ucx_unlock(l->comm->worker);
	return code;
}

static int is_sent(struct link *base)
{
	const struct ucx_link *l = of(base);
	return !atomic_load_explicit(&l->borrowed, memory_order_acquire);
}

const struct link_ops ucx_link_ops = {
	.map = ucx_slab_map,
	.unmap = ucx_slab_unmap,
	.open = open_link,
	.open_in = open_in,
	.open_out = open_out,
	.post = post,
	.release = release,
	.poll = poll_link,
	.sent = is_sent,
};
