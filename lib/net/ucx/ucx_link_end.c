/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of links: the sums of a BYE, messages still under way, and slots that stay. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_link.h"

void ucx_link_leave(struct ucx_peer *p, const struct ucx_wire *wire, const void *data, size_t bytes)
{
	p->through =
	    wire->number == UCX_BYE_THROUGH; /* bytes: whole sums, or what is left over is not read */
	for (size_t at = 0; at + sizeof(struct ucx_sum) <= bytes; at += sizeof(struct ucx_sum)) {
		struct ucx_sum sum;
		memcpy(&sum, (const unsigned char *)data + at, sizeof(sum));
		if (sum.index <= UCX_PROBE_LINK && p->links[sum.index])
			p->links[sum.index]->ends = sum.posted;
	}
}

/* 1 if UCX holds no message of the link. */
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
	for (int index = 0; index < TRANSPORT_MAX_LINKS; index++)
		if (p->links[index])
			n += atomic_load_explicit(&p->links[index]->borrowed, memory_order_relaxed);
	return n;
}

static int is_received(const struct ucx_link *l)
{
	for (int i = 0; l->ins && i < l->base.in_depth; i++)
		if (l->ins[i].receiving)
			return 0;
	return 1;
}

int ucx_link_all_sent(const struct ucx_peer *p)
{
	if (p->endpoint->flushing)
		return 0;
	for (int index = 0; index <= UCX_PROBE_LINK; index++)
		if (p->links[index] && !is_sent(p->links[index]))
			return 0;
	return 1;
}

int ucx_link_all_read(const struct ucx_peer *p)
{
	for (int index = 0; index < TRANSPORT_MAX_LINKS; index++)
		if (p->links[index] && ucx_link_slab(p->links[index]) && !is_received(p->links[index]))
			return 0;
	return 1;
}

int ucx_link_say_bye(struct ucx_comm *c, int peer)
{
	struct ucx_peer *p = c->peers[peer];
	struct ucx_sum sums[UCX_PROBE_LINK + 1];
	size_t n = 0;
	for (int index = 0; index <= UCX_PROBE_LINK; index++)
		if (p->links[index] && p->links[index]->base.posted)
			sums[n++] = (struct ucx_sum){ (uint64_t)index, p->links[index]->base.posted };
	return ucx_comm_note(c, peer, 0, UCX_BYE, ucx_link_all_sent(p) ? UCX_BYE_THROUGH : UCX_BYE_UNDER_WAY,
			     sums, n * sizeof(sums[0]));
}

int ucx_link_retire(struct ucx_link *l)
{
	if (!is_sent(l) || !is_received(l))
		return 0;
	if (l->key)
		ucp_rkey_destroy(l->key);
	ucx_slots_free(l->worker, &l->in);
	ucx_slots_free(l->worker, &l->out);
	free(l->packed);
	free(l->inline_out);
	free(l->inline_in);
	free(l->outs);
	free(l->ins);
	free(l->base.in);
	free(l);
	return 1;
}

/* Frees a link and its slots. Slots that the peer may still write stay until its BYE. 1 if UCX still holds messages of the link, which is freed when they
 * end. */
static int free_link(struct ucx_comm *c, struct ucx_link *l)
{
	if (l->ins && !l->p->through)
		ucx_slots_retire(c, l->base.peer, &l->in, !is_received(l));
	l->comm = NULL;
	l->p = NULL;
	return !ucx_link_retire(l);
}

void ucx_link_free_all(struct ucx_comm *c)
{
	int kept = 0;
	for (int r = 0; r < c->params.size; r++)
		for (int index = 0; c->peers[r] && index <= UCX_PROBE_LINK; index++)
			if (c->peers[r]->links[index])
				kept += free_link(c, c->peers[r]->links[index]);
	if (kept)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: UCX still holds messages of %d links, of which the slots stay where "
			 "they are",
			 kept);
}
