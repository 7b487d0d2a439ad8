/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The movement of data: one action's sources folded into its targets, then the messages published and the
 * consumed ones released.
 */
#define _GNU_SOURCE
#include "host_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/collectives.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/wait.h"

enum {
	TEMP_BYTES = 64 << 10, /* read by reference at a time: stays in the second-level cache */
	LONG_BYTES =
	    16
	    << 10, /* from here on messages leave from the user's memory, if a link can, and the call waits for that */
	OWN_BYTES = 64 << 10 /* from here on a message to a thread of this process goes by reference */
};

/* A message can't be read, and its sender is asked for it: the action is to be executed again. */
enum { MOVE_LATER = 1 };

struct move {
	struct host_run *run;
	struct host_channel *ch;
	struct host_program *p;
	const struct plan_action *a;
	size_t folded; /* elements of this action, those of earlier attempts included */
	struct host_source *sources; /* the channel's */
	int nsources;
	int lent; /* some of them may be: by its rank, until its call ends */
	unsigned char *local,
	    *message; /* NULL: absent; where the result goes; message: the first buffer it is sent from */
	size_t message_bytes;
	const unsigned char *shared; /* where the message lies unchanged until it was read, or NULL */
	int result; /* sources[0] is the result already */
	struct host_out *out; /* the queue to local readers, or NULL */
	struct window_header *header;
	int kind; /* enum window_message */
	int is_timed; /* the message's way is measured (host_path.h) */
	int is_last; /* what is filled is the receive buffer of a call that exceeds the caches */
};

/* ---- Sources ------------------------------------------------------------------------ */

static struct host_source local_source(const struct move *m)
{
	const struct host_run *run = m->run;
	const struct plan_location *src = &m->a->src;
	if (src->space == PLAN_SCRATCH)
		return (struct host_source){ m->ch->scratch + src->offset * run->type_bytes, REDUCE_LOCAL, 0,
					     0, 0 };
	const unsigned char *base = src->space == PLAN_SEND ? run->binding.send : run->binding.recv;
	int kind = src->space == PLAN_SEND ? REDUCE_SEND : REDUCE_LOCAL;
	return (struct host_source){ base + src->offset * run->type_bytes, kind, 0, 0, 0 };
}

/* Headers lie in memory that a peer's process can write at any time: what was checked is what is used. */
static uint64_t read_once(const uint64_t *word)
{
	return *(const volatile uint64_t *)word;
}

/* The next message in a rank's window. */
static int window_source(struct move *m, int rank, const struct host_in *in, struct host_source *out)
{
	const struct window_layout *layout = &m->run->engine->layout;
	const struct window_header *header = &in->headers[in->received % WINDOW_HEADERS];
	const size_t bytes = host_message_bytes(m->run, m->a), most = layout->queue_bytes;
	const int says =
	    (int)(atomic_load_explicit(&header->bytes_kind, memory_order_acquire) & 0xff); /* then the rest */
	if (says == WINDOW_REFERENCE) { /* the kernel checks it, unless it is memory of this very process */
		*out = (struct host_source){ header->reference, REDUCE_LOCAL, in->pid, rank, 1 };
		m->lent = 1;
		return 0;
	}
	if (says == WINDOW_INLINED && bytes <= WINDOW_INLINE) {
		*out = (struct host_source){ header->inlined, REDUCE_LOCAL, 0, 0, 0 };
		return 0;
	}
	const uint64_t offset = read_once(&header->offset);
	if (says == WINDOW_SLOT && bytes <= most && offset <= most - bytes) {
		*out = (struct host_source){ in->payload + offset, REDUCE_LOCAL, 0, 0, 0 };
		return 0;
	}
	return log_error(
	    CORALE_EINTERNAL, m->run->engine->rank,
	    "a message of rank %d is of kind %d at byte %llu by its header; expected %zu bytes in the "
	    "header's line (kind %d, up to %d bytes), within the queue's %zu bytes (kind %d) or by reference "
	    "(kind %d): something has overwritten that rank's window; look for stray stores in that process",
	    rank, says, (unsigned long long)offset, bytes, WINDOW_INLINED, WINDOW_INLINE, most, WINDOW_SLOT,
	    WINDOW_REFERENCE);
}

static int message_source(struct move *m, int rank, struct host_source *out)
{
	struct host_engine *e = m->run->engine;
	int ring = m->a->from_queue, channel = m->ch->env.channel;
	if (!host_is_local(e, rank)) {
		const struct link_message *message = link_next(host_link(e, rank, channel, ring));
		*out = (struct host_source){ message->data, REDUCE_LOCAL, 0, 0, 0 };
		return 0;
	}
	return window_source(
	    m, rank, host_in(e, e->map.local_of[rank], m->run->plan->queues[ring].all, channel, ring), out);
}

static int gather_sources(struct move *m)
{
	const struct plan_action *a = m->a;
	int ret = 0;
	m->nsources = 0;
	if (a->op != PLAN_MOVE)
		return 0;
	if (a->from ==
	    PLAN_ALL) { /* the group's order, with ourselves in our place: one order for all ranks */
		for (int i = 0, n = host_group_size(m->run->engine, a->from_group); !ret && i < n; i++) {
			int rank = host_member(m->run->engine, a, a->from_group, i);
			if (rank != m->run->engine->rank)
				ret = message_source(m, rank, &m->sources[m->nsources++]);
			else if (a->src.space)
				m->sources[m->nsources++] = local_source(m);
		}
		return ret;
	}
	if (a->from != PLAN_NONE && a->from != m->run->engine->rank)
		ret = message_source(m, a->from, &m->sources[m->nsources++]);
	if (a->src.space)
		m->sources[m->nsources++] = local_source(m);
	return ret;
}

/* ---- Folding ------------------------------------------------------------------------ */

/* Why bytes of a process's memory could not be read into to. A process that ends gives its memory back first (ESRCH); that it is gone is found by whoever
 * reads it. All else may be refused to this process alone, or be no memory that the kernel reads for others: its owner can copy it. */
static int unreadable(const struct move *m, const struct host_source *s, void *to, size_t bytes, int error)
{
	struct host_engine *e = m->run->engine;
	if (!error || error == ESRCH)
		return log_error(
		    CORALE_EPEER, e->rank,
		    "rank %d (process %d) has ended while %zu bytes of its memory were to be read", s->rank,
		    (int)s->pid, bytes);
	const size_t writable = error == EFAULT ? mapped_writable(to, bytes) : bytes;
	if (writable < bytes)
		return log_error(CORALE_ESYSTEM, e->rank,
				 "%zu bytes of rank %d are received at %p, where this rank can write %zu: "
				 "give a receive buffer that is mapped as a whole",
				 bytes, s->rank, to, writable);
	host_lend_refused(e, e->map.local_of[s->rank], error);
	return MOVE_LATER;
}

static int read_memory(const struct move *m, const struct host_source *s, void *to, const void *from,
		       size_t bytes)
{
	while (bytes) {
		struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)from, bytes };
		ssize_t n = process_vm_readv(s->pid, &local, 1, &remote, 1, 0);
		if (n <= 0)
			return unreadable(m, s, to, bytes, n ? errno : 0);
		to = (unsigned char *)to + n;
		from = (const unsigned char *)from + n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* True if the result is the only source, bit for bit. */
static int is_copy(const struct move *m)
{
	const struct reduce_spec *spec = &m->run->binding.spec;
	const struct host_source *s = &m->sources[0];
	if (m->result)
		return 1;
	int scales = s->kind == REDUCE_SEND && spec->op == CORALE_NUM_OPS;
	int divides = m->a->flags & PLAN_FINAL && spec->op == CORALE_AVG;
	return m->nsources == 1 && !m->a->cells && !scales && !divides;
}

static struct host_temp *temp_of(const struct move *m)
{
	return &m->run->engine->temps[m->ch->env.channel];
}

static int make_temp(struct move *m)
{
	struct host_engine *e = m->run->engine;
	struct host_temp *temp = temp_of(m);
	const size_t bytes = (size_t)m->nsources * TEMP_BYTES;
	if (temp->bytes >= bytes)
		return 0;
	unsigned char *larger = malloc(bytes);
	if (!larger)
		return log_error(CORALE_ENOMEM, e->rank, "no memory to read %d messages", m->nsources);
	free(temp->data);
	atomic_fetch_add_explicit(&e->temp_bytes, bytes - temp->bytes, memory_order_relaxed);
	temp->data = larger;
	temp->bytes = bytes;
	return 0;
}

/* Folds elements [first, first + count) into the target; messages by reference are read into temp first. */
static int fold_piece(struct move *m, unsigned char *target, size_t first, size_t count)
{
	const struct host_run *run = m->run;
	const size_t bytes = run->type_bytes;
	struct reduce_input *inputs = temp_of(m)->inputs;
	for (int i = 0; i < m->nsources; i++) {
		const struct host_source *s = &m->sources[i];
		inputs[i] = (struct reduce_input){ s->data + first * bytes, s->kind };
		if (s->pid) {
			unsigned char *temp = temp_of(m)->data + (size_t)i * TEMP_BYTES;
			int ret = read_memory(m, s, temp, inputs[i].data, count * bytes);
			if (ret)
				return ret;
			inputs[i].data = temp;
		}
	}
	reduce_fold(&run->binding.spec, target + first * bytes, inputs, m->nsources, count,
		    m->a->flags & PLAN_FINAL);
	return 0;
}

/* Folds up to *n elements from first on, but none that an earlier attempt at this action has folded: the target may be a source. */
static int fold_once(struct move *m, unsigned char *target, size_t first, size_t *n)
{
	const size_t folded = m->p->folded - m->folded;
	int ret = 0;
	if (folded)
		*n = *n < folded ? *n : folded;
	else
		ret = fold_piece(m, target, first, *n);
	m->folded += *n;
	if (!ret && !folded)
		m->p->folded += *n;
	return ret;
}

static struct window_control *lender_of(const struct move *m, const struct host_source *s)
{
	const struct host_engine *e = m->run->engine;
	return e->windows[e->map.local_of[s->rank]];
}

/* A rank whose call has failed says so, or leaves, before its caller has the memory back. */
static int check_lenders(const struct move *m)
{
	const struct host_engine *e = m->run->engine;
	const struct window_control *own = e->windows[e->local];
	atomic_thread_fence(memory_order_acquire); /* what was read comes before */
	for (int i = 0; i < m->nsources; i++) {
		const struct host_source *s = &m->sources[i];
		if (!s->lent)
			continue;
		if (atomic_load(&own->abort) && !host_is_earlier(e))
			return CORALE_EPEER; /* the communicator has failed: the word says why */
		if (atomic_load(&lender_of(m, s)->left))
			return log_error(CORALE_EPEER, e->rank,
					 "rank %d has left the communicator while this rank read its message",
					 s->rank);
	}
	return 0;
}

/* Where memory is lent within this process it is loaded from, not copied by the kernel: a failed call of its lender waits for these threads
 * (host_lend_end). */
static void count_reader(const struct move *m, int n)
{
	for (int i = 0; i < m->nsources; i++)
		if (m->sources[i].lent && !m->sources[i].pid)
			atomic_fetch_add(&lender_of(m, &m->sources[i])->readers, (uint64_t)n);
}

static int fill_run(struct move *m, unsigned char *target, size_t count)
{
	size_t bytes = count * m->run->type_bytes;
	if (is_copy(m)) {
		const struct host_source *s = &m->sources[0];
		if (s->pid)
			return read_memory(m, s, target, s->data, bytes);
		if (s->data != target && m->is_last && bytes >= HOST_COPY_LEAST)
			host_copy(&temp_of(m)->copier, target, s->data, bytes);
		else if (s->data != target)
			memcpy(target, s->data, bytes);
		return 0;
	}
	size_t piece = count;
	int ret = 0;
	for (int i = 0; i < m->nsources && piece == count; i++) {
		if (m->sources[i].pid) {
			piece = TEMP_BYTES / m->run->type_bytes;
			ret = make_temp(m);
		}
	}
	for (size_t first = 0, n; !ret && first < count; first += n) {
		n = count - first < piece ? count - first : piece;
		ret = fold_once(m, target, first, &n);
	}
	return ret;
}

/* The span of an action that may be of several runs: the one in a buffer, if there is one; and how long the first run is. */
static const struct plan_location *find_span(const struct move *m, size_t *first)
{
	const struct plan_action *a = m->a;
	const int is_src = a->src.space && (a->src.space != PLAN_SCRATCH || !a->dst.space);
	const struct plan_location *span = is_src ? &a->src : &a->dst;
	size_t offset;
	*first = plan_span_run(&m->ch->env, a, span, 0, &offset);
	return span;
}

static unsigned char *address_of(const struct move *m, int space, size_t offset)
{
	const struct host_binding *b = &m->run->binding;
	if (space == PLAN_SCRATCH)
		return m->ch->scratch + offset * m->run->type_bytes;
	return (unsigned char *)(uintptr_t)(space == PLAN_SEND ? b->send : b->recv) +
	       offset * m->run->type_bytes;
}

/* One run of a span after the other, at either end; all else goes on behind the elements before. */
static int fill_runs(struct move *m, unsigned char *target, const struct plan_location *span)
{
	const int own = span == &m->a->src ? m->nsources - 1
			: m->result        ? 0
					   : -1,
		  last = m->nsources - 1, is_target = target == m->local && span == &m->a->dst;
	const struct host_source kept[2] = { m->sources[0], m->sources[last] }; /* of one rank and this one */
	int ret = 0;
	for (size_t done = 0, n, offset; !ret && done < m->a->count; done += n) {
		n = plan_span_run(&m->ch->env, m->a, span, done, &offset);
		unsigned char *at = address_of(m, span->space, offset);
		const size_t behind = done * m->run->type_bytes;
		for (int i = 0; i <= last; i++)
			m->sources[i].data = i == own ? at : kept[i].data + behind;
		ret = fill_run(m, is_target ? at : target + behind, n);
	}
	m->sources[0] = kept[0];
	m->sources[last] = kept[1];
	return ret;
}

/* Cells are this rank's own memory, and may be more than there are sources of a fold. */
static void fold_cells(const struct move *m, unsigned char *target)
{
	const struct host_run *run = m->run;
	const struct plan_action *a = m->a;
	const size_t cell = plan_cell_elements(run->plan, &m->ch->env) * run->type_bytes;
	const struct reduce_cells cells = { .data = m->sources[0].data - (size_t)a->src.block * cell,
					    .bytes = cell,
					    .cells = (int)run->plan->scratch_cells,
					    .first = a->src.block,
					    .folded = a->cells,
					    .kind = m->sources[0].kind };
	reduce_fold_cells(&run->binding.spec, target, &cells, a->count, a->flags & PLAN_FINAL);
}

static int copy_or_fold(struct move *m, unsigned char *target)
{
	size_t first;
	if (m->a->cells && !m->result) {
		fold_cells(m, target);
		return 0;
	}
	const struct plan_location *span = find_span(m, &first);
	return first == m->a->count ? fill_run(m, target, first) : fill_runs(m, target, span);
}

static int fill(struct move *m, unsigned char *target)
{
	if (!target || !m->a->count || !m->nsources)
		return 0;
	if (!m->lent)
		return copy_or_fold(m, target);
	count_reader(m, 1);
	int ret = check_lenders(m); /* who has failed before may not wait for this thread */
	ret = ret ? ret : copy_or_fold(m, target);
	count_reader(m, -1);
	return ret ? ret : check_lenders(m);
}

/* ---- Messages ----------------------------------------------------------------------- */

/* The caller's memory that holds the whole message: the source of a plain move, or the local result. */
static const unsigned char *find_shared(const struct move *m)
{
	size_t first;
	find_span(m, &first);
	if (first < m->a->count)
		return NULL;
	if (m->a->from == PLAN_NONE)
		return is_copy(m) ? m->sources[0].data : NULL;
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
		int ret = fill(m, m->message);
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
	int ring = m->a->from_queue, channel = m->ch->env.channel;
	if (!host_is_local(e, rank))
		return link_release(host_link(e, rank, channel, ring));
	struct host_in *in = host_in(e, e->map.local_of[rank], m->run->plan->queues[ring].all, channel, ring);
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
		return fill(m, m->message);
	const int64_t start = wait_now_ns();
	const int ret = fill(m, m->message);
	host_path_wrote(m->out->paths, m->message_bytes, wait_now_ns() - start);
	return ret;
}

/* Of memory of this process: then the message is copied from the source too, as the local span may be stored past the caches. */
static int is_plain_copy(const struct move *m)
{
	return !m->sources[0].pid && is_copy(m);
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
		ret = fill(m, m->local);
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
	m.sources = temp_of(&m)->sources;
	m.lent = m.result = m.is_timed = m.is_last = 0;
	int ret = gather_sources(&m);
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
