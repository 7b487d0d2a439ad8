/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message by reference whose reader can't read the sender's memory: it runs as another user by now, a filter forbids the call, or it is memory that the
 * kernel reads for nobody (memfd_secret, devices). The reader asks in its window; the sender, whose call waits until the message is read, copies it into the
 * slot that the message would have had, and further messages of the queue go through slots from the start.
 */
#include <string.h>

#include "base/log.h"
#include "base/mapped.h"
#include "base/wait.h"
#include "host_engine.h"

void host_lend_refused(struct host_engine *e, int q, int error)
{
	struct window_control *own = e->windows[e->local];
	atomic_store_explicit(&own->can_read[q], 0, memory_order_relaxed);
	if (atomic_exchange(&e->logged_unreadable, 1))
		return;
	log_line(LOG_INFO, e->rank,
		 "the kernel does not let this rank read rank %d's memory any more (%s): its large messages "
		 "are copied twice from now on",
		 e->map.member[e->map.node_first[e->map.node_of[e->rank]] + q], strerror(error));
}

/* Message number k of a queue, still by reference, into its slot. */
static int lend(const struct host_engine *e, const struct host_out *out, struct window_header *header,
		uint64_t k)
{
	const size_t bytes = window_bytes(header);
	const void *data = header->reference;
	if (bytes > out->stride)
		return log_error(CORALE_EINTERNAL, e->rank,
				 "a message of this rank has %zu bytes by its header, more than a slot's "
				 "%zu: something has overwritten this rank's window; look for stray stores",
				 bytes, out->stride);
	const size_t readable = mapped_readable(data, bytes);
	if (readable < bytes)
		return log_error(CORALE_ESYSTEM, e->rank,
				 "%zu bytes at %p are to be sent, of which this rank can read %zu: give a "
				 "send buffer that is mapped as a whole",
				 bytes, data, readable);
	header->offset = k % (uint64_t)host_room(&e->layout, out->stride) * out->stride;
	memcpy(out->payload + header->offset, data, bytes);
	atomic_store_explicit(&header->bytes_kind, (uint64_t)bytes << 8 | WINDOW_SLOT, memory_order_release);
	return 0;
}

/* Lends the message that reader i asks for, if a slot is free: those of messages that not all have read are taken. */
static int answer(const struct host_engine *e, struct host_out *out, int i)
{
	const uint64_t asked = atomic_load_explicit(window_asked(out->readers[i]), memory_order_acquire);
	const uint64_t k = asked - 1;
	if (!asked || k < out->consumed || k >= out->sent)
		return 0;
	struct window_header *header = &out->headers[k % WINDOW_HEADERS];
	const uint64_t kind = atomic_load_explicit(&header->bytes_kind, memory_order_relaxed) & 0xff;
	const uint64_t room = (uint64_t)host_room(&e->layout, out->stride);
	out->can_reference = 0;
	if (kind != WINDOW_REFERENCE)
		return 0;
	if (k - out->consumed >= room)
		host_out_free(out, 0);
	return k < out->consumed || k - out->consumed >= room ? 0 : lend(e, out, header, k);
}

int host_lend_answer(struct host_run *run, const struct host_channel *ch)
{
	struct host_engine *e = run->engine;
	int ret = 0;
	for (int d = 0; d <= e->locals; d++) {
		for (int queue = 0; queue < run->plan->nqueues; queue++) {
			struct host_out *out = host_out(e, d, ch->env.channel, queue);
			for (int i = 0; !ret && out->reference > out->consumed && i < out->nreaders; i++)
				ret = answer(e, out, i);
		}
	}
	return ret;
}

/* The local rank of a queue's reader that has not read all messages by reference, or -1. d: the queue's reader, or e->locals: all others read it. */
static int late_reader(const struct host_engine *e, const struct host_out *out, int d)
{
	for (int i = 0; out->reference > out->consumed && i < out->nreaders; i++)
		if (atomic_load_explicit(out->readers[i], memory_order_acquire) < out->reference)
			return d < e->locals ? d : i + (i >= e->local);
	return -1;
}

int host_lend_awaits(const struct host_run *run, int channel)
{
	struct host_engine *e = run->engine;
	const int first = e->map.node_first[e->map.node_of[e->rank]];
	for (int d = 0; d <= e->locals; d++) {
		for (int queue = 0; queue < run->plan->nqueues; queue++) {
			const int q = late_reader(e, host_out(e, d, channel, queue), d);
			if (q >= 0)
				return e->map.member[first + q];
		}
	}
	return PLAN_NONE;
}

static int poll_readers(void *arg)
{
	const struct window_control *own = arg;
	return !atomic_load(&own->readers);
}

/* A thread that counts itself as a reader from now on finds that this rank has failed or left, and does not read. Second by second, as the process may have
 * been stopped for long. */
void host_lend_end(const struct host_engine *e)
{
	enum { PATIENCE_S = 10 };
	static const struct wait_policy second = { .timeout_ns = 1000 * 1000 * 1000 };
	for (int s = 0; e->windows && s < PATIENCE_S; s++)
		if (wait_until(&second, poll_readers, e->windows[e->local]) > 0)
			return;
	if (e->windows)
		log_line(LOG_WARN, e->rank,
			 "a call of this rank has failed, and after %d s threads of its process still read "
			 "its buffers: free them only when the calls of the other ranks have ended, too",
			 PATIENCE_S);
}
