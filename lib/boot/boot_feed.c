/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection by which a rank of a large group has the table and all-gathers from another rank (boot_source.h). */
#include <errno.h>
#include <poll.h>

#include "base/wait.h"
#include "boot_fds.h"
#include "boot_listener.h"
#include "boot_rank.h"

static const int64_t FIRST_PAUSE = 2000000, LONGEST_PAUSE = 100000000, CONNECT_NS = 2000000000;

/* From now on the listener sends. */
int rank_ask_again(struct boot_rank *b)
{
	if (b->feed.state == FEED_NONE)
		return 0;
	rank_disconnect_feed(b);
	b->feed.state = FEED_NONE;
	if (b->fd < 0) /* the listener's process has ended meanwhile */
		return rank_lost(b);
	const uint64_t next = b->state == RANK_COMPLETE && !b->is_gathering ? b->round + 1 : b->round;
	return rank_queue(b, frame_new(BOOT_AGAIN, b->state == RANK_COMPLETE ? next : 0, 0));
}

/* The source's process may not have its source yet. */
static int try_later(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	const int64_t now = wait_now_ns();
	if (now >= f->ends)
		return rank_ask_again(b);
	rank_disconnect_feed(b);
	f->state = FEED_PAUSED;
	f->next_try = now + f->pause;
	f->pause = f->pause * 2 < LONGEST_PAUSE ? f->pause * 2 : LONGEST_PAUSE;
	return 0;
}

int rank_take_feed(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	unsigned char key[BOOT_KEY_BYTES];
	const unsigned char *nonce = b->reader.data;
	const int source = boot_source_of(b->base.rank, b->base.size);
	if (!boot_passes_on(b->base.size) || b->peers || b->source || f->state != FEED_NONE ||
	    b->reader.bytes != BOOT_FEED_BYTES || !boot_peer_decode(nonce + BOOT_NONCE_BYTES, &f->from))
		return rank_damaged(b);
	if (boot_has_children(b->base.rank, b->base.size)) { /* without it, they ask the listener */
		boot_feed_key(b->id.key, nonce, b->base.rank, key);
		b->source = boot_listener_add_source(key, b->base.rank, b->base.size);
	}
	if (source < 0)
		return 0;
	boot_feed_key(b->id.key, nonce, source, f->key);
	f->fd = -1;
	f->pause = FIRST_PAUSE;
	f->next_try = wait_now_ns();
	f->ends = f->next_try + CONNECT_NS;
	f->state = FEED_PAUSED;
	return 0;
}

/* ---- Connecting: what fails is left to the listener, without a line. */

static void connected(struct boot_feed *f)
{
	boot_fds_tune(f->fd);
	f->reader.limit = BOOT_TEXT_BYTES + 8;
	f->state = FEED_GREETED;
}

static int begin_connect(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	struct sockaddr_storage name;
	socklen_t length = boot_address_to_socket(&f->from.listener, &name);
	f->fd = boot_fds_socket(name.ss_family);
	if (f->fd < 0)
		return rank_ask_again(b);
	if (connect(f->fd, (struct sockaddr *)&name, length) == 0)
		connected(f);
	else if (errno == EINPROGRESS || errno == EINTR)
		f->state = FEED_CONNECTING;
	else
		return rank_ask_again(b);
	return 0;
}

static int check_connect(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	struct pollfd p = { .fd = f->fd, .events = POLLOUT };
	int error = 0;
	socklen_t length = sizeof(error);
	if (poll(&p, 1, 0) <= 0)
		return wait_now_ns() >= f->ends ? rank_ask_again(b) : 0;
	getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error)
		return rank_ask_again(b);
	connected(f);
	return 0;
}

static int take_challenge(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	struct boot_hello h = { .version = BOOT_PROTOCOL,
				.process = f->from.process,
				.name = boot_name_of_key(f->key),
				.rank = b->base.rank,
				.size = b->base.size,
				.peer = b->self };
	if (f->reader.kind != BOOT_CHALLENGE ||
	    !boot_challenge_decode(f->reader.data, f->reader.bytes, f->challenge) ||
	    boot_random(h.nonce, sizeof(h.nonce)) ||
	    frame_queue(&f->writer, boot_hello_frame(&h, f->key, f->challenge, f->hello)))
		return rank_ask_again(b);
	f->state = FEED_PROVING;
	return 0;
}

static int take_answer(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	if (f->reader.kind == BOOT_REFUSE)
		return try_later(b);
	if (f->reader.kind != BOOT_ACCEPT || f->reader.bytes != BOOT_ACCEPT_BYTES ||
	    !boot_accept_is_good(f->reader.data, f->key, f->challenge, f->hello))
		return rank_ask_again(b);
	f->state = FEED_ON;
	f->reader.limit = FRAME_MAX_BYTES;
	return 0;
}

/* ---- Taking */

static int take_frame(struct boot_rank *b)
{
	if (b->feed.state == FEED_GREETED)
		return take_challenge(b);
	if (b->feed.state == FEED_PROVING)
		return take_answer(b);
	const int ret = rank_take_delivery(b, &b->feed.reader);
	return ret > 0 ? rank_ask_again(b) : ret;
}

static int read_frames(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	int ret = 0;
	while (!ret && f->state >= FEED_GREETED) {
		const enum frame_status status = frame_read(&f->reader, f->fd);
		if (status == FRAME_MORE)
			return wait_now_ns() >= f->ends && f->state < FEED_ON ? rank_ask_again(b) : 0;
		ret = status == FRAME_WHOLE ? take_frame(b) : rank_ask_again(b);
		if (f->state >= FEED_GREETED)
			frame_next(&f->reader);
	}
	return ret;
}

int rank_advance_feed(struct boot_rank *b)
{
	struct boot_feed *f = &b->feed;
	int ret = 0;
	if (f->state == FEED_PAUSED && wait_now_ns() >= f->next_try)
		ret = begin_connect(b);
	else if (f->state == FEED_CONNECTING)
		ret = check_connect(b);
	ret = ret ? ret : read_frames(b);
	if (f->state >= FEED_GREETED) /* a broken connection is seen by reading */
		frame_flush(&f->writer, f->fd);
	return ret;
}
