/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources of an action, and their way into a target: copies, folds, memory of other processes. */
#define _GNU_SOURCE
#include "host_move.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/mapped.h"

enum { TEMP_BYTES = 64 << 10 }; /* read by reference at a time: stays in the second-level cache */

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
	int queue = m->a->from_queue, channel = m->ch->env.channel;
	if (!host_is_local(e, rank)) {
		const struct link_message *message = link_next(host_link(e, rank, channel, queue));
		*out = (struct host_source){ message->data, REDUCE_LOCAL, 0, 0, 0 };
		return 0;
	}
	return window_source(
	    m, rank, host_in(e, e->map.local_of[rank], m->run->plan->queues[queue].all, channel, queue), out);
}

int move_gather_sources(struct move *m)
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

int move_is_copy(const struct move *m)
{
	const struct reduce_spec *spec = &m->run->binding.spec;
	const struct host_source *s = &m->sources[0];
	if (m->result)
		return 1;
	int scales = s->kind == REDUCE_SEND && spec->op == CORALE_NUM_OPS;
	int divides = m->a->flags & PLAN_FINAL && spec->op == CORALE_AVG;
	return m->nsources == 1 && !m->a->cells && !scales && !divides;
}

static int make_temp(struct move *m)
{
	struct host_engine *e = m->run->engine;
	struct host_temp *temp = move_temp(m);
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
	struct reduce_input *inputs = move_temp(m)->inputs;
	for (int i = 0; i < m->nsources; i++) {
		const struct host_source *s = &m->sources[i];
		inputs[i] = (struct reduce_input){ s->data + first * bytes, s->kind };
		if (s->pid) {
			unsigned char *temp = move_temp(m)->data + (size_t)i * TEMP_BYTES;
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
	if (move_is_copy(m)) {
		const struct host_source *s = &m->sources[0];
		if (s->pid)
			return read_memory(m, s, target, s->data, bytes);
		if (s->data != target && m->is_last && bytes >= HOST_COPY_LEAST)
			host_copy(&move_temp(m)->copier, target, s->data, bytes);
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

const struct plan_location *move_find_span(const struct move *m, size_t *first)
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
	const struct plan_location *span = move_find_span(m, &first);
	return first == m->a->count ? fill_run(m, target, first) : fill_runs(m, target, span);
}

int move_fill(struct move *m, unsigned char *target)
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
