/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of lib/net/ucx over fake_ucx.c, with communicators whose other ranks the test plays. */
#include "ucx_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ucx/ucx_link.h"

enum { ADDRESS_BYTES = sizeof(struct ucx_address) + 8 };

static void on_control(void *ctx, int peer, const void *message, size_t bytes)
{
	struct ucx_world *world = ctx;
	if (bytes > TRANSPORT_CONTROL_BYTES)
		abort();
	world->controls++;
}

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	struct ucx_world *world = ctx;
	if (!reason[0])
		abort();
	world->failures++;
}

void ucx_world_open(struct ucx_world *world)
{
	*world = (struct ucx_world){ .worker = calloc(1, sizeof(struct ucx_worker)) };
	if (!world->worker)
		abort();
	pthread_mutex_init(&world->worker->lock, NULL);
}

struct ucx_comm *ucx_world_comm(struct ucx_world *world, uint64_t comm_id, const char *scheme)
{
	static const unsigned char needed[WORLD_RANKS];
	static char *none[] = { NULL };
	struct settings settings;
	if (settings_parse(none, &settings))
		abort();
	snprintf(settings.ucx_message, sizeof(settings.ucx_message), "%s", scheme);
	struct transport_params params = {
		.size = WORLD_RANKS,
		.comm_id = comm_id,
		.needed = needed,
		.settings = &settings,
		.slots = { .links = 8, .depth = WORLD_DEPTH, .bytes = WORLD_SLOT_BYTES, .cap = 1 << 30 },
		.on_control = on_control,
		.on_failure = on_failure,
		.handler_ctx = world
	};
	struct ucx_comm *c = ucx_comm_new(&params);
	if (!c || !(c->base.addresses = calloc(WORLD_RANKS, ADDRESS_BYTES)))
		abort();
	c->params.settings = NULL;
	c->worker = world->worker;
	c->base.stride = ADDRESS_BYTES;
	for (int r = 0; r < WORLD_RANKS; r++)
		((struct ucx_address *)transport_address(&c->base, r))->uid = 100 + (uint64_t)r;
	ucx_lock(c->worker);
	c->next = c->worker->comms;
	c->worker->comms = c;
	ucx_message_deliver_early(c);
	ucx_unlock(c->worker);
	return c;
}

void ucx_world_settle(struct ucx_world *world)
{
	while (ucx_progress(world->worker))
		;
}

void ucx_world_close(struct ucx_world *world)
{
	struct ucx_worker *w = world->worker;

	ucx_lock(w);
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next)
		ucx_endpoint_abandon(e, CORALE_EPEER, "the test is over");
	ucx_unlock(w);
	ucx_world_settle(world);
	while (w->comms) {
		struct ucx_comm *c = w->comms;
		unsigned char *addresses = c->base.addresses;
		ucx_end_close(c);
		ucx_comm_free(c);
		free(addresses);
	}
	ucx_world_settle(world);
	fake_ucx_cancel_all();
	ucx_slots_free_retired(w, NULL);
	for (struct ucx_endpoint *e = w->endpoints, *next; e; e = next) {
		next = e->next;
		if (e->data != e->ep)
			free(e->data);
		free(e->ep);
		free(e);
	}
	for (struct ucx_class *class = w->classes, *next; class; class = next) {
		next = class->next;
		free(class);
	}
	ucx_message_free_early(w);
	free(w->loop);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
