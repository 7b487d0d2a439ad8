/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How messages above 64 KB travel, measured when the process's first communicator is made: rendezvous by active messages, by tag, or a put into the slot with a
 * notice behind it. UCX 1.13 emulates puts over tcp, so rendezvous is faster there; UCX 1.22 is fastest with puts.
 */
#include "ucx_link.h"

#include <string.h>

#include "base/log.h"
#include "base/wait.h"

enum { FIRST_BYTES = UCX_EAGER_BYTES + 1, LARGE_BYTES = 256 << 10, ROUNDS = 3 };

static const int64_t connect_ns = 250 * 1000 * 1000, budget_ns = 20 * 1000 * 1000;

/* ---- Probes: messages over a link of their own, which the peer's worker takes without its user ---- */

struct probe {
	struct ucx_link *link;
	uint64_t taken; /* what is waited for */
};

static int poll_room(void *arg)
{
	struct probe *probe = arg;
	ucx_progress(probe->link->comm->worker);
	return link_room(&probe->link->base);
}

static int poll_taken(void *arg)
{
	struct probe *probe = arg;
	struct ucx_worker *w = probe->link->comm->worker;
	ucx_progress(w);
	ucx_lock(w);
	int there = probe->link->peer_taken >= probe->taken, lost = probe->link->p->lost;
	ucx_unlock(w);
	return there ? 1 : lost;
}

/* Waits until deadline at most; 1 or an error. */
static int await(int (*poll)(void *), struct probe *probe, int64_t deadline)
{
	const struct wait_policy policy = { .spin_ns = 50000, .timeout_ns = deadline - wait_now_ns() };
	return policy.timeout_ns <= 0 ? CORALE_ETIMEDOUT : wait_until(&policy, poll, probe);
}

static int post_probe(struct ucx_link *l, enum ucx_scheme scheme, size_t bytes)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	ucx_lock(l->comm->worker);
	int ret = ucx_link_post(l, scheme, header, NULL, bytes);
	ucx_unlock(l->comm->worker);
	return ret;
}

/* GB/s of some messages in a row; 0 on failure. A slow scheme gets the rate of what was taken by the deadline. */
static double measure(struct ucx_link *l, enum ucx_scheme scheme, size_t bytes, int64_t deadline)
{
	enum { MESSAGES = 4 };
	struct probe probe = { .link = l };
	const int64_t start = wait_now_ns();
	const uint64_t before = l->base.posted;
	int ret = deadline > start ? 1 : CORALE_EPEER;
	for (int i = 0; ret > 0 && i < MESSAGES; i++) {
		ret = await(poll_room, &probe, deadline);
		ret = ret > 0 && post_probe(l, scheme, bytes) ? CORALE_EPEER : ret;
	}
	probe.taken = l->base.posted;
	if (ret > 0)
		ret = await(poll_taken, &probe, deadline);
	if (ret < 0 && ret != CORALE_ETIMEDOUT)
		return 0;
	const double ns = (double)(wait_now_ns() - start);
	ucx_lock(l->comm->worker);
	const uint64_t taken = l->peer_taken;
	ucx_unlock(l->comm->worker);
	return taken > before ? (double)bytes * (double)(taken - before) / ns : 0;
}

/* Pages are made before the clock runs; 1, as no sender sends zeros that the kernel keeps once. */
static void touch_slots(const struct ucx_link *l, size_t bytes)
{
	for (int i = 0; i < l->base.out_depth; i++)
		memset(l->base.out + (size_t)i * l->base.slot_bytes, 1, bytes);
}

/* The first message connects and warms up. A scheme far behind in the first round is not tried again. */
static void measure_class(struct ucx_link *l, double *gbps)
{
	const size_t large = l->base.slot_bytes < LARGE_BYTES ? l->base.slot_bytes : LARGE_BYTES;
	const int schemes = l->p->endpoint->class->emulates_put ? UCX_SCHEME_PUT : UCX_SCHEMES; /* the last */
	struct probe probe = { .link = l };

	if (await(poll_room, &probe, wait_now_ns() + connect_ns) < 0)
		return;
	touch_slots(l, large);
	measure(l, UCX_SCHEME_AM, FIRST_BYTES, wait_now_ns() + connect_ns);
	const int64_t deadline = wait_now_ns() + budget_ns;
	for (int round = 0; round < ROUNDS; round++) {
		double before = 0;
		for (int scheme = 0; scheme < UCX_SCHEMES; scheme++)
			before = gbps[scheme] > before ? gbps[scheme] : before;
		for (int scheme = 0; scheme < schemes; scheme++) {
			if (round && gbps[scheme] < before / 3)
				continue;
			size_t bytes = round ? large : FIRST_BYTES;
			double got = measure(l, (enum ucx_scheme)scheme, bytes, deadline);
			gbps[scheme] = got > gbps[scheme] ? got : gbps[scheme];
		}
	}
}

/* The fastest scheme; active messages, where it gains less than the noise. */
static enum ucx_scheme choose(const double *gbps)
{
	enum ucx_scheme scheme = UCX_SCHEME_AM;
	for (int i = 0; i < UCX_SCHEMES; i++)
		if (gbps[i] > 1.15 * gbps[scheme])
			scheme = (enum ucx_scheme)i;
	return scheme;
}

/* The probes' link to a peer whose class nobody in this process has measured, or NULL. Under the lock. */
static struct ucx_link *find_unmeasured(struct ucx_comm *c, int peer)
{
	struct ucx_link *l = ucx_link_get(c, peer, UCX_PROBE_LINK);
	const unsigned char *address = ucx_comm_address(c, peer)->worker;
	if (!l || ucx_endpoint_data(l->p->endpoint, address, c->params.rank))
		return NULL;
	struct ucx_class *class = l->p->endpoint->class;
	if (class->measured)
		return NULL;
	class->measured = 1; /* also if it fails: once is enough */
	return l;
}

static void calibrate_peer(struct ucx_comm *c, int peer)
{
	struct ucx_worker *w = c->worker;
	double gbps[UCX_SCHEMES] = { 0 };

	ucx_lock(w);
	struct ucx_link *l = find_unmeasured(c, peer);
	struct ucx_class *class = l ? l->p->endpoint->class : NULL;
	ucx_unlock(w);
	if (!l)
		return;
	measure_class(l, gbps);
	ucx_lock(w);
	class->scheme = choose(gbps);
	memcpy(class->gbps, gbps, sizeof(gbps));
	ucx_unlock(w);
	log_line(
	    LOG_INFO, c->params.rank,
	    "transport ucx: over %s large messages go by %s (to rank %d: am %.2f, tag %.2f, put%s %.2f GB/s)",
	    class->lanes, ucx_scheme_names[class->scheme], peer, gbps[UCX_SCHEME_AM], gbps[UCX_SCHEME_TAG],
	    class->ordered ? "" : " and flush", gbps[UCX_SCHEME_PUT]);
}

/* Logs that the scheme put was asked for, and is not used. */
static void log_emulated(struct ucx_comm *c, int peer)
{
	struct ucx_peer *p;
	ucx_lock(c->worker);
	int ret = ucx_comm_peer(c, peer, &p);
	ret = ret ? ret : ucx_endpoint_data(p->endpoint, ucx_comm_address(c, peer)->worker, c->params.rank);
	const struct ucx_class *class = ret ? NULL : p->endpoint->class;
	ucx_unlock(c->worker);
	if (class && class->emulates_put)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: CORALE_UCX_MESSAGE=put: UCX %s emulates puts over %s, and a peer "
			 "that dies would end this process: large messages to rank %d go as eager active "
			 "messages, which their receiver copies; auto is faster",
			 ucp_get_version_string(), class->lanes, peer);
}

void ucx_calibrate(struct ucx_comm *c)
{
	int size = c->params.size, rank = c->params.rank;

	if ((c->forced >= 0 && c->forced != UCX_SCHEME_PUT) || c->params.slots.bytes <= UCX_EAGER_BYTES)
		return;
	for (int direction = 1; direction >= -1; direction -= 2) {
		for (int i = 1; i < size; i++) {
			int peer = (rank + direction * i + size) % size;
			if (c->params.needed[peer]) {
				(c->forced == UCX_SCHEME_PUT ? log_emulated : calibrate_peer)(c, peer);
				break;
			}
		}
	}
}
