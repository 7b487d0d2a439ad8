/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of frames that lie in memory which a copier alone reaches. */
#include "copied.h"

#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "memory.h"

int fake_copied_has(const struct fake_segments *segments)
{
	int found = 0;
	for (int i = 0; i < segments->count; i++)
		found |= fake_memory_is_copied(segments->at[i].lkey);
	return found;
}

/* Bytes of a frame that its adapter need not carry. */
static uint64_t bytes_to_copy(uint16_t lid, const struct fake_frame *frame,
			      const struct fake_segments *segments)
{
	const uint64_t late = fake_faults.late ? LATE_BYTES : 0;
	return frame->kind == FAKE_WRITE && segments->count == 1 && frame->bytes > late &&
		       fake_copier_knows(lid, frame->key)
		   ? frame->bytes - late
		   : 0;
}

/* The payload from `offset` on. */
static unsigned char *fetch(const struct fake_segments *segments, size_t offset, size_t bytes)
{
	unsigned char *data = malloc(bytes + 1);
	size_t at = 0;
	for (int i = 0; data && i < segments->count; i++) {
		const struct ibv_sge *s = &segments->at[i];
		const size_t skipped = offset < s->length ? offset : s->length, part = s->length - skipped;
		if (fake_memory_is_copied(s->lkey))
			fake_copier_fetch(s->lkey, s->addr + skipped, data + at, part);
		else if (part)
			memcpy(data + at, fake_memory_at(s->lkey, s->addr + skipped, part, 0), part);
		offset -= skipped;
		at += part;
	}
	return data;
}

unsigned char *fake_copied_begin(uint16_t lid, struct fake_frame *frame, const struct fake_segments *segments,
				 uint64_t *number)
{
	const uint64_t bytes = bytes_to_copy(lid, frame, segments);
	const struct copier_place to = { lid, frame->key, frame->address };
	if (bytes)
		*number = fake_copier_begin(segments->at[0].lkey, segments->at[0].addr, to, bytes);
	frame->copied = bytes;
	frame->address += bytes;
	frame->bytes -= bytes;
	return fetch(segments, bytes, frame->bytes);
}
