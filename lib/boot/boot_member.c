/* A member: the listener has proved that it knows the key. */
#include "boot_rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "boot_wire.h"
#include "corale.h"

int rank_damaged(struct boot_rank *b)
{
	return rank_fail(b, CORALE_EINTERNAL,
			 "process %lld on %s sent a frame (kind %u, %u bytes) that is damaged",
			 (long long)b->maker.pid, b->maker.host, b->reader.kind, b->reader.bytes);
}

static int take_table(struct boot_rank *b)
{
	if (b->peers || b->reader.bytes != (size_t)b->base.size * BOOT_PEER_BYTES)
		return rank_damaged(b);
	b->peers = calloc((size_t)b->base.size, sizeof(*b->peers));
	if (!b->peers)
		return rank_fail(b, CORALE_ENOMEM, "no memory for %d ranks' addresses", b->base.size);
	for (int i = 0; i < b->base.size; i++)
		if (!boot_peer_decode(b->reader.data + (size_t)i * BOOT_PEER_BYTES, &b->peers[i]))
			return rank_damaged(b);
	b->state = RANK_COMPLETE;
	b->missing.ranks = 0;
	return 0;
}

static int take_all(struct boot_rank *b)
{
	size_t bytes = (size_t)b->base.size * b->bytes;
	if (!b->is_gathering || b->state != RANK_COMPLETE || b->reader.number != b->round ||
	    b->reader.bytes != bytes)
		return rank_damaged(b);
	if (bytes)
		memcpy(b->out, b->reader.data, bytes);
	b->is_gathering = 0;
	return 0;
}

static int take_missing(struct boot_rank *b)
{
	struct boot_missing missing;
	if (!b->reader.bytes || !boot_missing_decode(b->reader.data, b->reader.bytes, b->base.size, &missing))
		return rank_damaged(b);
	if (b->reader.number == b->questions) {
		b->missing = missing;
		b->missing_at = b->asked_at;
	}
	return 0;
}

static int take_fail(struct boot_rank *b)
{
	struct boot_reason reason;
	if (!b->reader.bytes || !boot_reason_decode(b->reader.data, b->reader.bytes, &reason))
		return rank_damaged(b);
	return rank_fail(b, code_of_peer(reason.code), "%s", reason.text);
}

static int take_frame(struct boot_rank *b)
{
	if (b->state < RANK_JOINED)
		return rank_take_handshake(b);
	switch (b->reader.kind) {
	case BOOT_TABLE:
		return take_table(b);
	case BOOT_ALL:
		return take_all(b);
	case BOOT_MISSING:
		return take_missing(b);
	case BOOT_FAIL:
		return take_fail(b);
	default:
		return rank_damaged(b);
	}
}

/* The listener's process has closed the connection. It may be one of the ranks'. */
static int lost(struct boot_rank *b)
{
	if (b->state < RANK_JOINED)
		return rank_try_later(b, RANK_BROKEN,
				      "the listener closed the connection before it had answered");
	for (int i = 0; b->peers && i < b->base.size; i++)
		if (b->peers[i].process == b->maker.process)
			return rank_fail(b, CORALE_EPEER,
					 "rank %d (process %lld on %s) has died, or its connection broke", i,
					 (long long)b->maker.pid, b->maker.host);
	return rank_fail(b, CORALE_EPEER,
			 "process %lld on %s, which made the id, has died, or its connection broke",
			 (long long)b->maker.pid, b->maker.host);
}

static int bad_stream(struct boot_rank *b, enum frame_status status)
{
	if (status == FRAME_CLOSED)
		return lost(b);
	if (status == FRAME_NO_MEMORY)
		return rank_fail(b, CORALE_ENOMEM, "no memory for a message of %u bytes", b->reader.bytes);
	return b->state < RANK_JOINED ? rank_try_later(b, RANK_NOBODY, "another program listens")
				      : rank_damaged(b);
}

int rank_read_frames(struct boot_rank *b)
{
	int was_gathering = b->is_gathering;
	while (b->fd >= 0 && b->state != RANK_CONNECTING && b->is_gathering == was_gathering) {
		enum frame_status status = frame_read(&b->reader, b->fd);
		if (status == FRAME_MORE)
			return 0;
		int ret = status == FRAME_WHOLE ? take_frame(b) : bad_stream(b, status);
		if (ret)
			return ret;
		frame_next(&b->reader);
	}
	return 0;
}
