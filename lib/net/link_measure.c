/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <sched.h>
#include <string.h>

#include "base/sort.h"
#include "base/wait.h"

enum {
	SMALL_BYTES = 8,
	LEAST_LARGE = 32 << 10, /* a message whose bytes clearly outweigh its latency */
	MOST_LARGE = 256 << 10,
	WARM_ROUNDS = 16, /* connects, and fills caches */
	BATCHES = 5, /* of which the median counts */
	BATCH_ROUNDS = 8,
	LARGE_ROUNDS = 1,
	MOST_BURST = 16,
	POLLS_A_YIELD =
	    16 /* of a system call each over tcp: with 256 a message took 160 us, not 15, beside other work */
};

struct measurement {
	struct transport *transport;
	struct link *link;
	int64_t deadline;
};

/* ---- One message ---- */

static int await(const struct measurement *m, int (*poll)(struct link *l))
{
	for (long i = 1;; i++) {
		int ret = poll(m->link);
		if (ret > 0)
			return 0;
		ret = ret ? ret : m->transport->ops->progress(m->transport);
		if (ret < 0)
			return ret;
		if (i % POLLS_A_YIELD)
			continue;
		if (wait_now_ns() > m->deadline)
			return CORALE_ETIMEDOUT;
		wait_progress();
		sched_yield();
	}
}

static int post(const struct measurement *m, size_t bytes)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	int ret = await(m, link_room);
	if (ret)
		return ret;
	memset(link_slot(m->link), 0, bytes);
	return link_post(m->link, header, NULL, bytes);
}

static int take(const struct measurement *m)
{
	int ret = await(m, link_ready);
	return ret ? ret : link_release(m->link);
}

/* ---- To and fro ---- */

static int round_trips(const struct measurement *m, int leads, size_t bytes, int rounds)
{
	int ret = 0;
	for (int i = 0; i < rounds && !ret; i++) {
		if (leads)
			ret = post(m, bytes);
		ret = ret ? ret : take(m);
		if (!leads)
			ret = ret ? ret : post(m, bytes);
	}
	return ret;
}

/* Half a round trip. The end that leads measures from its first post on, the other one from its first answer on. */
static int one_way(const struct measurement *m, int leads, size_t bytes, int rounds, double *ns)
{
	double batches[BATCHES];
	int ret = 0;
	for (int b = 0; b < BATCHES && !ret; b++) {
		if (!leads)
			ret = round_trips(m, 0, bytes, 1);
		const int64_t start = wait_now_ns();
		ret = ret ? ret : round_trips(m, leads, bytes, rounds);
		batches[b] = (double)(wait_now_ns() - start) / rounds / 2;
		if (leads)
			ret = ret ? ret : round_trips(m, 1, bytes, 1);
	}
	*ns = sort_median(batches, BATCHES);
	return ret;
}

/* ---- Bursts in one direction, each answered by a message ---- */

/* The other end takes equally many: both have slots of the same depth, or the first end waits for room. */
static int send_bursts(const struct measurement *m, int n, double *ns)
{
	double batches[BATCHES];
	int ret = 0;
	for (int b = 0; b < BATCHES && !ret; b++) {
		const int64_t start = wait_now_ns();
		for (int i = 0; i < n && !ret; i++)
			ret = post(m, SMALL_BYTES);
		batches[b] = (double)(wait_now_ns() - start) / n;
		ret = ret ? ret : take(m);
	}
	*ns = sort_median(batches, BATCHES);
	return ret;
}

/* Takes n messages as they arrive, and returns the time of each but the first; or after all have arrived, and returns the time of each. */
static int take_burst(const struct measurement *m, int n, double pause_ns, double *ns)
{
	int ret = 0;
	if (pause_ns <= 0) {
		ret = take(m);
		n--;
	}
	for (int64_t until = wait_now_ns() + (int64_t)pause_ns; wait_now_ns() < until;)
		continue;
	const int64_t start = wait_now_ns();
	for (int i = 0; i < n && !ret; i++)
		ret = take(m);
	*ns = (double)(wait_now_ns() - start) / n;
	return ret ? ret : post(m, SMALL_BYTES);
}

static int take_bursts(const struct measurement *m, int n, double pause_ns, double *ns)
{
	double batches[BATCHES];
	int ret = 0;
	for (int b = 0; b < BATCHES && !ret; b++)
		ret = take_burst(m, n, pause_ns, &batches[b]);
	*ns = sort_median(batches, BATCHES);
	return ret;
}

/* This end sends. From one series the other end learns the pace, from another its own time for each message. */
static int measure_sending(const struct measurement *m, int n, struct link_costs *out)
{
	double paced;
	int ret = send_bursts(m, n, &paced);
	ret = ret ? ret : send_bursts(m, n, &out->post_ns);
	if (paced < out->post_ns)
		out->post_ns = paced;
	return ret;
}

static int measure_receiving(const struct measurement *m, int n, struct link_costs *out)
{
	int ret = take_bursts(m, n, 0, &out->pace_ns);
	return ret ? ret : take_bursts(m, n, 2 * n * out->one_way_ns, &out->recv_ns);
}

/* The pages of all slots, both ends at the same time: the kernel takes longer to make them than the network to fill them. */
static int touch_slots(const struct measurement *m, size_t bytes)
{
	const int n = m->link->out_depth;
	int ret = 0;
	for (int i = 0; i < n && !ret; i++)
		ret = post(m, bytes);
	for (int i = 0; i < n && !ret; i++)
		ret = take(m);
	return ret;
}

static int measure_bytes(const struct measurement *m, int leads, struct link_costs *out)
{
	const size_t slot = m->link->slot_bytes, bytes = slot < MOST_LARGE ? slot : MOST_LARGE;
	double ns;
	if (bytes < LEAST_LARGE)
		return 0;
	int ret = touch_slots(m, bytes);
	ret = ret ? ret : one_way(m, leads, bytes, LARGE_ROUNDS, &ns);
	if (!ret && ns > out->one_way_ns)
		out->byte_ns = (ns - out->one_way_ns) / (double)bytes;
	return ret;
}

int link_measure(struct transport *t, struct link *l, int leads, int64_t timeout_ns, struct link_costs *out)
{
	const struct measurement m = { t, l, wait_now_ns() + timeout_ns };
	*out = (struct link_costs){ 0 };
	int ret = round_trips(&m, leads, SMALL_BYTES, WARM_ROUNDS);
	const int n = l->out_depth < MOST_BURST ? l->out_depth : MOST_BURST;
	ret = ret ? ret : one_way(&m, leads, SMALL_BYTES, BATCH_ROUNDS, &out->one_way_ns);
	ret = ret ? ret : leads ? measure_sending(&m, n, out) : measure_receiving(&m, n, out);
	ret = ret ? ret : leads ? measure_receiving(&m, n, out) : measure_sending(&m, n, out);
	ret = ret ? ret : measure_bytes(&m, leads, out);
	return ret;
}
