/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of all sizes between slots in GPUs' memory, which a kernel of the receiving GPU has to see whole. */
#include "gpu_direct.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "comm_create.h"

enum {
	FIRST_LINK = 1, /* of the rails' transports, which the proxy leaves free: one an attempt, */
	PINNED_LINK = FIRST_LINK + GPU_DIRECT_ATTEMPTS, /* and one for the comparison */
	STREAMED = 32, /* messages by which rates are compared, of which as often the best counts */
	STREAMS = 3,
	MESSAGE_S = 5,
	NAP_NS = 20000
};

static const int64_t second_ns = 1000000000;

/* The seed of a rank's messages. */
static uint64_t seed_of(const struct comm *comm, int rank, int rail, int attempt)
{
	return comm->id ^
	       ((uint64_t)rank << 8 | (uint64_t)rail << 4 | (uint64_t)attempt) * 0x9e3779b97f4a7c15u;
}

/* ---- Messages --------------------------------------------------------------------------------------------------- */

static int send_until(struct gpu_direct_probe *p, uint64_t until)
{
	const unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	int ret = 0;
	for (int i = 0; !ret && i < p->npeers; i++)
		for (struct probe_peer *peer = &p->peers[i]; !ret && peer->sends && peer->sent < until;
		     peer->sent++)
			ret = link_post(peer->link, header, NULL, probe_bytes((int)peer->sent));
	return ret;
}

/* Signals to the kernel what has arrived. 1: it has looked at so much. */
static int poll_checked(void *arg)
{
	struct gpu_direct_probe *p = arg;
	int all = 1, ret = gpu_direct_progress(p);
	if (ret)
		return ret;
	for (int i = 0; i < p->npeers; i++) {
		const struct probe_peer *peer = &p->peers[i];
		if (peer->sender < 0)
			continue;
		struct probe_words *w = &p->words[peer->sender];
		ret = link_ready(peer->link);
		if (ret < 0)
			return ret;
		__atomic_store_n(&w->arrived,
				 atomic_load_explicit(&peer->link->arrived, memory_order_acquire),
				 __ATOMIC_RELEASE);
		all &= __atomic_load_n(&w->checked, __ATOMIC_ACQUIRE) >= p->until;
	}
	return all;
}

static const char *verdict(uint64_t checked, uint64_t wrong, int message)
{
	if ((uint64_t)message >= checked)
		return "not sent";
	return wrong >> message & 1 ? "wrong" : "right";
}

/* Judges one sender's messages. */
static void judge(const struct gpu_direct_probe *p, const struct probe_peer *peer,
		  struct gpu_direct_outcome *o)
{
	const struct probe_words *w = &p->words[peer->sender];
	const uint64_t arrived = w->arrived, checked = __atomic_load_n(&w->checked, __ATOMIC_ACQUIRE),
		       wrong = __atomic_load_n(&w->wrong, __ATOMIC_RELAXED);
	if (arrived < p->until) {
		o->is_broken = 1;
		gpu_direct_refuse(
		    o, CORALE_ETIMEDOUT, "message %llu from rank %d did not come within %d s: %s",
		    (unsigned long long)arrived + 1, peer->rank, MESSAGE_S,
		    gpu_direct_failure(p->comm->direct,
				       "do the adapters reach each other, and are IOMMU and ACS off?"));
	} else if (!w->begun) {
		gpu_direct_refuse(
		    o, CORALE_ETIMEDOUT,
		    "a kernel that looks at messages did not start within %d s: other work fills the GPU",
		    MESSAGE_S);
	} else if (checked < p->until) {
		gpu_direct_refuse(o, CORALE_ETIMEDOUT,
				  "a kernel saw %llu messages from rank %d where %llu had come",
				  (unsigned long long)checked, peer->rank, (unsigned long long)arrived);
	} else if (wrong) {
		o->is_late = 1;
		gpu_direct_refuse(o, CORALE_ETRANSPORT,
				  "a kernel did not see all bytes of messages from rank %d that had arrived "
				  "(64 KiB: %s, 4 KiB: %s, 8 bytes: %s)",
				  peer->rank, verdict(checked, wrong, 0), verdict(checked, wrong, 1),
				  verdict(checked, wrong, 2));
	}
}

/* So many messages of each, the earlier ones counted. */
static void exchange(struct gpu_direct_probe *p, uint64_t until, struct gpu_direct_outcome *o)
{
	const struct wait_policy policy = { .timeout_ns = MESSAGE_S * second_ns, .sleep_ns = NAP_NS };
	p->until = until;
	int ret = send_until(p, until);
	ret = ret ? ret : wait_until(&policy, poll_checked, p);
	if (ret < 0 && ret != CORALE_ETIMEDOUT) {
		o->is_broken = 1;
		gpu_direct_refuse(o, ret, "a message from a slot in the GPU's memory could not be sent: %s",
				  gpu_direct_failure(p->comm->direct, corale_strerror(ret)));
		return;
	}
	for (int i = 0; !o->code && i < p->npeers; i++)
		if (p->peers[i].sender >= 0)
			judge(p, &p->peers[i], o);
}

/* Fills the slots to send from, and starts the kernel that looks at what comes in. */
static int begin(struct comm *comm, int rail, int attempt, struct gpu_direct_probe *p)
{
	struct engine_probe e = { .out = gpu_direct_area(comm, rail, attempt),
				  .in = gpu_direct_area(comm, rail, attempt) + PROBE_AREA,
				  .seed = seed_of(comm, comm->rank, rail, attempt),
				  .senders = p->senders };
	uint64_t *seeds = calloc((size_t)p->senders + 1, sizeof *seeds);
	if (!seeds)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a probe");
	for (int i = 0; i < p->npeers; i++)
		if (p->peers[i].sender >= 0)
			seeds[p->peers[i].sender] = seed_of(comm, p->peers[i].rank, rail, attempt);
	e.seeds = seeds;
	int ret = engine_cuda.probe_begin(comm->gpu, &e, &p->words);
	free(seeds);
	return ret;
}

int gpu_direct_probe(struct comm *comm, int rail, int attempt, struct gpu_direct_outcome *o)
{
	struct gpu_direct_probe *p = gpu_direct_make_probe(comm, rail, gpu_direct_area(comm, rail, attempt));
	int ret = comm_agree(comm, p ? 0 : log_error(CORALE_ENOMEM, comm->rank, "no memory for a probe"),
			     "make a probe of GPUDirect RDMA");
	if (ret)
		return ret;
	gpu_direct_connect(comm, rail, FIRST_LINK + attempt, comm->direct->mapped[rail][attempt], p, o);
	int64_t any = o->code != 0;
	ret = bootstrap_agree(&comm->bootstrap, any ? 0 : begin(comm, rail, attempt, p),
			      "start a kernel that looks at messages", &any);
	if (!ret && !any)
		exchange(p, PROBE_LONG, o);
	any |= o->code != 0;
	ret = ret ? ret : bootstrap_agree(&comm->bootstrap, 0, "look at messages", &any); /* all ranks have */
	if (!ret && !any)
		exchange(p, PROBE_MESSAGES, o);
	engine_cuda.probe_end(comm->gpu);
	p->words = NULL;
	return ret;
}

/* ---- Rates ------------------------------------------------------------------------------------------------------ */

/* 1: all that this rank sends has been taken, and all that comes is here. */
static int poll_streamed(void *arg)
{
	const unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	struct gpu_direct_probe *p = arg;
	int all = 1, ret = gpu_direct_progress(p);
	for (int i = 0; !ret && i < p->npeers; i++) {
		struct probe_peer *peer = &p->peers[i];
		struct link *l = peer->link;
		while (!ret && peer->sender >= 0 && (ret = link_ready(l)) > 0)
			ret = link_release(l);
		while (!ret && peer->sends && p->streamed < STREAMED && (ret = link_room(l)) > 0) {
			ret = link_post(l, header, NULL, PROBE_SLOT_BYTES);
			p->streamed++;
		}
		if (peer->sender >= 0)
			all &= link_taken(l) >= p->until;
		if (peer->sends) /* the last messages may be acknowledged with later ones */
			all &= p->streamed == STREAMED &&
			       atomic_load(&l->limit) + PROBE_DEPTH / 2 > l->posted + PROBE_DEPTH;
	}
	return ret < 0 ? ret : all;
}

/* Collective. The least time of all streams; INT64_MAX: one did not end. */
static int stream(struct comm *comm, struct gpu_direct_probe *p, int64_t *ns)
{
	const struct wait_policy policy = { .spin_ns = second_ns, .timeout_ns = MESSAGE_S * second_ns };
	int ret = comm_agree(comm, 0, "compare rates");
	const int64_t start = wait_now_ns();
	p->until += STREAMED;
	p->streamed = 0;
	const int ended = ret ? 0 : wait_until(&policy, poll_streamed, p) > 0;
	const int64_t now = wait_now_ns() - start;
	if (!ended)
		*ns = INT64_MAX;
	else if (!*ns || now < *ns)
		*ns = now;
	return ret;
}

int gpu_direct_compare(struct comm *comm, int rail, struct link_slab *slab, struct gpu_direct_outcome *o)
{
	int64_t direct_ns = 0, pinned_ns = 0;
	struct gpu_direct_probe *direct = comm->direct->probes, *p = gpu_direct_make_probe(comm, rail, NULL);
	while (direct->peers[0].memory.slab != slab)
		direct = direct->next;
	int ret = comm_agree(comm, p ? 0 : log_error(CORALE_ENOMEM, comm->rank, "no memory for a probe"),
			     "compare rates");
	if (ret)
		return ret;
	gpu_direct_connect(comm, rail, PINNED_LINK, NULL, p, o);
	for (int i = 0; !ret && i < STREAMS; i++) {
		ret = stream(comm, p, &pinned_ns);
		ret = ret ? ret : stream(comm, direct, &direct_ns);
	}
	if (ret || o->code)
		return ret;
	if (direct_ns / 3 > pinned_ns / 2)
		gpu_direct_refuse(o, CORALE_ENOTSUP,
				  "%d KiB from and into the GPU's memory take %lld us, through pinned host "
				  "memory %lld: the way between GPU and adapter is slow",
				  STREAMED * PROBE_SLOT_BYTES >> 10, (long long)direct_ns / 1000,
				  (long long)pinned_ns / 1000);
	return 0;
}
