/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank has waited for has come, or can't come any more. */
#include "boot_rank.h"

#include <stdlib.h>
#include <string.h>

#include "boot_listener.h"
#include "boot_wire.h"
#include "corale.h"

int rank_damaged(struct boot_rank *b)
{
	return rank_fail(b, CORALE_EINTERNAL,
			 "process %lld on %s sent a frame (kind %u, %u bytes) that is damaged",
			 (long long)b->maker.pid, b->maker.host, b->dial.reader.kind, b->dial.reader.bytes);
}

/* It may be one of the ranks'. */
int rank_lost(struct boot_rank *b)
{
	b->base.lost = b->id.flags & BOOT_ID_CHILD ? 0 : -1;
	for (int i = 0; b->peers && i < b->base.size; i++)
		if (b->peers[i].process == b->maker.process)
			return rank_fail(b, CORALE_EPEER,
					 "rank %d%s (process %lld on %s) has died, or its connection broke",
					 i, boot_id_whose(&b->id), (long long)b->maker.pid, b->maker.host);
	return rank_fail(b, CORALE_EPEER, "process %lld on %s, which %s, has died, or its connection broke",
			 (long long)b->maker.pid, b->maker.host,
			 *boot_id_whose(&b->id) ? "has rank 0 of the new communicator" : "made the id");
}

static int take_table(struct boot_rank *b, const struct frame_reader *r)
{
	if (b->peers || r->bytes != (size_t)b->base.size * BOOT_PEER_BYTES)
		return 1;
	struct boot_peer *peers = calloc((size_t)b->base.size, sizeof(*peers));
	if (!peers)
		return rank_fail(b, CORALE_ENOMEM, "no memory for %d ranks' addresses", b->base.size);
	for (int i = 0; i < b->base.size; i++)
		if (!boot_peer_decode(r->data + (size_t)i * BOOT_PEER_BYTES, &peers[i])) {
			free(peers);
			return 1;
		}
	b->peers = peers;
	b->dial.state = DIAL_COMPLETE;
	b->missing.ranks = 0;
	return 0;
}

static int take_all(struct boot_rank *b, const struct frame_reader *r)
{
	size_t bytes = (size_t)b->base.size * b->bytes;
	if (!b->is_gathering || b->dial.state != DIAL_COMPLETE || r->number != b->round || r->bytes != bytes)
		return 1;
	if (bytes)
		memcpy(b->out, r->data, bytes);
	b->is_gathering = 0;
	return 0;
}

/* To the ranks that this one feeds. */
static void pass_on(struct boot_rank *b, const struct frame_reader *r)
{
	struct frame *f;
	if (!b->source)
		return;
	f = frame_new(r->kind, r->number, r->bytes);
	if (f && r->bytes)
		memcpy(frame_payload(f), r->data, r->bytes);
	boot_listener_send(b->source, f);
}

int rank_take_delivery(struct boot_rank *b, const struct frame_reader *r)
{
	const int ret = r->kind == BOOT_TABLE ? take_table(b, r) : r->kind == BOOT_ALL ? take_all(b, r) : 1;
	if (!ret) {
		b->feed.late = 0;
		pass_on(b, r);
	}
	return ret;
}
