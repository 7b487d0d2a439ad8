/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to ranks of other nodes. A call that first needs one has the proxy open it, and writes its offset into the kernels' table. */
#include "engine_cuda.h"

#include <stdlib.h>

#include "base/log.h"
#include "net/proxy.h"

/* Adds new ends to the kernels' table. Kernels that run use other entries. */
static int put_offsets(struct engine *e)
{
	struct engine_connections *l = &e->connections;
	const uint64_t first = l->first_new, n = l->end_new - l->first_new;
	if (l->first_new >= l->end_new)
		return 0;
	l->first_new = UINT64_MAX;
	l->end_new = 0;
	return engine_put(e, (remote_offset *)(uintptr_t)e->remote.offsets + first, l->offsets + first,
			  n * sizeof *l->offsets);
}

/* What a call may need was counted before (lib/plan/choose/planner_room.h), so there is room. */
static int open_end(struct engine *e, int peer, enum remote_direction direction, uint32_t index)
{
	struct engine_connections *l = &e->connections;
	const uint64_t at = remote_end_index(peer, direction, index);
	if (l->offsets[at])
		return 0;
	int ret = proxy_open_end(l->proxy, peer, direction, index, &l->offsets[at]);
	if (ret)
		return ret;
	l->first_new = at < l->first_new ? at : l->first_new;
	l->end_new = at + 1 > l->end_new ? at + 1 : l->end_new;
	return 0;
}

int engine_connections_open(struct engine *e)
{
	struct engine_connections *l = &e->connections;
	l->offsets = calloc(remote_end_index(e->remote.remote.peers, REMOTE_OUT, 0), sizeof *l->offsets);
	l->first_new = UINT64_MAX;
	return l->offsets ? 0 : log_error(CORALE_ENOMEM, e->world_rank, "no memory for connections");
}

void engine_connections_close(struct engine *e)
{
	free(e->connections.offsets);
	e->connections.offsets = NULL;
}

static int open_peers(struct engine *e, const struct lowered *list, int first, int count, uint32_t index,
		      enum remote_direction direction)
{
	int ret = 0;
	for (int k = 0; !ret && k < count; k++)
		if (list->peers[first + k].rank >= e->ranks)
			ret = open_end(e, list->peers[first + k].rank - e->ranks, direction, index);
	return ret;
}

/* All that it talks to in so many turns. */
static int open_operation(struct engine *e, const struct lowered *list, const struct lowered_op *op,
			  int times, uint32_t channel)
{
	const int to = op->moves & LOWERED_TO ? op->to_count * times : op->to_count,
		  from = op->moves & LOWERED_FROM ? op->from_count * times : op->from_count;
	int ret = open_peers(e, list, op->to_first, to, remote_index(channel, op->to_queue), REMOTE_OUT);
	return ret ? ret
		   : open_peers(e, list, op->from_first, from, remote_index(channel, op->from_queue),
				REMOTE_IN);
}

int engine_open_list(struct engine *e, int index, int first_channel, int channels)
{
	struct engine_list *entry = &e->lists.list[index];
	const struct lowered *list = &entry->host;
	uint32_t lacking = 0;
	int ret = 0, times = 1;
	if (!entry->nfar) /* then channels may be more than connections have */
		return 0;
	for (int c = first_channel; c < first_channel + channels; c++)
		lacking |= 1u << c & ~entry->open;
	for (int i = 0; lacking && !ret && i < list->nops; i++) {
		const struct lowered_op *op = &list->ops[i];
		times = op->op == LOWERED_REPEAT ? op->times : op->op == LOWERED_AGAIN ? 1 : times;
		for (uint32_t c = 0; !ret && c <= REMOTE_SINGLE; c++)
			if (lacking >> c & 1)
				ret = open_operation(e, list, op, times, c);
	}
	ret = ret ? ret : put_offsets(e);
	if (!ret)
		entry->open |= lacking;
	return ret;
}

int engine_open_p2p(struct engine *e)
{
	const struct codelet_p2p *g = e->p2p;
	const struct remote *r = &e->remote.remote;
	int ret = 0, n = 0;
	for (int list = 0; r->memory && list < g->group.lists; list++)
		do {
			const struct codelet_message *m = &g->messages[n];
			const uint32_t channels =
			    m->from || m->peer < e->ranks ? 0 : remote_channels_of(r, m->bytes);
			for (uint32_t c = 0; !ret && c < channels; c++)
				ret = open_end(e, m->peer - e->ranks, m->sending ? REMOTE_OUT : REMOTE_IN,
					       remote_index(c, REMOTE_PAIRS));
		} while (g->messages[n++].more);
	return ret ? ret : put_offsets(e);
}
