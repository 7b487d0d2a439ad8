/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
/* The transport over UCX: the functions of transport.h. Its parts are in ucx_*.c. */
#include <stdlib.h>
#include <string.h>

#include "transport_ucx.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "ucx_devices.h"
#include "ucx_link.h"

static const struct transport_ops ops;

static struct ucx_comm *of(const struct transport *t)
{
	return (struct ucx_comm *)t;
}

/* Every host: what UCX can reach shows only with the first message. */
static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	(void)row, (void)gpus, (void)why_not, (void)bytes;
	return 1;
}

static int make_address(struct ucx_comm *c)
{
	const struct ucx_worker *w = c->worker;
	const size_t align = _Alignof(struct ucx_address),
		     bytes = sizeof(struct ucx_address) + w->address_bytes;
	c->base.address_bytes = (bytes + align - 1) / align * align;
	c->address = calloc(1, c->base.address_bytes);
	if (!c->address)
		return log_error(CORALE_ENOMEM, c->params.rank, "transport ucx: no memory");
	c->address->uid = w->uid;
	memcpy(c->address->worker, w->address, w->address_bytes);
	c->base.address = c->address;
	return 0;
}

static void free_unconnected(struct ucx_comm *c)
{
	if (c->worker)
		ucx_worker_release(c->worker, c->in_order, c->until_ns);
	ucx_comm_free(c);
}

/* More than four rails of tcp gained nothing when measured. */
static int open_ucx(const struct transport_row *row, const struct transport_params *params,
		    struct transport **out)
{
	struct ucx_comm *c = ucx_comm_new(params);
	(void)row;
	if (!c)
		return log_error(CORALE_ENOMEM, params->rank, "transport ucx: no memory for %d ranks",
				 params->size);
	int ret = ucx_worker_acquire(params, &c->worker);
	if (!ret)
		ret = make_address(c);
	if (ret) {
		free_unconnected(c);
		return ret;
	}
	int peers = 0;
	for (int r = 0; r < params->size; r++)
		peers += params->needed[r];
	/* A socket at each end at least. Connections are made on first use, so fewer descriptors may suffice. */
	descriptors_expect(2 * peers, params->rank, "connecting to all ranks of other nodes");
	c->base.ops = &ops;
	c->base.rdma = c->worker->rdma;
	c->base.shares_memory = c->worker->has_memory && !secure_getenv("UCX_TLS");
	c->base.rails = ucx_devices_are_tcp(c->worker->devices) ? 4 : 1;
	*out = &c->base;
	return 0;
}

static int connect_ucx(struct transport *t)
{
	struct ucx_comm *c = of(t);
	ucx_lock(c->worker);
	c->connected = 1;
	c->next = c->worker->comms;
	c->worker->comms = c;
	ucx_message_deliver_early(c);
	ucx_unlock(c->worker);
	log_line(LOG_INFO, c->params.rank, "transport ucx: network devices %s", c->worker->devices);
	ucx_calibrate(c);
	return 0;
}

static int progress(struct transport *t)
{
	return ucx_try_progress(of(t)->worker);
}

static int control(struct transport *t, int peer, const void *message, size_t bytes)
{
	struct ucx_comm *c = of(t);
	struct ucx_peer *p;

	ucx_lock(c->worker);
	int ret = ucx_comm_peer(c, peer, &p);
	if (!ret)
		ret = p->state == UCX_PEER_FINE ? ucx_comm_note(c, peer, 0, UCX_CONTROL, 0, message, bytes)
						: CORALE_EPEER;
	ucx_unlock(c->worker);
	return ret;
}

static int has_met(struct transport *t, int peer)
{
	struct ucx_comm *c = of(t);
	ucx_lock(c->worker);
	const int has = c->peers[peer] && c->peers[peer]->state == UCX_PEER_FINE;
	ucx_unlock(c->worker);
	return has;
}

static void lose(struct transport *t, int peer, const char *reason)
{
	struct ucx_comm *c = of(t);
	ucx_lock(c->worker);
	if (c->peers[peer])
		ucx_endpoint_abandon(c->peers[peer]->endpoint, CORALE_EPEER, reason);
	else
		ucx_comm_add_event(c, peer, CORALE_EPEER, reason, strlen(reason) + 1);
	ucx_unlock(c->worker);
}

static void leave(struct transport *t, int64_t until_ns)
{
	ucx_end_leave(of(t), until_ns);
}

static void fail(struct transport *t, int code)
{
	ucx_end_fail(of(t), code);
}

static void close_ucx(struct transport *t)
{
	struct ucx_comm *c = of(t);

	if (c->connected)
		ucx_end_close(c);
	free_unconnected(c);
}

static const struct transport_ops ops = {
	.progress_by = TRANSPORT_OWN_THREAD,
	.connect = connect_ucx,
	.links = &ucx_link_ops,
	.progress = progress,
	.control = control,
	.has_met = has_met,
	.lose = lose,
	.leave = leave,
	.fail = fail,
	.close = close_ucx,
};

const struct transport_row transport_ucx = { .name = "ucx",
					     .probe = probe,
					     .devices = ucx_worker_devices,
					     .gpudirect = ucx_worker_gpudirect,
					     .open = open_ucx };
