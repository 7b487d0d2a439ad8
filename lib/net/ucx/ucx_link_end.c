/*
 * How links end. A peer's puts land in our slots whatever this side does, and over endpoints without error handling UCX can
 * neither be made to let go of a message nor to refuse one. So slots are given back when the peer has said that it is
 * through, or never: then only their pages are.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/wait.h"
#include "ucx_link.h"
#include "ucx_message.h"

/* Slots of a closed communicator. */
struct ucx_grave {
	struct ucx_grave *next;
	uint64_t comm_id;
	int to, from;
	unsigned char *slots;
	size_t bytes;
	ucp_mem_h memory;
	int given;
	struct link_memory user;
};

void ucx_link_lose(struct ucx_peer *p, int code)
{
	for (int lane = 0; lane <= UCX_PROBE_LANE; lane++)
		if (p->links[lane])
			atomic_store_explicit(&p->links[lane]->lost, code, memory_order_relaxed);
}

void ucx_link_fail(struct ucx_comm *c, int code)
{
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r])
			ucx_link_lose(c->peers[r], code);
}

void ucx_link_leave(struct ucx_peer *p, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	p->through = wire->number == 1; /* bytes: whole sums, or what is left over is not read */
	for (size_t at = 0; at + sizeof(struct ucx_sum) <= bytes; at += sizeof(struct ucx_sum)) {
		struct ucx_sum sum;
		memcpy(&sum, (const unsigned char *)data + at, sizeof(sum));
		if (sum.lane <= UCX_PROBE_LANE && p->links[sum.lane])
			p->links[sum.lane]->ends = sum.posted;
	}
}

/* 1 if UCX refers to nothing of the link's messages to the peer. */
static int is_sent(const struct ucx_link *l)
{
	for (int i = 0; l->outs && i < l->base.out_depth; i++)
		if (l->outs[i].busy)
			return 0;
	return !l->credits[0].busy && !l->credits[1].busy;
}

int ucx_link_borrowed(const struct ucx_peer *p)
{
	int n = 0;
	for (int lane = 0; lane < TRANSPORT_MAX_LANES; lane++)
		if (p->links[lane])
			n += atomic_load_explicit(&p->links[lane]->borrowed, memory_order_relaxed);
	return n;
}

static int is_received(const struct ucx_link *l)
{
	for (int i = 0; l->ins && i < l->base.in_depth; i++)
		if (l->ins[i].receiving)
			return 0;
	return 1;
}

static int is_through(const struct ucx_peer *p)
{
	if (p->endpoint->flushing)
		return 0;
	for (int lane = 0; lane <= UCX_PROBE_LANE; lane++)
		if (p->links[lane] && !is_sent(p->links[lane]))
			return 0;
	return 1;
}

int ucx_link_say_bye(struct ucx_comm *c, int peer)
{
	struct ucx_peer *p = c->peers[peer];
	struct ucx_sum sums[UCX_PROBE_LANE + 1];
	size_t n = 0;
	for (int lane = 0; lane <= UCX_PROBE_LANE; lane++)
		if (p->links[lane] && p->links[lane]->base.posted)
			sums[n++] = (struct ucx_sum){ (uint64_t)lane, p->links[lane]->base.posted };
	return ucx_message_note(c, peer, 0, UCX_BYE, (uint64_t)is_through(p), sums, n * sizeof(sums[0]));
}

static int poll_drained(void *arg)
{
	struct ucx_comm *c = arg;
	int left = 0;
	ucx_help(c->worker);
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size && !left; r++)
		left = c->peers[r] && !c->peers[r]->endpoint->failed && !is_through(c->peers[r]);
	ucx_unlock(c->worker);
	return !left;
}

/* A put whose request is complete may not be there yet; all other messages are. */
static void flush_peers(struct ucx_comm *c)
{
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r])
			ucx_endpoint_flush_data(c->peers[r]->endpoint);
	ucx_unlock(c->worker);
}

int ucx_link_drain(struct ucx_comm *c, int64_t timeout_ns)
{
	const struct wait_policy policy = { .spin_ns = 20000, .timeout_ns = timeout_ns };
	if (wait_until(&policy, poll_drained, c) <= 0)
		return 0;
	flush_peers(c);
	return wait_until(&policy, poll_drained, c) > 0;
}

/* ---- Slots ---- */

static void free_slots(struct ucx_worker *w, const struct ucx_grave *g)
{
	ucp_mem_unmap(w->context, g->memory);
	if (!g->given)
		munmap(g->slots, g->bytes);
	else if (g->user.release)
		g->user.release(g->user.ctx);
}

static void bury(struct ucx_worker *w, const struct ucx_grave *slots)
{
	struct ucx_grave *grave = malloc(sizeof(*grave));
	if (!slots->given)
		madvise(slots->slots, slots->bytes, MADV_DONTNEED);
	if (!grave)
		return; /* the addresses stay taken */
	*grave = *slots;
	grave->next = w->graves;
	w->graves = grave;
}

void ucx_link_free_graves(struct ucx_worker *w, const struct ucx_wire *bye)
{
	for (struct ucx_grave **at = &w->graves, *grave; (grave = *at);) {
		if (bye && (grave->comm_id != bye->comm_id || grave->from != (int)bye->from ||
			    grave->to != (int)bye->to || bye->number != 1)) {
			at = &grave->next;
			continue;
		}
		*at = grave->next;
		free_slots(w, grave);
		free(grave);
	}
}

/* Gives back the slots that the peer writes, now or when it is through. */
static void lay_down(struct ucx_comm *c, struct ucx_link *l)
{
	struct ucx_grave slots = { .comm_id = c->params.comm_id,
				   .to = c->params.rank,
				   .from = l->base.peer,
				   .slots = l->slots,
				   .bytes = (size_t)l->base.in_depth * l->base.slot_bytes,
				   .memory = l->in_memory,
				   .given = l->given };
	if (l->given)
		slots.user = *l->memory;
	if (is_received(l) && l->p->through)
		free_slots(c->worker, &slots);
	else
		bury(c->worker, &slots);
}

int ucx_link_retire(struct ucx_link *l)
{
	if (!is_sent(l) || !is_received(l))
		return 0;
	if (l->key)
		ucp_rkey_destroy(l->key);
	if (l->outs)
		ucp_mem_unmap(l->worker->context, l->out_memory);
	if (l->outs && !l->given)
		munmap(l->base.out, (size_t)l->base.out_depth * l->base.slot_bytes);
	free(l->outs);
	free(l->ins);
	free(l->base.in);
	free(l);
	return 1;
}

/* 1 if UCX holds messages of the link, which is freed when it lets go of them. */
static int free_link(struct ucx_comm *c, struct ucx_link *l)
{
	if (l->ins)
		lay_down(c, l);
	if (l->given && l->outs && l->memory->release && is_sent(l)) /* else UCX reads there for ever */
		l->memory->release(l->memory->ctx);
	l->comm = NULL;
	l->p = NULL;
	return !ucx_link_retire(l);
}

void ucx_link_free_all(struct ucx_comm *c)
{
	int kept = 0;
	for (int r = 0; r < c->params.size; r++)
		for (int lane = 0; c->peers[r] && lane <= UCX_PROBE_LANE; lane++)
			if (c->peers[r]->links[lane])
				kept += free_link(c, c->peers[r]->links[lane]);
	if (kept)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: UCX still holds messages of %d links, of which the slots stay where "
			 "they are",
			 kept);
}
