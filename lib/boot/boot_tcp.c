/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "base/wait.h"
#include "boot_listener.h"
#include "boot_rank.h"
#include "corale.h"

static const int64_t FIRST_PAUSE = 10000000, STALE_NS = 5000000000, TELL_NS = 1000000000;

/* ---- The operations */

static struct boot_rank *of(struct boot *b)
{
	return (struct boot_rank *)b;
}

static int is_forked(const struct boot_rank *b)
{
	return b->pid != getpid();
}

static int refuse_forked(const struct boot_rank *b)
{
	return log_error(CORALE_ENOTSUP, b->base.rank,
			 "bootstrap: process %ld was forked from process %ld, which opened this bootstrap; "
			 "only that process can use it",
			 (long)getpid(), (long)b->pid);
}

int boot_start(struct boot *base, const void *in, size_t bytes, void *out)
{
	struct boot_rank *b = of(base);
	if (is_forked(b))
		return refuse_forked(b);
	if (b->error)
		return b->error;
	if (b->hung_up)
		return rank_lost(b);
	if (b->rests)
		return log_error(CORALE_EINVAL, base->rank,
				 "bootstrap: it rests, and can only have children");
	if (b->is_gathering)
		return log_error(
		    CORALE_EINVAL, base->rank,
		    "bootstrap: all-gather %llu has not ended; poll it before the next is started",
		    (unsigned long long)b->round);
	if (bytes > (size_t)FRAME_MAX_BYTES / (size_t)base->size)
		return log_error(
		    CORALE_EINVAL, base->rank,
		    "bootstrap: an all-gather of %zu bytes of %d ranks; expected at most %d in all", bytes,
		    base->size, FRAME_MAX_BYTES);
	struct frame *f = frame_new(BOOT_PART, b->round + 1, bytes);
	if (!f)
		return log_error(CORALE_ENOMEM, base->rank, "bootstrap: no memory for %zu bytes", bytes);
	if (bytes)
		memcpy(frame_payload(f), in, bytes);
	b->round++;
	b->is_gathering = 1;
	b->bytes = bytes;
	b->out = out;
	rank_restart_clock(b);
	if (b->dial.state >= DIAL_JOINED)
		return rank_queue(b, f);
	b->part = f;
	return 0;
}

int boot_poll(struct boot *base)
{
	struct boot_rank *b = of(base);
	if (is_forked(b))
		return refuse_forked(b);
	if (b->rests)
		return 1;
	int ret = b->error ? b->error : rank_advance(b);
	if (ret || rank_is_done(b))
		return ret ? ret : 1;
	rank_sleep(b);
	ret = rank_advance(b);
	return ret ? ret : rank_is_done(b);
}

/* No rank can have left a group that this one has not joined. Without a listener the one that a child's ranks meet at has ended: others may be there. Amid the handshake the listener may count this rank in already, and would take its end for a
 * death: it is asked again. */
int boot_absent(struct boot *base, int64_t since_ns, unsigned char *absent)
{
	struct boot_rank *b = of(base);
	const int has_met = b->dial.state >= DIAL_JOINED;
	int n = 0;
	memset(absent, 0, (size_t)base->size);
	if (is_forked(b) || b->error || b->dial.state == DIAL_COMPLETE || (!has_met && b->dial.fd >= 0))
		return 0;
	if (!has_met && b->tried_at < since_ns) {
		b->dial.next_try = 0;
		return 0;
	}
	const int first_alone = !has_met && b->nobody && b->id.flags == BOOT_ID_CHILD;
	if (has_met && b->missing_at < since_ns) {
		if (b->asked_at < since_ns)
			rank_ask_who(b, wait_now_ns());
		return 0;
	}
	for (int r = 0; r < base->size; r++)
		n += absent[r] =
		    r != base->rank && !(first_alone && r) && (!has_met || boot_missing_has(&b->missing, r));
	return n;
}

void boot_give_up(struct boot *base, int code, const char *text)
{
	struct boot_rank *b = of(base);
	if (is_forked(b) || b->error)
		return;
	b->error = code;
	rank_send_leave(b, code, text);
	rank_end_feed(b);
	dial_close(&b->dial);
}

static void leave(struct boot_rank *b)
{
	if (b->dial.fd >= 0 && b->dial.state >= DIAL_JOINED)
		frame_flush(&b->dial.writer, b->dial.fd);
	if (!b->error)
		rank_send_leave(b, 0, "closed");
	rank_end_feed(b);
	dial_close(&b->dial);
}

void boot_rest(struct boot *base)
{
	struct boot_rank *b = of(base);
	if (is_forked(b) || b->error || !rank_is_done(b) || b->rests)
		return;
	b->rests = 1;
	leave(b);
}

static void free_rank(struct boot_rank *b)
{
	frame_free(b->part);
	free(b->peers);
	free(b);
}

void boot_close(struct boot *base)
{
	struct boot_rank *b = of(base);
	if (!is_forked(b)) {
		leave(b);
	} else {
		dial_free_frames(&b->dial);
		dial_free_frames(&b->feed.dial);
	}
	free_rank(b);
}

/* ---- Opening */

static int copy_options(struct boot_rank *b, const struct boot_options *o)
{
	b->options = *o;
	b->options.address = NULL;
	if (!o->ifname)
		return 0;
	size_t length = strlen(o->ifname);
	if (length >= sizeof(b->ifname))
		return log_error(CORALE_EINVAL, b->base.rank,
				 "bootstrap: NCCL_SOCKET_IFNAME has %zu characters; expected less than %d",
				 length, RANK_IFNAME_BYTES);
	memcpy(b->ifname, o->ifname, length + 1);
	b->options.ifname = b->ifname;
	return 0;
}

/* Joins b's group without a listener of its own, to end it. */
static void tell(struct boot_rank *b, const char *why)
{
	const int64_t until = wait_now_ns() + TELL_NS;
	char text[BOOT_TEXT_BYTES];
	text_format(text, sizeof(text), "rank %d of %d failed: %s", b->base.rank, b->base.size, why);
	boot_peer_fill(&b->self);
	b->self.listener = b->id.address; /* where no rank of the group ever connects */
	while (b->dial.state < DIAL_JOINED && !b->error && !rank_advance(b) && wait_now_ns() < until)
		rank_sleep(b);
	boot_give_up(&b->base, CORALE_EPEER, text);
	rank_end_feed(b);
	dial_close(&b->dial);
}

/* failed: why this rank fails, which is all that it has to say; NULL: it does not. */
static int open_group(const struct boot_id *id, int rank, int size, const struct boot_options *o,
		      const char *failed, struct boot **out)
{
	struct boot_rank *b = calloc(1, sizeof(*b));
	if (!b)
		return log_error(CORALE_ENOMEM, rank, "bootstrap: no memory");
	b->base = (struct boot){ .rank = rank, .size = size, .lost = -1 };
	b->id = *id;
	b->pid = getpid();
	b->dial = (struct boot_dial){ .state = DIAL_PAUSED, .fd = -1, .pause = FIRST_PAUSE };
	b->feed.dial.fd = -1;
	const double s = o->timeout_s > 0 ? o->timeout_s : 1800;
	b->timeout = (int64_t)((s < 1e9 ? s : 1e9) * 1e9);
	b->stale_at = wait_now_ns() + (b->timeout / 2 < STALE_NS ? b->timeout / 2 : STALE_NS);
	rank_restart_clock(b);
	int ret = failed ? CORALE_EPEER : copy_options(b, o);
	if (!ret)
		ret = boot_listener_start(&b->options, &b->self);
	if (!ret && rank == 0 && id->flags)
		ret = boot_listener_expect(&b->options, id);
	if (ret && !(id->flags && rank == 0)) /* else they would meet here */
		tell(b, failed ? failed : log_last_error());
	*out = ret ? NULL : &b->base;
	if (ret)
		free_rank(b);
	return ret;
}

/* -1: there is no memory to find out. */
static int is_member_list(const struct boot *b, const int *ranks, int n)
{
	unsigned char *seen;
	int is_good = n >= 1 && n <= b->size;
	if (!is_good)
		return 0;
	seen = calloc((size_t)b->size, 1);
	if (!seen)
		return -1;
	for (int i = 0; i < n && is_good; i++) {
		is_good = ranks[i] >= 0 && ranks[i] < b->size && !seen[ranks[i]];
		if (is_good)
			seen[ranks[i]] = 1;
	}
	is_good = is_good && seen[b->rank];
	free(seen);
	return is_good;
}

int boot_child(struct boot *base, const int *ranks, int n, uint64_t tag, struct boot **out)
{
	struct boot_rank *b = of(base);
	struct boot_id id = { .flags = BOOT_ID_CHILD };
	if (is_forked(b))
		return refuse_forked(b);
	if (!b->peers)
		return log_error(CORALE_EINVAL, base->rank,
				 "bootstrap: a child before the parent has been connected");
	const int is_good = is_member_list(base, ranks, n);
	if (is_good < 0)
		return log_error(CORALE_ENOMEM, base->rank, "bootstrap: no memory for %d ranks", base->size);
	if (!is_good)
		return log_error(CORALE_EINVAL, base->rank,
				 "bootstrap: a child of %d ranks; expected different ranks of 0 to %d, this "
				 "one among them",
				 n, base->size - 1);
	int rank = 0;
	while (ranks[rank] != base->rank)
		rank++;
	id.address = b->peers[ranks[0]].listener;
	id.process = b->peers[ranks[0]].process;
	snprintf(id.host, sizeof(id.host), "%.*s", BOOT_ID_HOST_BYTES - 1, b->peers[ranks[0]].host);
	boot_child_key(b->id.key, ranks, n, tag, id.key);
	id.name = boot_name_of_key(id.key);
	return open_group(&id, rank, n, &b->options, NULL, out);
}

int boot_tcp_open(const unsigned char id[BOOT_ID_BYTES], int rank, int size, const struct boot_options *o,
		  struct boot **out)
{
	static const struct boot_options defaults;
	struct boot_id decoded;
	int ret = boot_id_check(id, rank, &decoded);
	if (ret)
		return ret;
	if (size < 1 || rank < 0 || rank >= size)
		return log_error(
		    CORALE_EINVAL, -1,
		    "bootstrap: rank %d of %d; expected 1 rank or more, and a rank from 0 to size - 1", rank,
		    size);
	if (size > BOOT_MAX_RANKS)
		return log_error(CORALE_ENOTSUP, rank, "bootstrap: %d ranks; at most %d are supported", size,
				 BOOT_MAX_RANKS);
	return open_group(&decoded, rank, size, o ? o : &defaults, NULL, out);
}

void boot_tcp_tell(const unsigned char id[BOOT_ID_BYTES], int rank, int size, const char *why)
{
	static const struct boot_options defaults;
	struct boot_id decoded;
	struct boot *none;
	if (size > 1 && boot_id_decode(id, &decoded) == BOOT_ID_GOOD)
		open_group(&decoded, rank, size, &defaults, why, &none);
}

int boot_allgather(struct boot *b, const void *in, size_t bytes, void *out)
{
	int ret = boot_start(b, in, bytes, out);
	while (ret == 0)
		ret = boot_poll(b); /* sleeps itself */
	return ret > 0 ? 0 : ret;
}
