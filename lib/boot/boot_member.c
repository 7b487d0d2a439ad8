/* SPDX-License-Identifier: BSD-3-Clause */
/* A member: the listener has proved that it knows the key. */
#include "boot_rank.h"

#include "base/status.h"
#include "base/wait.h"
#include "boot_wire.h"
#include "corale.h"

static const int64_t HANG_UP_NS = 2000000000;

static int take_delivery(struct boot_rank *b)
{
	const int ret = rank_take_delivery(b, &b->dial.reader);
	return ret > 0 ? rank_damaged(b) : ret;
}

static int take_missing(struct boot_rank *b)
{
	struct boot_missing missing;
	if (!b->dial.reader.bytes ||
	    !boot_missing_decode(b->dial.reader.data, b->dial.reader.bytes, b->base.size, &missing))
		return rank_damaged(b);
	if (b->dial.reader.number != b->questions)
		return 0;
	b->missing = missing;
	b->missing_at = b->asked_at;
	/* Nobody is missing, at the second time: the feed should have brought it meanwhile. */
	return b->feed.dial.state != DIAL_NONE && !missing.ranks && ++b->feed.late > 1 ? rank_ask_again(b)
										       : 0;
}

static int take_fail(struct boot_rank *b)
{
	struct boot_reason reason;
	if (!boot_reason_decode(b->dial.reader.data, b->dial.reader.bytes, &reason))
		return rank_damaged(b);
	b->base.lost = reason.code == CORALE_EPEER ? reason.what : -1;
	return rank_fail(b, code_of_peer(reason.code), "%s", reason.text);
}

static int take_frame(struct boot_rank *b)
{
	if (b->dial.state < DIAL_JOINED)
		return rank_take_handshake(b);
	switch (b->dial.reader.kind) {
	case BOOT_TABLE:
	case BOOT_ALL:
		return take_delivery(b);
	case BOOT_FEED:
		return rank_take_feed(b);
	case BOOT_MISSING:
		return take_missing(b);
	case BOOT_FAIL:
		return take_fail(b);
	default:
		return rank_damaged(b);
	}
}

/*
 * The listener's process has closed the connection. It may have ended well, as a rank's that has all it waited for; then what was its last to send is
 * on its way from rank to rank.
 */
static int closed(struct boot_rank *b)
{
	if (b->dial.state < DIAL_JOINED)
		return rank_try_later(b, RANK_BROKEN,
				      "the listener closed the connection before it had answered");
	if (b->feed.dial.state != DIAL_JOINED)
		return rank_lost(b);
	b->hung_up = wait_now_ns() + HANG_UP_NS;
	dial_close(&b->dial);
	return 0;
}

static int bad_stream(struct boot_rank *b, enum frame_status status)
{
	if (status == FRAME_CLOSED)
		return closed(b);
	if (status == FRAME_NO_MEMORY)
		return rank_fail(b, CORALE_ENOMEM, "no memory for a message of %u bytes",
				 b->dial.reader.bytes);
	return b->dial.state < DIAL_JOINED ? rank_try_later(b, RANK_NOBODY, "another program listens")
					   : rank_damaged(b);
}

int rank_read_frames(struct boot_rank *b)
{
	int was_gathering = b->is_gathering;
	while (b->dial.fd >= 0 && b->dial.state != DIAL_CONNECTING && b->is_gathering == was_gathering) {
		enum frame_status status = frame_read(&b->dial.reader, b->dial.fd);
		if (status == FRAME_MORE)
			return 0;
		int ret = status == FRAME_WHOLE ? take_frame(b) : bad_stream(b, status);
		if (ret)
			return ret;
		frame_next(&b->dial.reader);
	}
	return 0;
}
