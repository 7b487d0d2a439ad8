/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest transport, by which fake_transport_test shows that one is added by its files and a row alone. */
#include "fake_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"

/* One direction of a link, used by both ends. */
struct ring {
	_Atomic uint64_t arrived, taken;
	struct link_message messages[]; /* and their payloads behind them */
};

/* From one rank to another: a control message, and links, each NULL until an end opens it. */
struct path {
	_Atomic int state; /* EMPTY: of the message */
	size_t bytes;
	unsigned char message[TRANSPORT_CONTROL_BYTES];
	struct ring *_Atomic rings[TRANSPORT_MAX_LINKS];
};

/* What others reach of a rank; it is freed when all have closed. */
struct port {
	_Atomic int users, closed;
	struct path from[];
};

struct fake {
	struct transport base;
	struct transport_params params;
	struct port *port; /* this rank's address is where it is */
	_Atomic int failure, lost; /* lost: 1 + a rank whose departure progress reports */
};

struct fake_link {
	struct link base;
	struct fake *fake;
	struct link_params params;
	struct path *in_path, *out_path;
	struct ring *in, *out;
};

enum { EMPTY, CLAIMED, FULL };

enum fake_network fake_network;

static struct port *port_of(const struct transport *t, int rank)
{
	return *(struct port *const *)transport_address(t, rank);
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	if (fake_network == FAKE_LEADS_NOWHERE)
		return log_error(CORALE_EPEER, params->rank, "transport fake: it was told to reach nobody");
	struct fake_link *l = calloc(1, sizeof *l);
	if (!l)
		return log_error(CORALE_ENOMEM, params->rank, "transport fake: no memory");
	*l = (struct fake_link){ .fake = (struct fake *)t,
				 .params = *params,
				 .in_path = &port_of(t, params->rank)->from[params->peer],
				 .out_path = &port_of(t, params->peer)->from[params->rank] };
	link_init(&l->base, t->ops->links, params);
	*out = &l->base;
	return 0;
}

/* Made by whoever comes first; NULL: no memory. */
static struct ring *find_ring(struct path *path, const struct link_params *params)
{
	const size_t depth = (size_t)params->slots->depth,
		     head = sizeof(struct ring) + depth * sizeof(struct link_message);
	struct ring *there = atomic_load(&path->rings[params->index]), *made;
	if (there || !(made = calloc(1, head + depth * params->slots->bytes)))
		return there;
	for (size_t k = 0; k < depth; k++)
		made->messages[k].data = (unsigned char *)made + head + k * params->slots->bytes;
	if (atomic_compare_exchange_strong(&path->rings[params->index], &there, made))
		return made;
	free(made);
	return there;
}

static int open_in(struct link *base)
{
	struct fake_link *l = (struct fake_link *)base;
	l->in = find_ring(l->in_path, &l->params);
	if (!l->in)
		return CORALE_ENOMEM;
	base->in = l->in->messages;
	base->in_depth = l->params.slots->depth;
	base->in_open = 1;
	return 0;
}

static int open_out(struct link *base)
{
	struct fake_link *l = (struct fake_link *)base;
	l->out = find_ring(l->out_path, &l->params);
	if (!l->out)
		return CORALE_ENOMEM;
	base->out = l->out->messages[0].data;
	base->out_depth = l->params.slots->depth;
	base->out_open = 1;
	atomic_store(&base->limit, (uint64_t)base->out_depth);
	return 0;
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct fake_link *l = (struct fake_link *)base;
	struct link_message *m = &l->out->messages[base->posted % (uint64_t)base->out_depth];
	memcpy(m->header, header, sizeof m->header);
	m->bytes = bytes;
	if (data && bytes)
		memcpy(m->data, data, bytes);
	base->posted++;
	if (fake_network == FAKE_CARRIES)
		atomic_store(&l->out->arrived, base->posted);
	return l->fake->failure;
}

static int release_slot(struct link *base)
{
	atomic_store(&base->taken, link_taken(base) + 1);
	atomic_store(&((struct fake_link *)base)->in->taken, link_taken(base));
	return 0;
}

static int poll_link(struct link *base, int sends)
{
	struct fake_link *l = (struct fake_link *)base;
	const int closed = port_of(&l->fake->base, base->peer)->closed;
	if (sends)
		atomic_store(&base->limit, atomic_load(&l->out->taken) + (uint64_t)base->out_depth);
	else
		atomic_store(&base->arrived, atomic_load(&l->in->arrived));
	if (l->fake->failure || (sends ? base->posted < base->limit : base->arrived > base->taken))
		return l->fake->failure;
	if (closed)
		l->fake->lost = base->peer + 1;
	return closed ? CORALE_EPEER : 0;
}

static void free_link(struct link *base)
{
	free(base);
}

static int progress(struct transport *t)
{
	struct fake *f = (struct fake *)t;
	const int lost = atomic_exchange(&f->lost, 0);
	int moved = lost;
	for (int r = 0; r < f->params.size; r++) {
		struct path *path = &f->port->from[r];
		if (atomic_load(&path->state) != FULL)
			continue;
		f->params.on_control(f->params.handler_ctx, r, path->message, path->bytes);
		atomic_store(&path->state, EMPTY);
		moved = 1;
	}
	if (lost)
		f->params.on_failure(f->params.handler_ctx, lost - 1, CORALE_EPEER, transport_peer_left);
	return moved != 0;
}

static int control(struct transport *t, int peer, const void *message, size_t bytes)
{
	struct path *path = &port_of(t, peer)->from[((struct fake *)t)->params.rank];
	if (!atomic_compare_exchange_strong(&path->state, &(int){ EMPTY }, CLAIMED))
		return CORALE_ETRANSPORT;
	path->bytes = bytes;
	memcpy(path->message, message, bytes);
	atomic_store(&path->state, FULL);
	return 0;
}

static void fail(struct transport *t, int code)
{
	((struct fake *)t)->failure = code;
}

static void leave_port(struct port *port, int ranks)
{
	if (atomic_fetch_sub(&port->users, 1) > 1)
		return;
	for (int i = 0; i < ranks * TRANSPORT_MAX_LINKS; i++)
		free(port->from[i / TRANSPORT_MAX_LINKS].rings[i % TRANSPORT_MAX_LINKS]);
	free(port);
}

static void close_fake(struct transport *t)
{
	struct fake *f = (struct fake *)t;
	f->port->closed = 1;
	for (int r = 0; r < f->params.size; r++)
		leave_port(t->addresses ? port_of(t, r) : f->port, f->params.size);
	free(f);
}

static const struct link_ops links = { .open = open_link,
				       .open_in = open_in,
				       .open_out = open_out,
				       .post = post,
				       .release = release_slot,
				       .poll = poll_link,
				       .sent = NULL,
				       .free = free_link };

static const struct transport_ops ops = { .progress_by = TRANSPORT_ANY_THREAD,
					  .links = &links,
					  .progress = progress,
					  .control = control,
					  .fail = fail,
					  .close = close_fake };

static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	snprintf(why_not, bytes, "it has no memory for messages of GPUs");
	return gpus ? 0 : process_number();
}

static int open_fake(const struct transport_row *row, const struct transport_params *params,
		     struct transport **out)
{
	struct fake *f = calloc(1, sizeof *f);
	struct port *port = calloc(1, sizeof *port + (size_t)params->size * sizeof port->from[0]);
	if (!f || !port) {
		free(f);
		free(port);
		return CORALE_ENOMEM;
	}
	port->users = params->size;
	*f = (struct fake){ .base = { .ops = &ops, .address = &f->port, .address_bytes = sizeof f->port },
			    .params = *params,
			    .port = port };
	*out = &f->base;
	return 0;
}

const struct transport_row transport_fake = { .name = "fake", .probe = probe, .open = open_fake };
