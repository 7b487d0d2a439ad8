/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's waiting for others: what can be done meanwhile, for how long, and whom a line names. */
#include "boot_rank.h"

#include <poll.h>
#include <stdio.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"

enum { POLL_MS = 5, MOST_POLL_MS = 50, POLLED_RANKS = 64 };
static const int64_t SECOND = 1000000000, WARN_NS = 10000000000;

/* whom: "ranks 3, 5 of 8", or the listener. absence: why ranks may not have come, since one that can't connect can't say so to the others. */
struct wait_text {
	char whom[2 * RANK_TEXT_BYTES], absence[RANK_TEXT_BYTES];
};

static struct wait_text describe_wait(const struct boot_rank *b)
{
	struct wait_text t = { { 0 }, { 0 } };
	char ranks[RANK_TEXT_BYTES], where[BOOT_ADDRESS_TEXT];
	boot_address_text(&b->id.address, where);
	if (b->dial.state >= DIAL_JOINED && b->missing.ranks)
		snprintf(t.whom, sizeof(t.whom), "rank%s %s of %d", b->missing.ranks > 1 ? "s" : "",
			 boot_missing_text(&b->missing, ranks, sizeof(ranks)), b->base.size);
	else if (b->dial.state >= DIAL_JOINED)
		snprintf(t.whom, sizeof(t.whom), "other ranks of %d", b->base.size);
	else
		snprintf(t.whom, sizeof(t.whom), "the process that listens at %s%s%s", where,
			 b->last_failure[0] ? ": " : "", b->last_failure);
	if (b->dial.state == DIAL_JOINED && b->missing.ranks)
		snprintf(t.absence, sizeof(t.absence),
			 " Nothing has come from there to %s on host %s: the processes have not started, or "
			 "have ended, or can't reach that address",
			 where, b->maker.host);
	return t;
}

static int time_over(struct boot_rank *b)
{
	const struct wait_text t = describe_wait(b);
	if (b->dial.state < DIAL_COMPLETE)
		return rank_fail(
		    b, CORALE_ETIMEDOUT,
		    "waited %.3g s for %s; is every process started, with the same id and size?%s",
		    (double)b->timeout / 1e9, t.whom, t.absence);
	return rank_fail(b, CORALE_ETIMEDOUT, "waited %.3g s for %s in all-gather %llu",
			 (double)b->timeout / 1e9, t.whom, (unsigned long long)b->round);
}

int rank_is_done(const struct boot_rank *b)
{
	return b->dial.state == DIAL_COMPLETE && !b->is_gathering;
}

int rank_ask_who(struct boot_rank *b, int64_t now)
{
	if (b->dial.writer.first || b->dial.fd < 0)
		return 0;
	b->asked_at = now;
	struct frame *f = frame_new(BOOT_WHO, ++b->questions, 8);
	if (f)
		frame_put(frame_payload(f), b->dial.state == DIAL_COMPLETE ? b->round : 0, 8);
	return rank_queue(b, f);
}

/*
 * Asks the listener once a second, or more often before a short deadline, so that the ranks can be named when it is over. Of more than 1,000 ranks
 * each asks less often, since an answer costs the listener a look at each rank.
 */
static int64_t often(const struct boot_rank *b)
{
	const int64_t a_ms_each = (int64_t)b->base.size * 1000000,
		      pause = a_ms_each > SECOND ? a_ms_each : SECOND;
	return b->timeout / 8 < pause ? b->timeout / 8 : pause;
}

static int ask_often(struct boot_rank *b, int64_t now)
{
	if (b->dial.state < DIAL_JOINED || now < b->next_who)
		return 0;
	b->next_who = now + often(b);
	return rank_ask_who(b, now);
}

static int check_time(struct boot_rank *b)
{
	int64_t now = wait_now_ns();
	if (rank_is_done(b))
		return 0;
	if (now >= b->deadline)
		return time_over(b);
	if (b->hung_up && now >= b->hung_up)
		return rank_lost(b);
	if (b->dial.fd >= 0 && b->dial.state < DIAL_JOINED && now >= b->dial.ends)
		return b->dial.state == DIAL_CONNECTING
			   ? rank_connect_failed(b, 0)
			   : rank_try_later(b, RANK_BROKEN, "the listener does not answer");
	if (now >= b->next_warn) {
		b->next_warn = now + WARN_NS;
		const struct wait_text t = describe_wait(b);
		log_line(LOG_WARN, b->base.rank, "bootstrap: waiting for %s (%lld s)%s%s", t.whom,
			 (long long)((now - b->waits_since) / SECOND), t.absence[0] ? "." : "", t.absence);
	}
	return ask_often(b, now);
}

int rank_advance(struct boot_rank *b)
{
	int ret = rank_connect(b);
	ret = ret ? ret : rank_read_frames(b);
	ret = ret ? ret : rank_advance_feed(b);
	ret = ret ? ret : check_time(b);
	/* A broken connection is seen by reading, which may still find why. */
	if (!ret && b->dial.fd >= 0 && b->dial.state != DIAL_CONNECTING)
		frame_flush(&b->dial.writer, b->dial.fd);
	return ret;
}

static struct pollfd polled(const struct boot_dial *d)
{
	const int wants_out = d->state == DIAL_CONNECTING || d->writer.first != NULL;
	return (struct pollfd){ .fd = d->fd, .events = (short)(POLLIN | (wants_out ? POLLOUT : 0)) };
}

void rank_sleep(struct boot_rank *b)
{
	const struct boot_dial *feed = &b->feed.dial;
	struct pollfd p[2] = { polled(&b->dial), polled(feed) };
	/* Ranks may be many more than cores, and what comes over the connection ends the sleep. */
	const int ms = feed->state == DIAL_PAUSED ? POLL_MS : POLL_MS * (1 + b->base.size / POLLED_RANKS);
	wait_poll(p, 2, ms < MOST_POLL_MS ? ms : MOST_POLL_MS);
}

void rank_restart_clock(struct boot_rank *b)
{
	int64_t now = wait_now_ns();
	b->waits_since = now;
	b->deadline = now + b->timeout;
	b->next_warn = now + WARN_NS;
	b->next_who = boot_passes_on(b->base.size) ? now + often(b) : now;
	b->missing.ranks = b->missing.nranges = 0;
	b->missing_at = 0;
	b->questions++; /* answers to earlier ones are of no use */
}
