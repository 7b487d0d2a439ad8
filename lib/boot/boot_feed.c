/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection by which a rank of a large group has the table and all-gathers from another rank (boot_source.h). */
#include "base/wait.h"
#include "boot_listener.h"
#include "boot_rank.h"

static const int64_t FIRST_PAUSE = 2000000, LONGEST_PAUSE = 100000000, CONNECT_NS = 2000000000;

/* From now on the listener sends. */
int rank_ask_again(struct boot_rank *b)
{
	if (b->feed.dial.state == DIAL_NONE)
		return 0;
	dial_close(&b->feed.dial);
	b->feed.dial.state = DIAL_NONE;
	if (b->dial.fd < 0) /* the listener's process has ended meanwhile */
		return rank_lost(b);
	const uint64_t next = b->dial.state == DIAL_COMPLETE && !b->is_gathering ? b->round + 1 : b->round;
	return rank_queue(b, frame_new(BOOT_AGAIN, b->dial.state == DIAL_COMPLETE ? next : 0, 0));
}

/* The source's process may not have its source yet. */
static int try_later(struct boot_rank *b)
{
	struct boot_dial *d = &b->feed.dial;
	if (wait_now_ns() >= d->ends)
		return rank_ask_again(b);
	dial_later(d, LONGEST_PAUSE);
	return 0;
}

int rank_take_feed(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	struct boot_peer from;
	unsigned char key[BOOT_KEY_BYTES];
	const unsigned char *nonce = b->dial.reader.data;
	const int source = boot_source_of(b->base.rank, b->base.size);
	if (!boot_passes_on(b->base.size) || b->peers || b->source || f->dial.state != DIAL_NONE ||
	    b->dial.reader.bytes != BOOT_FEED_BYTES || !boot_peer_decode(nonce + BOOT_NONCE_BYTES, &from))
		return rank_damaged(b);
	if (boot_has_children(b->base.rank, b->base.size)) { /* without it, they ask the listener */
		boot_feed_key(b->id.key, nonce, b->base.rank, key);
		b->source = boot_listener_add_source(key, b->base.rank, b->base.size);
	}
	if (source < 0)
		return 0;
	f->id = (struct boot_id){ .address = from.listener, .process = from.process };
	boot_feed_key(b->id.key, nonce, source, f->id.key);
	f->id.name = boot_name_of_key(f->id.key);
	f->dial.pause = FIRST_PAUSE;
	f->dial.next_try = wait_now_ns();
	f->dial.ends = f->dial.next_try + CONNECT_NS;
	f->dial.state = DIAL_PAUSED;
	return 0;
}

/* ---- Connecting: what fails is left to the listener, without a line. */

static int take_answer(struct boot_rank *b)
{
	struct boot_dial *d = &b->feed.dial;
	if (d->reader.kind == BOOT_REFUSE)
		return try_later(b);
	if (d->reader.kind != BOOT_ACCEPT || d->reader.bytes != BOOT_ACCEPT_BYTES ||
	    !boot_accept_is_good(d->reader.data, b->feed.id.key, d->challenge, d->hello))
		return rank_ask_again(b);
	d->state = DIAL_JOINED;
	d->reader.limit = FRAME_MAX_BYTES;
	return 0;
}

/* ---- Taking */

static int take_frame(struct boot_rank *b)
{
	struct boot_dial *d = &b->feed.dial;
	if (d->state == DIAL_GREETED)
		return dial_prove(d, b, &b->feed.id) ? rank_ask_again(b) : 0;
	if (d->state == DIAL_PROVING)
		return take_answer(b);
	const int ret = rank_take_delivery(b, &d->reader);
	return ret > 0 ? rank_ask_again(b) : ret;
}

static int read_frames(struct boot_rank *b)
{
	struct boot_dial *d = &b->feed.dial;
	int ret = 0;
	while (!ret && d->state >= DIAL_GREETED) {
		const enum frame_status status = frame_read(&d->reader, d->fd);
		if (status == FRAME_MORE)
			return 0;
		ret = status == FRAME_WHOLE ? take_frame(b) : rank_ask_again(b);
		if (d->state >= DIAL_GREETED)
			frame_next(&d->reader);
	}
	return ret;
}

int rank_advance_feed(struct boot_rank *b)
{
	struct boot_dial *d = &b->feed.dial;
	int ret = dial_advance(d, &b->feed.id.address) ? rank_ask_again(b) : 0;
	ret = ret ? ret : read_frames(b);
	if (!ret && d->state >= DIAL_CONNECTING && d->state < DIAL_JOINED && wait_now_ns() >= d->ends)
		ret = rank_ask_again(b);
	if (d->state >= DIAL_GREETED) /* a broken connection is seen by reading */
		frame_flush(&d->writer, d->fd);
	return ret;
}
