/* SPDX-License-Identifier: BSD-3-Clause */
/* An action's targets filled, then the messages published and the consumed ones released. */
#include "host_move.h"

#include <string.h>

#include "base/collectives.h"
#include "base/wait.h"

enum {
	LONG_BYTES =
	    16
	    << 10, /* from here on messages leave from the user's memory, if a link can, and the call waits for that */
	OWN_BYTES = 64 << 10 /* from here on a message to a thread of this process goes by reference */
};

/* ---- Messages ----------------------------------------------------------------------- */

/* The caller's memory that holds the whole message: the source of a plain move, or the local result. */
static const unsigned char *find_shared(const struct move *m)
{
	size_t first;
	move_find_span(m, &first);
	if (first < m->a->count)
		return NULL;
	if (m->a->from == PLAN_NONE)
		return move_is_copy(m) ? m->sources[0].data : NULL;
	return m->a->dst.space == PLAN_RECV ? m->local : NULL;
}

static void open_local(struct move *m)
{
	const struct plan_location *dst = &m->a->dst;
	m->local = NULL;
	if (dst->space == PLAN_SCRATCH)
		m->local = m->ch->scratch + dst->offset * m->run->type_bytes;
	else if (dst->space == PLAN_RECV)
		m->local = (unsigned char *)m->run->binding.recv + dst->offset * m->run->type_bytes;
}

/* True where the ways of messages between processes are measured, instead of said by settings. */
static int is_measured(const struct host_engine *e)
{
	return e->settings->reference == SETTINGS_AUTO && !e->settings->reference_bytes;
}

/* The smallest message that may go by reference. */
static size_t least_reference(const struct host_engine *e)
{
	return e->settings->reference_bytes ? e->settings->reference_bytes : HOST_PATH_LEAST;
}

static struct host_flow flow_of(const struct move *m)
{
	const corale_coll coll = (corale_coll)m->run->plan->key.coll;
	return (struct host_flow){ .one_way = coll_is_rooted(coll),
				   .writes = coll == CORALE_SCATTER ? m->run->engine->locals - 1 : 1 };
}

/*
 * Within a process a reference saves a copy. Between processes it may pay where the reader copies into memory that it would write anyway, not where it folds
 * from a cache.
 */
static int reference_pays(struct move *m)
{
	struct host_out *out = m->out;
	const struct host_engine *e = m->run->engine;
	const struct plan *plan = m->run->plan;
	if (!out->can_reference || m->message_bytes < least_reference(e))
		return 0;
	if (!out->crosses)
		return e->settings->reference_bytes || m->message_bytes >= OWN_BYTES;
	if (e->settings->reference == SETTINGS_YES)
		return 1;
	if (plan->queues[m->a->to_queue].folded)
		return 0;
	if (!is_measured(e)) /* several readers would walk the one buffer of a broadcast's root at a time */
		return plan->key.coll != CORALE_BROADCAST || out->nreaders == 1;
	if (out->chosen != out->sent + 1) { /* else it has waited for a slot */
		host_path_learn(out->paths, out->readers, out->nreaders, &out->learned);
		out->way = host_path_choose(out->paths, m->message_bytes, out->sent, flow_of(m));
		out->chosen = out->sent + 1;
	}
	m->is_timed = host_path_is_timed(m->message_bytes, out->sent);
	return out->way == HOST_BY_REFERENCE;
}

/* 0 if the message needs a slot and none is free: nothing has happened then. */
static int open_message(struct move *m)
{
	struct host_engine *e = m->run->engine;
	const struct plan_action *a = m->a;
	m->message = NULL;
	m->message_bytes = host_message_bytes(m->run, a);
	m->shared = NULL;
	if (a->flags & PLAN_STABLE &&
	    (m->message_bytes >= LONG_BYTES || m->message_bytes >= least_reference(e)))
		m->shared = find_shared(m);
	m->out = NULL;
	if (!host_sends_to_local(e, a))
		return 1;
	/* such memory goes when the call has failed, however far a thread of this process is with reading it; the user's stays */
	const int is_of_run = m->run->copied || a->src.space == PLAN_SCRATCH;
	int d = a->to == PLAN_ALL ? e->locals : e->map.local_of[a->to];
	m->out = host_out(e, d, m->ch->env.channel, a->to_queue);
	m->header = &m->out->headers[m->out->sent % WINDOW_HEADERS];
	if (m->message_bytes <= WINDOW_INLINE) {
		m->kind = WINDOW_INLINED;
		m->message = m->header->inlined;
	} else if (m->shared && !is_of_run && reference_pays(m)) {
		m->kind = WINDOW_REFERENCE;
	} else {
		const int room = host_room(&e->layout, m->out->stride);
		if (!host_out_free(m->out, room))
			return 0;
		m->kind = WINDOW_SLOT;
		m->header->offset = m->out->sent % (uint64_t)room * m->out->stride;
		m->message = m->out->payload + m->header->offset;
	}
	return 1;
}

static void publish_local(struct move *m)
{
	if (!m->out)
		return;
	m->header->signature = m->run->binding.signature;
	m->header->edge = host_edge(m->ch, m->a);
	atomic_store_explicit(&m->header->bytes_kind, (uint64_t)m->message_bytes << 8 | (uint64_t)m->kind,
			      memory_order_relaxed);
	if (m->kind == WINDOW_REFERENCE) {
		m->header->reference = m->shared;
		m->out->reference = m->out->sent + 1;
		m->ch->referenced = 1;
	}
	atomic_store_explicit(&m->header->sequence, ++m->out->sent, memory_order_release);
}

/* Sends to one rank of another node, from the user's memory or the link's slot, which is filled here. */
static int send_remote(struct move *m, int rank)
{
	struct host_engine *e = m->run->engine;
	struct link *link = host_link(e, rank, m->ch->env.channel, m->a->to_queue);
	const uint64_t header[TRANSPORT_HEADER_BYTES / 8] = { m->run->binding.signature,
							      host_edge(m->ch, m->a) };
	const unsigned char *direct = link->direct && m->message_bytes >= LONG_BYTES ? m->shared : NULL;
	m->ch->referenced |= m->message_bytes >= LONG_BYTES;
	if (direct)
		return link_post(link, header, direct, m->message_bytes);
	if (m->message_bytes && m->message) {
		memcpy(link_slot(link), m->message, m->message_bytes);
	} else if (m->message_bytes) {
		m->message = link_slot(link);
		int ret = move_fill(m, m->message);
		if (ret)
			return ret;
	}
	return link_post(link, header, NULL, m->message_bytes);
}

/* From the rank behind ours on, so that not all ranks send to the same one at a time. */
static int send_remotes(struct move *m)
{
	const struct plan_action *a = m->a;
	const struct host_engine *e = m->run->engine;
	if (a->to != PLAN_ALL)
		return a->to == PLAN_NONE || host_is_local(e, a->to) ? 0 : send_remote(m, a->to);
	int ret = 0;
	const int own = plan_group_index(&e->map, a->to_group, e->rank);
	for (int i = 1, n = host_group_size(e, a->to_group); e->transport && !ret && i <= n; i++) {
		int rank = host_member(e, a, a->to_group, (own + i) % n);
		if (!host_is_local(e, rank))
			ret = send_remote(m, rank);
	}
	return ret;
}

static int release_message(const struct move *m, int rank)
{
	struct host_engine *e = m->run->engine;
	int queue = m->a->from_queue, channel = m->ch->env.channel;
	if (!host_is_local(e, rank))
		return link_release(host_link(e, rank, channel, queue));
	struct host_in *in =
	    host_in(e, e->map.local_of[rank], m->run->plan->queues[queue].all, channel, queue);
	atomic_store_explicit(in->consumed, ++in->received, memory_order_release);
	return 0;
}

static int release_messages(const struct move *m)
{
	const struct plan_action *a = m->a;
	const struct host_engine *e = m->run->engine;
	int ret = 0;
	if (a->from == e->rank)
		host_token(e, m->ch->env.channel, a->from_queue)[1]++;
	else if (a->from != PLAN_ALL && a->from != PLAN_NONE)
		ret = release_message(m, a->from);
	for (int i = 0, n = a->from == PLAN_ALL ? host_group_size(e, a->from_group) : 0; !ret && i < n; i++) {
		int rank = host_member(e, a, a->from_group, i);
		if (rank != e->rank)
			ret = release_message(m, rank);
	}
	return ret;
}

static int fill_message(struct move *m)
{
	if (!m->is_timed || m->kind != WINDOW_SLOT)
		return move_fill(m, m->message);
	const int64_t start = wait_now_ns();
	const int ret = move_fill(m, m->message);
	host_path_wrote(m->out->paths, m->message_bytes, wait_now_ns() - start);
	return ret;
}

/* Of memory of this process: then the message is copied from the source too, as the local span may be stored past the caches. */
static int is_plain_copy(const struct move *m)
{
	return !m->sources[0].pid && move_is_copy(m);
}

/* The local span and the message: one fold and a copy. Where the local span is stored past the caches the message comes first,
 * since the local span may be a source. */
static int fill_both(struct move *m)
{
	const int past = m->run->exceeds_cache && m->a->dst.space == PLAN_RECV;
	int same = m->local && m->nsources && !(past && m->message && is_plain_copy(m));
	int ret = same ? 0 : fill_message(m);
	m->is_last = past;
	if (!ret)
		ret = move_fill(m, m->local);
	m->is_last = 0;
	if (ret || !same)
		return ret;
	m->sources[0] = (struct host_source){ m->local, REDUCE_LOCAL, 0, 0, 0 };
	m->nsources = m->result = 1;
	return fill_message(m);
}

/* The queue of the one message from another process that the action takes in, if its way is measured and this one is timed; else NULL. */
static struct host_in *timed_in(const struct move *m)
{
	struct host_engine *e = m->run->engine;
	const struct plan_action *a = m->a;
	if (a->from < 0 || a->from == e->rank || !is_measured(e) || !host_is_local(e, a->from))
		return NULL;
	struct host_in *in = host_in(e, e->map.local_of[a->from], m->run->plan->queues[a->from_queue].all,
				     m->ch->env.channel, a->from_queue);
	return in->pid && host_path_is_timed(host_message_bytes(m->run, a), in->received) ? in : NULL;
}

/* Fills the targets, and says what that took where the sender wants to know. */
static int fill_timed(struct move *m)
{
	struct host_in *in = timed_in(m);
	const int64_t start = in ? wait_now_ns() : 0;
	const enum host_way way = m->lent ? HOST_BY_REFERENCE : HOST_BY_SLOT;
	const int ret = fill_both(m);
	if (in && !ret)
		host_path_publish(in->consumed, host_message_bytes(m->run, m->a), way, in->received,
				  wait_now_ns() - start);
	return ret;
}

/* Nothing has been sent: the local span, and the slots of messages, are filled again once the message has come. */
static int read_later(struct host_program *p)
{
	p->ready = 0;
	p->scan = 0;
	return 0;
}

int host_move(struct host_run *run, struct host_channel *ch, struct host_program *p)
{
	const struct plan_action *a = &p->action;
	struct move m;
	m.run = run;
	m.ch = ch;
	m.p = p;
	m.a = a;
	m.folded = 0;
	m.sources = move_temp(&m)->sources;
	m.lent = m.result = m.is_timed = m.is_last = 0;
	int ret = move_gather_sources(&m);
	if (ret)
		return ret;
	open_local(&m);
	if (!open_message(&m))
		return 0;
	ret = fill_timed(&m);
	if (ret)
		return ret == MOVE_LATER ? read_later(p) : ret;
	publish_local(&m);
	ret = send_remotes(&m);
	if (ret == MOVE_LATER)
		return read_later(p);
	if (a->to == run->engine->rank)
		host_token(run->engine, ch->env.channel, a->to_queue)[0]++;
	ret = ret ? ret : release_messages(&m);
	return ret ? ret : 1;
}
