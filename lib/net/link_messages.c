/*
 * Links made of the transport's sends and receives: the k-th send meets the k-th receive, both in the link's slots. A
 * receive is posted when its message is awaited. Long messages come in trains: behind one more are posted, twice as many
 * each time, while behind a short one none is, which every look at the network would have to pass.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "link.h"

enum { LONG_BYTES = 16 << 10 };

struct messages_link {
	struct link base;
	struct transport *transport;
	struct link_params params;
	uint64_t asked; /* receives that were posted */
	uint64_t reaped; /* sends that are complete */
	int ahead; /* receives to have posted */
	unsigned char *slots; /* of messages received */
	struct transport_request *sends, *recvs;
};

static struct messages_link *of(struct link *l)
{
	return (struct messages_link *)l;
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	if (params->memory)
		return log_error(CORALE_ENOTSUP, params->rank,
				 "transport %s: its links are in memory of their own only", t->row->name);
	struct messages_link *l = calloc(1, sizeof *l);
	if (!l)
		return CORALE_ENOMEM;
	l->base.ops = &link_messages;
	l->base.peer = params->peer;
	l->base.lane = params->lane;
	l->base.slot_bytes = params->slots->bytes;
	l->base.direct = 1;
	l->transport = t;
	l->params = *params;
	l->ahead = 1;
	*out = &l->base;
	return 0;
}

static int no_memory(const struct messages_link *l, int depth)
{
	link_unreserve(l->params.slots, depth);
	return log_error(CORALE_ENOMEM, l->params.rank, "no memory for %d slots of %zu bytes to rank %d",
			 depth, l->base.slot_bytes, l->base.peer);
}

/* Posts one receive. */
static int ask_one(struct messages_link *l, int lands)
{
	const uint64_t i = l->asked++ % (uint64_t)l->base.in_depth;
	struct link_message *m = &l->base.in[i];
	size_t capacity = lands ? l->base.landing_bytes : l->base.slot_bytes;
	m->data = lands ? l->base.landing : l->slots + i * l->base.slot_bytes;
	l->recvs[i].held = 0;
	return l->transport->ops->recv(l->transport, l->base.peer, l->base.lane, m->data, capacity,
				       &l->recvs[i]);
}

/* Posts receives for the awaited message and those behind it. */
static int ask(struct messages_link *l)
{
	const uint64_t taken = link_taken(&l->base), depth = (uint64_t)l->base.in_depth;
	uint64_t until = taken + (uint64_t)l->ahead;
	int ret = 0;
	if (until > taken + depth)
		until = taken + depth;
	if (l->asked == taken && l->base.landing)
		ret = ask_one(l, 1);
	while (!ret && l->asked < until && !l->base.landing)
		ret = ask_one(l, 0);
	return ret;
}

static int open_in(struct link *base)
{
	struct messages_link *l = of(base);
	const int depth = link_reserve(l->params.slots, l->params.rank);
	unsigned char *memory = malloc((size_t)depth * base->slot_bytes);
	base->in = calloc((size_t)depth, sizeof *base->in);
	l->recvs = calloc((size_t)depth, sizeof *l->recvs);
	if (!memory || !base->in || !l->recvs) {
		free(memory);
		free(base->in);
		free(l->recvs);
		base->in = NULL;
		l->recvs = NULL;
		return no_memory(l, depth);
	}
	l->slots = memory;
	base->in_depth = depth;
	base->in_open = 1;
	return ask(l);
}

static int open_out(struct link *base)
{
	struct messages_link *l = of(base);
	const int depth = link_reserve(l->params.slots, l->params.rank);
	base->out = malloc((size_t)depth * base->slot_bytes);
	l->sends = calloc((size_t)depth, sizeof *l->sends);
	if (!base->out || !l->sends) {
		free(base->out);
		free(l->sends);
		base->out = NULL;
		l->sends = NULL;
		return no_memory(l, depth);
	}
	base->out_depth = depth;
	base->out_open = 1;
	atomic_store_explicit(&base->limit, (uint64_t)depth, memory_order_relaxed);
	return 0;
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct messages_link *l = of(base);
	const uint64_t i = base->posted % (uint64_t)base->out_depth;
	const void *from = data ? data : link_slot(base);
	base->posted++;
	l->sends[i].held = 0;
	return l->transport->ops->send(l->transport, base->peer, base->lane, header, from, bytes,
				       &l->sends[i]);
}

/* Frees the slots of sends that are complete; 0, or the first failure. */
static int reap(struct messages_link *l)
{
	for (; l->reaped < l->base.posted; l->reaped++) {
		struct transport_request *send = &l->sends[l->reaped % (uint64_t)l->base.out_depth];
		if (!atomic_load_explicit(&send->done, memory_order_acquire))
			break;
		if (send->status)
			return send->status;
	}
	atomic_store_explicit(&l->base.limit, l->reaped + (uint64_t)l->base.out_depth, memory_order_relaxed);
	return 0;
}

/* Publishes messages whose receives are complete; 0, or the first failure. */
static int look(struct messages_link *l)
{
	uint64_t arrived = atomic_load_explicit(&l->base.arrived, memory_order_relaxed);
	for (; arrived < l->asked; arrived++) {
		struct transport_request *recv = &l->recvs[arrived % (uint64_t)l->base.in_depth];
		struct link_message *m = &l->base.in[arrived % (uint64_t)l->base.in_depth];
		if (!atomic_load_explicit(&recv->done, memory_order_acquire))
			break;
		if (recv->status && recv->status != CORALE_EMISMATCH) /* a longer one is its user's to name */
			return recv->status;
		memcpy(m->header, recv->header, sizeof m->header);
		m->bytes = recv->bytes;
	}
	atomic_store_explicit(&l->base.arrived, arrived, memory_order_relaxed);
	return 0;
}

static int poll_link(struct link *base, int sends)
{
	struct messages_link *l = of(base);
	if (sends)
		return reap(l);
	int ret = ask(l);
	return ret ? ret : look(l);
}

static int release(struct link *base)
{
	struct messages_link *l = of(base);
	const int is_long = link_next(base)->bytes >= LONG_BYTES;
	l->ahead = !is_long ? 1 : 2 * l->ahead < base->in_depth ? 2 * l->ahead : base->in_depth;
	atomic_store_explicit(&base->taken, link_taken(base) + 1, memory_order_relaxed);
	return is_long && !base->landing ? ask(l) : 0;
}

static int is_sent(struct link *base)
{
	struct messages_link *l = of(base);
	return reap(l) || l->reaped == base->posted;
}

static int is_held(const struct transport_request *requests, int n)
{
	for (int i = 0; requests && i < n; i++)
		if (requests[i].held)
			return 1;
	return 0;
}

/* Slots that the transport has not let go of stay for ever. */
static void free_link(struct link *base)
{
	struct messages_link *l = of(base);
	if (!is_held(l->recvs, base->in_depth))
		free(l->slots);
	free(base->in);
	if (!is_held(l->sends, base->out_depth))
		free(base->out);
	free(l->recvs);
	free(l->sends);
	free(l);
}

const struct link_ops link_messages = {
	.open = open_link,
	.open_in = open_in,
	.open_out = open_out,
	.post = post,
	.release = release,
	.poll = poll_link,
	.sent = is_sent,
	.free = free_link,
};
