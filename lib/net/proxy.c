/* SPDX-License-Identifier: BSD-3-Clause */
/* One communicator's messages: the proxy sends over links what kernels post, and hands to kernels what arrives. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "slot_front.h"
#include "proxy_state.h"

_Static_assert(sizeof(struct remote_header) == TRANSPORT_HEADER_BYTES,
	       "a message's header is the transport's");
_Static_assert(PROXY_FIRST_LINK + (int)REMOTE_CONNECTIONS <= (int)TRANSPORT_MAX_LINKS,
	       "a link for each connection");

/* ---- One connection ---------------------------------------------------------------------------------------- */

static void count_bytes(struct proxy *p, int rail, const struct proxy_connection *at, uint64_t bytes)
{
	_Atomic uint64_t *sum = &p->rails[rail].bytes[at->memory.slab != NULL];
	atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + bytes,
			      memory_order_relaxed);
}

/* Sends the message in its slot, where the kernel has put it. 1; 0: it is not whole yet; or an error. */
static int send_message(struct proxy *p, int rail, struct proxy_connection *at, remote_offset out)
{
	const struct remote *r = &p->params.remote;
	struct link *l = at->link;
	const struct remote_header *front = remote_header_at(r, out, at->slots, l->posted);
	struct remote_header header;
	unsigned char few[REMOTE_FEW_BYTES];
	const int in_gpu = at->memory.slab != NULL;
	const enum front_form form =
	    slot_front_read(front, l->posted + 1, &header, in_gpu ? few : link_slot(l));
	if (form == FRONT_NOTHING)
		return 0;
	const int ret = link_post(l, &header, in_gpu && form == FRONT_INLINE ? few : NULL, header.bytes);
	if (ret)
		return ret;
	count_bytes(p, rail, at, header.bytes);
	return 1;
}

/* Signals kernels that slots of messages that the peer has taken are free. */
static void signal_room(struct remote_words *words, const struct proxy_connection *at)
{
	const uint64_t limit = atomic_load_explicit(&at->link->limit, memory_order_acquire),
		       depth = at->slots->depth, now = limit > depth ? limit - depth : 0;
	if (now != words->free)
		__atomic_store_n(&words->free, now, __ATOMIC_RELEASE);
}

/* Nothing more goes to a peer, or comes from it, on this rail. */
static void lose(struct proxy *p, int rail, int i)
{
	p->rails[rail].lost[i] = 1;
	atomic_store_explicit(&p->lost, p->peers[i].rank + 1, memory_order_relaxed);
}

/* Counts directions of links whose slots lie in the kernels' memory, until let_go. */
static void hold(struct proxy *p, int directions)
{
	atomic_fetch_add(&p->held, directions);
}

static int move_out(struct proxy *p, int rail, struct proxy_connection *at, remote_offset out)
{
	const struct remote *r = &p->params.remote;
	struct remote_words *words = remote_words_at(r, out);
	struct link *l = at->link;
	const uint64_t posted = proxy_load(&words->posted);
	int moved = 0, ret = 0;
	const int was_open = l->out_open;
	while (l->posted < posted && (ret = link_room(l)) > 0 && (ret = send_message(p, rail, at, out)) > 0)
		moved = 1;
	hold(p, l->out_open - was_open);
	if (ret >= 0 && l->out_open &&
	    atomic_load_explicit(&l->limit, memory_order_relaxed) < posted + at->slots->depth)
		ret = l->ops->poll(l, 1);
	if (ret < 0)
		lose(p, rail, at->peer);
	if (posted)
		signal_room(words, at);
	return moved;
}

/* Hands the next message to the kernel. */
static void deliver(struct proxy *p, int rail, struct proxy_connection *at, remote_offset in)
{
	const struct remote *r = &p->params.remote;
	const struct link_message *m = &at->link->in[at->delivered % (uint64_t)at->link->in_depth];
	struct remote_header header, *front = remote_header_at(r, in, at->slots, at->delivered);
	memcpy(&header, m->header, sizeof header);
	header.bytes = m->bytes;
	header.number = ++at->delivered;
	count_bytes(p, rail, at, header.bytes);
	slot_front_write(front, &header, m->data);
}

static int move_in(struct proxy *p, int rail, struct proxy_connection *at, remote_offset in)
{
	const struct remote *r = &p->params.remote;
	struct link *l = at->link;
	const uint64_t taken = proxy_load(&remote_words_at(r, in)->taken);
	int moved = 0, ret = 0;
	while (!ret && link_taken(l) < taken)
		ret = link_release(l);
	if (!ret && at->delivered == atomic_load_explicit(&l->arrived, memory_order_acquire))
		ret = l->ops->poll(l, 0);
	for (; at->delivered < atomic_load_explicit(&l->arrived, memory_order_acquire); moved = 1)
		deliver(p, rail, at, in);
	if (ret < 0)
		lose(p, rail, at->peer);
	return moved;
}

/* ---- Opening ----------------------------------------------------------------------------------------------- */

static void let_go(void *arg)
{
	struct proxy *p = arg;
	atomic_fetch_sub(&p->held, 1);
}

static unsigned char *data_of(const struct proxy *p, const struct proxy_connection *at, remote_offset offset)
{
	return offset ? remote_data_at(&p->params.remote, at->number, offset, 0) : NULL;
}

/* The link's slots are the kernels' memory. */
static int open_link(struct proxy *p, int rail, struct proxy_connection *at)
{
	at->memory = (struct link_memory){ .slab = p->params.slabs[rail],
					   .depth = (int)at->slots->depth,
					   .bytes = at->slots->bytes,
					   .release = let_go,
					   .ctx = p };
	const struct link_params params = { .rank = p->params.rank,
					    .peer = p->peers[at->peer].rank,
					    .index = PROXY_FIRST_LINK + (int)at->number,
					    .slots = &p->slots[remote_use_of(at->number)],
					    .memory = &at->memory };
	return link_open(p->rails[rail].transport, &params, &at->link);
}

/* Grants a receiving end to the peer at once; a sending end opens with its first message. */
static int open_connection(struct proxy *p, int rail, struct proxy_connection *at)
{
	const remote_offset in = proxy_offset(at, REMOTE_IN);
	int ret = at->link ? 0 : open_link(p, rail, at);
	at->memory.out = data_of(p, at, proxy_offset(at, REMOTE_OUT));
	if (ret || !in || at->link->in_open)
		return ret;
	at->memory.in = data_of(p, at, in);
	ret = p->ops->open_in(at->link);
	hold(p, at->link->in_open);
	return ret;
}

static int is_open(const struct proxy_connection *at)
{
	return at->link && (at->link->in_open || !proxy_offset(at, REMOTE_IN)) &&
	       (at->memory.out || !proxy_offset(at, REMOTE_OUT));
}

static struct proxy_connection *make_connection(struct proxy *p, int peer, uint32_t number)
{
	struct proxy_connection **row = p->peers[peer].connections, *at;
	if (!row)
		row = p->peers[peer].connections = calloc(REMOTE_CONNECTIONS, sizeof *row);
	if (!row || row[number])
		return row ? row[number] : NULL;
	at = row[number] = calloc(1, sizeof *at);
	if (at) {
		at->peer = peer;
		at->number = number;
		at->slots = remote_slots_of(&p->params.remote, number);
	}
	return at;
}

/* 0: there is no room. */
static remote_offset cut_end(struct proxy *p, const struct remote_slots *slots)
{
	const uint64_t lines = remote_end_bytes(slots) / REMOTE_LINE, offset = p->used;
	if ((offset + lines) * REMOTE_LINE > p->params.bytes) {
		log_error(CORALE_EINTERNAL, p->params.rank,
			  "a connection to another node needs %llu bytes of pinned memory, %llu are left",
			  (unsigned long long)lines * REMOTE_LINE,
			  (unsigned long long)(p->params.bytes - offset * REMOTE_LINE));
		return 0;
	}
	p->used += lines;
	return (remote_offset)offset;
}

int proxy_open_end(struct proxy *p, int peer, enum remote_direction direction, uint32_t number,
		   remote_offset *offset)
{
	struct proxy_connection *at = make_connection(p, peer, number);
	if (!at)
		return log_error(CORALE_ENOMEM, p->params.rank, "no memory for messages to and from rank %d",
				 p->peers[peer].rank);
	*offset = proxy_offset(at, direction);
	if (*offset)
		return 0;
	*offset = cut_end(p, at->slots);
	if (!*offset)
		return CORALE_EINTERNAL;
	const int listed = proxy_offset(at, REMOTE_OUT) || proxy_offset(at, REMOTE_IN);
	struct proxy_rail *rail = &p->rails[proxy_rail_of(number / (uint32_t)REMOTE_RINGS, p->params.nrails)];
	atomic_store_explicit(&at->offsets[direction], *offset, memory_order_release);
	if (listed)
		return 0;
	at->next = atomic_load_explicit(&rail->connections, memory_order_relaxed);
	atomic_store_explicit(&rail->connections, at, memory_order_release); /* one thread at a time */
	return 0;
}

/* ---- One communicator -------------------------------------------------------------------------------------- */

static int move_connection(struct proxy *p, int rail, struct proxy_connection *at)
{
	const unsigned char *lost = &p->rails[rail].lost[at->peer];
	int moved = 0;
	if (!is_open(at) && !*lost && open_connection(p, rail, at))
		lose(p, rail, at->peer);
	if (at->link && at->link->in_open)
		moved += move_in(p, rail, at, proxy_offset(at, REMOTE_IN));
	if (!*lost && at->memory.out)
		moved += move_out(p, rail, at, proxy_offset(at, REMOTE_OUT));
	return moved;
}

int proxy_progress(struct proxy *p, int rail)
{
	struct transport *t = p->rails[rail].transport;
	int moved = t->ops->progress(t) > 0, messages = 0;
	for (struct proxy_connection *at = proxy_connections(p, rail); at; at = at->next)
		messages += move_connection(p, rail, at);
	if (messages)
		atomic_fetch_add_explicit(&p->moved, (uint64_t)messages, memory_order_relaxed);
	return moved || messages;
}

static int in_has_work(const struct remote *r, const struct proxy_connection *at)
{
	struct link *l = at->link;
	return proxy_load(&remote_words_at(r, proxy_offset(at, REMOTE_IN))->taken) != link_taken(l) ||
	       l->ops->poll(l, 0) || atomic_load_explicit(&l->arrived, memory_order_relaxed) != at->delivered;
}

static int out_has_work(const struct remote *r, const struct proxy_connection *at)
{
	const struct remote_words *words = remote_words_at(r, proxy_offset(at, REMOTE_OUT));
	struct link *l = at->link;
	if (proxy_load(&words->posted) != l->posted)
		return 1;
	return l->posted && (l->ops->poll(l, 1) || atomic_load_explicit(&l->limit, memory_order_relaxed) >
						       words->free + at->slots->depth);
}

int proxy_has_work(const struct proxy *p, int rail)
{
	const struct remote *r = &p->params.remote;
	for (const struct proxy_connection *at = proxy_connections(p, rail); at; at = at->next) {
		if (p->rails[rail].lost[at->peer])
			continue;
		if (!is_open(at) || (proxy_offset(at, REMOTE_IN) && in_has_work(r, at)) ||
		    (proxy_offset(at, REMOTE_OUT) && out_has_work(r, at)))
			return 1;
	}
	return 0;
}

int proxy_rail_sent(const struct proxy *p, int rail)
{
	int all = 1;
	for (const struct proxy_connection *at = proxy_connections(p, rail); at; at = at->next) {
		const remote_offset out = proxy_offset(at, REMOTE_OUT);
		struct link *l = at->link;
		if (!out || p->rails[rail].lost[at->peer])
			continue;
		const uint64_t posted = proxy_load(&remote_words_at(&p->params.remote, out)->posted);
		all &= (l ? l->posted : 0) == posted && (!posted || !l->ops->sent || l->ops->sent(l));
	}
	return all;
}

uint64_t proxy_moved(const struct proxy *p)
{
	return atomic_load_explicit(&p->moved, memory_order_relaxed);
}

void proxy_bytes(const struct proxy *p, uint64_t *in_gpu, uint64_t *pinned)
{
	*in_gpu = *pinned = 0;
	for (int rail = 0; rail < p->params.nrails; rail++) {
		*pinned += atomic_load_explicit(&p->rails[rail].bytes[0], memory_order_relaxed);
		*in_gpu += atomic_load_explicit(&p->rails[rail].bytes[1], memory_order_relaxed);
	}
}

enum proxy_state proxy_state(const struct proxy *p)
{
	const struct remote_progress *calls = remote_progress_of(&p->params.remote);
	const uint64_t ended = proxy_load(&calls->ended);
	if (proxy_load(&calls->begun) != ended)
		return PROXY_RUNNING;
	return ended < atomic_load(&p->enqueued) ? PROXY_ENQUEUED : PROXY_IDLE;
}

int proxy_lost(const struct proxy *p)
{
	return atomic_load_explicit(&p->lost, memory_order_relaxed) - 1;
}

/* ---- Its life ----------------------------------------------------------------------------------------------- */

static struct proxy *allocate(const struct proxy_params *params)
{
	const size_t peers = (size_t)params->remote.peers;
	struct proxy *p = calloc(1, sizeof *p);
	int there = p && (p->peers = calloc(peers, sizeof *p->peers));
	for (int rail = 0; there && rail < params->nrails; rail++)
		there = (p->rails[rail].lost = calloc(peers, 1)) != NULL;
	if (there)
		return p;
	proxy_free(p);
	return NULL;
}

int proxy_create(const struct proxy_params *params, struct proxy **out)
{
	struct proxy *p = allocate(params);
	if (!p)
		return log_error(CORALE_ENOMEM, params->rank,
				 "no memory for messages to %d ranks of other nodes", params->remote.peers);
	p->params = *params;
	p->ops = params->rails[0]->ops->links;
	p->used = 1;
	for (int use = 0; use < REMOTE_USES; use++)
		p->slots[use] = (struct transport_slots){ .depth = (int)params->remote.slots[use].depth,
							  .bytes = params->remote.slots[use].bytes,
							  .cap = SIZE_MAX };
	for (int rail = 0; rail < params->nrails; rail++)
		p->rails[rail].transport = params->rails[rail];
	for (int i = 0; i < params->remote.peers; i++)
		p->peers[i].rank = params->ranks[i];
	*out = p;
	return 0;
}

/* proxy_free may be called again. */
static void free_links(const struct proxy *p, const struct proxy_peer *peer)
{
	for (uint32_t index = 0; peer->connections && index < REMOTE_CONNECTIONS; index++) {
		struct proxy_connection *at = peer->connections[index];
		if (at && at->link && p->ops->free)
			p->ops->free(at->link);
		if (at)
			at->link = NULL;
	}
}

int proxy_free(struct proxy *p)
{
	if (!p)
		return 1;
	const int peers = p->peers ? p->params.remote.peers : 0;
	for (int i = 0; i < peers; i++)
		free_links(p, &p->peers[i]);
	if (atomic_load(&p->held)) /* a link may still call let_go */
		return 0;
	for (int i = 0; i < peers; i++) {
		for (uint32_t index = 0; p->peers[i].connections && index < REMOTE_CONNECTIONS; index++)
			free(p->peers[i].connections[index]);
		free(p->peers[i].connections);
	}
	for (int rail = 0; rail < TRANSPORT_RAILS; rail++)
		free(p->rails[rail].lost);
	free(p->peers);
	free(p);
	return 1;
}
