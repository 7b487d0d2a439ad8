/* The transport over UCX: the doors of transport.h. The parts behind them are in ucx_*.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_calibrate.h"
#include "ucx_devices.h"
#include "ucx_end.h"
#include "ucx_link.h"
#include "ucx_message.h"

/* What the ranks tell each other before they can speak over UCX. */
struct card {
	uint64_t uid;
	uint32_t address_bytes;
	int status;
};

static struct ucx_comm *of(const struct transport *t)
{
	return (struct ucx_comm *)t;
}

static int available(const struct settings *settings, char *why_not, size_t bytes)
{
	(void)settings, (void)why_not, (void)bytes;
	return 1;
}

/* Learns what all ranks said; every rank comes to the same answer. */
static int read_cards(struct ucx_comm *c, const struct card *cards)
{
	for (int r = 0; r < c->params.size; r++) {
		if (cards[r].status)
			return r == c->params.rank
				   ? cards[r].status
				   : log_error(cards[r].status, c->params.rank,
					       "transport ucx: rank %d could not start it: %s", r,
					       corale_strerror(cards[r].status));
		c->uids[r] = cards[r].uid;
		if (cards[r].address_bytes > c->address_bytes)
			c->address_bytes = cards[r].address_bytes;
	}
	return 0;
}

static int exchange_cards(struct ucx_comm *c, int status)
{
	struct ucx_worker *w = c->worker;
	struct card mine = { .uid = w ? w->uid : 0,
			     .address_bytes = w ? (uint32_t)w->address_bytes : 0,
			     .status = status };
	struct card *cards = calloc((size_t)c->params.size, sizeof(*cards));
	if (!cards)
		return log_error(CORALE_ENOMEM, c->params.rank, "transport ucx: no memory for %d ranks",
				 c->params.size);
	int ret = c->params.allgather(c->params.allgather_ctx, &mine, sizeof(mine), cards);
	if (!ret)
		ret = read_cards(c, cards);
	free(cards);
	return ret;
}

static int exchange_addresses(struct ucx_comm *c)
{
	unsigned char *mine = calloc(1, c->address_bytes);
	int ret = CORALE_ENOMEM;

	c->addresses = malloc(c->address_bytes * (size_t)c->params.size);
	if (mine && c->addresses) {
		memcpy(mine, c->worker->address, c->worker->address_bytes);
		ret = c->params.allgather(c->params.allgather_ctx, mine, c->address_bytes, c->addresses);
	} else {
		log_error(ret, c->params.rank, "transport ucx: no memory for %d addresses", c->params.size);
	}
	free(mine);
	return ret;
}

static int open_ucx(const struct transport_ops *ops, const struct transport_params *params,
		    struct transport **out)
{
	struct ucx_comm *c = ucx_comm_new(ops, params);
	if (!c)
		return log_error(CORALE_ENOMEM, params->rank, "transport ucx: no memory for %d ranks",
				 params->size);
	int ret = exchange_cards(c, ucx_worker_acquire(params, &c->worker));
	if (!ret)
		ret = exchange_addresses(c);
	if (ret)
		goto release_worker;
	ucx_lock(c->worker);
	c->next = c->worker->comms;
	c->worker->comms = c;
	ucx_message_deliver_early(c);
	ucx_unlock(c->worker);
	log_line(LOG_INFO, params->rank, "transport ucx: network devices %s", c->worker->devices);
	ucx_calibrate(c);
	*out = &c->base;
	return 0;
release_worker:
	if (c->worker)
		ucx_worker_release(c->worker);
	ucx_comm_free(c);
	return ret;
}

static int check(const struct ucx_comm *c, int peer)
{
	return peer >= 0 && peer < c->params.size
		   ? 0
		   : log_error(CORALE_EINVAL, c->params.rank, "transport ucx: peer %d; expected one below %d",
			       peer, c->params.size);
}

static int progress(struct transport *t)
{
	return ucx_help(of(t)->worker);
}

static int control(struct transport *t, int peer, const void *message, size_t bytes)
{
	struct ucx_comm *c = of(t);
	struct ucx_peer *p;
	int ret = check(c, peer);

	if (ret)
		return ret;
	if (bytes > TRANSPORT_CONTROL_BYTES)
		return log_error(CORALE_EINVAL, c->params.rank,
				 "transport ucx: a control message of %zu bytes; at most %d", bytes,
				 TRANSPORT_CONTROL_BYTES);
	ucx_lock(c->worker);
	ret = ucx_comm_peer(c, peer, &p);
	if (!ret)
		ret = p->state == UCX_PEER_FINE ? ucx_message_note(c, peer, 0, UCX_CONTROL, 0, message, bytes)
						: CORALE_EPEER;
	ucx_unlock(c->worker);
	return ret;
}

static int threaded(const struct transport *t)
{
	(void)t;
	return 1;
}

/* More than four of tcp gained nothing (docs/performance.md). */
static int rails(const struct transport *t)
{
	return ucx_devices_are_tcp(((const struct ucx_comm *)t)->worker->devices) ? 4 : 1;
}

static void describe(const struct transport *t, int peer, char *buf, size_t bytes)
{
	struct ucx_comm *c = of(t);

	if (check(c, peer))
		return;
	ucx_lock(c->worker);
	const struct ucx_class *class = c->peers[peer] ? c->peers[peer]->endpoint->class : NULL;
	if (!class)
		snprintf(buf, bytes, "not connected yet");
	else if (c->forced >= 0 || !class->measured)
		snprintf(buf, bytes, "%s, %s (%s)", class->lanes, ucx_way_names[ucx_calibrate_way(c, peer)],
			 c->forced >= 0 ? "forced" : "not measured");
	else
		snprintf(buf, bytes, "%s, %s (measured: put %.2f, tag %.2f, am %.2f GB/s)", class->lanes,
			 ucx_way_names[class->way], class->gbps[UCX_WAY_PUT], class->gbps[UCX_WAY_TAG],
			 class->gbps[UCX_WAY_AM]);
	ucx_unlock(c->worker);
}

static void fail(struct transport *t, int code)
{
	ucx_end_fail(of(t), code);
}

static void close_ucx(struct transport *t)
{
	struct ucx_comm *c = of(t);

	if (!c)
		return;
	ucx_end_close(c);
	ucx_worker_release(c->worker);
	ucx_comm_free(c);
}

const struct transport_ops transport_ucx = {
	.name = "ucx",
	.available = available,
	.devices = ucx_worker_devices,
	.open = open_ucx,
	.links = &ucx_link_ops,
	.progress = progress,
	.control = control,
	.fail = fail,
	.threaded = threaded,
	.rails = rails,
	.describe = describe,
	.close = close_ucx,
};
