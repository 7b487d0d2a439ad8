#include "ucx_calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_message.h"
#include "base/wait.h"

enum { PROBE_BYTES = UCX_PROBE_BYTES, FIRST_BYTES = 128 << 10, ROUNDS = 4 };

static const int64_t budget_ns = 50 * 1000 * 1000;
const char *const ucx_way_names[] = { "am", "tag", "put", "refused" };

int ucx_calibrate_forced(const struct settings *settings)
{
	for (int way = 0; way < UCX_WAYS; way++)
		if (!strcmp(settings->ucx_message, ucx_way_names[way]))
			return way;
	return -1;
}

enum ucx_way ucx_calibrate_way(const struct ucx_comm *c, int peer)
{
	return c->forced >= 0 ? (enum ucx_way)c->forced : c->peers[peer]->endpoint->class->way;
}

int ucx_calibrate_is_ordered(const struct ucx_class *class)
{
	static const char *const in_order[] = { "tcp/", "rc_" };
	for (size_t i = 0; i < sizeof(in_order) / sizeof(in_order[0]); i++)
		if (!strncmp(class->lanes, in_order[i], strlen(in_order[i])))
			return !strchr(class->lanes, '+');
	return 0;
}

static int has_scratch(struct ucx_worker *w)
{
	if (!w->scratch)
		w->scratch = calloc(1, PROBE_BYTES);
	return w->scratch != NULL;
}

void ucx_calibrate_receive(struct ucx_comm *c, const struct ucx_wire *rts)
{
	struct ucx_op *op =
	    has_scratch(c->worker) ? ucx_op_new(c, (int)rts->from, UCX_PROBE_LANE, NULL) : NULL;
	if (!op)
		return; /* the prober's deadline ends it */
	op->buf = c->worker->scratch;
	op->bytes = PROBE_BYTES;
	ucx_way_ask(op, rts);
}

struct probe {
	struct ucx_worker *worker;
	struct transport_request *request;
};

static int poll_probe(void *arg)
{
	struct probe *probe = arg;
	ucx_progress(probe->worker);
	return atomic_load_explicit(&probe->request->done, memory_order_acquire);
}

/* Announces a probe; NULL if it cannot. */
static struct ucx_op *start_probe(struct ucx_comm *c, int peer, enum ucx_way way, size_t bytes,
				  struct transport_request *request)
{
	int fine = c->peers[peer]->state == UCX_PEER_FINE;
	struct ucx_op *op = fine ? ucx_op_new(c, peer, UCX_PROBE_LANE, request) : NULL;
	if (!op)
		return NULL;
	op->sends = 1;
	op->buf = c->worker->scratch;
	op->bytes = bytes;
	if (ucx_op_publish(op)) {
		op->request = NULL;
		ucx_op_finish(op, CORALE_ENOMEM);
		return NULL;
	}
	struct ucx_wire *wire = ucx_op_wire(op, 0, UCX_RTS);
	wire->bytes = bytes;
	wire->send_id = op->id;
	wire->way = (uint8_t)way;
	ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, NULL, 0, NULL);
	return op;
}

/* Sends one probe and waits for it until deadline. Returns GB/s, 0 on failure; a slow one gets what it has shown. */
static double measure(struct ucx_comm *c, int peer, enum ucx_way way, size_t bytes, int64_t deadline)
{
	struct ucx_worker *w = c->worker;
	struct transport_request request = { .done = 0 };
	struct probe probe = { w, &request };
	int64_t start = wait_now_ns();
	struct wait_policy policy = { .spin_ns = 50000, .timeout_ns = deadline - start };

	if (policy.timeout_ns <= 0)
		return 0;
	ucx_lock(w);
	struct ucx_op *op = start_probe(c, peer, way, bytes, &request);
	ucx_unlock(w);
	if (!op)
		return 0;
	int ret = wait_until(&policy, poll_probe, &probe);
	double seconds = (double)(wait_now_ns() - start) / 1e9;
	if (ret < 0) {
		ucx_lock(w);
		if (!atomic_load_explicit(&request.done, memory_order_acquire))
			op->request = &w->discarded; /* scratch stays, so it may end when it likes */
		ucx_unlock(w);
	}
	return request.done && request.status ? 0 : (double)bytes / seconds / 1e9;
}

static double best_of(const double *gbps)
{
	double best = 0;
	for (int way = 0; way < UCX_WAYS; way++)
		best = gbps[way] > best ? gbps[way] : best;
	return best;
}

/* The first round connects and warms up; a way that is hopeless by then is not tried again. */
static void measure_class(struct ucx_comm *c, int peer, double *gbps)
{
	int64_t deadline = wait_now_ns() + budget_ns;

	measure(c, peer, UCX_WAY_AM, FIRST_BYTES, deadline);
	for (int round = 0; round < ROUNDS; round++) {
		double before = best_of(gbps);
		for (int way = 0; way < UCX_WAYS; way++) {
			if (round && gbps[way] < before / 3)
				continue;
			double got =
			    measure(c, peer, (enum ucx_way)way, round ? PROBE_BYTES : FIRST_BYTES, deadline);
			gbps[way] = got > gbps[way] ? got : gbps[way];
		}
	}
}

/* The fastest, but none is preferred to active messages for less than the noise. */
static enum ucx_way choose(const double *gbps)
{
	enum ucx_way way = UCX_WAY_AM;
	for (int i = 0; i < UCX_WAYS; i++)
		if (gbps[i] > 1.15 * gbps[way])
			way = (enum ucx_way)i;
	return way;
}

static void calibrate_peer(struct ucx_comm *c, int peer)
{
	struct ucx_worker *w = c->worker;
	double gbps[UCX_WAYS] = { 0 };
	struct ucx_peer *p;

	ucx_lock(w);
	int ret = ucx_comm_peer(c, peer, &p);
	struct ucx_class *class = ret ? NULL : p->endpoint->class;
	int known = !class || class->measured || !has_scratch(w);
	if (!known)
		class->measured = 1; /* also if it fails: once is enough */
	ucx_unlock(w);
	if (known)
		return;
	measure_class(c, peer, gbps);
	ucx_lock(w);
	class->way = choose(gbps);
	memcpy(class->gbps, gbps, sizeof(gbps));
	ucx_unlock(w);
	log_line(
	    LOG_INFO, c->params.rank,
	    "transport ucx: over %s large messages go by %s (to rank %d: am %.2f, tag %.2f, put %.2f GB/s)",
	    class->lanes, ucx_way_names[class->way], peer, gbps[UCX_WAY_AM], gbps[UCX_WAY_TAG],
	    gbps[UCX_WAY_PUT]);
}

void ucx_calibrate(struct ucx_comm *c)
{
	int size = c->params.size, rank = c->params.rank;

	if (c->forced >= 0)
		return;
	for (int direction = 1; direction >= -1; direction -= 2) {
		for (int i = 1; i < size; i++) {
			int peer = (rank + direction * i + size) % size;
			if (c->params.needed[peer]) {
				calibrate_peer(c, peer);
				break;
			}
		}
	}
}
