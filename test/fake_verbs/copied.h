/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of frames in memory that a copier alone reaches. All under the lock. */
#ifndef FAKE_VERBS_COPIED_H
#define FAKE_VERBS_COPIED_H

#include "copier.h"
#include "wire.h"

/* A segment is such memory. */
int fake_copied_has(const struct fake_segments *segments);

/*
 * Begins to copy what a WRITE writes into another GPU's memory, so far as it is in time there; `*number` then tells when it is. The frame is left with the rest:
 * what is late, or all of it. Returns that (malloc'ed).
 */
unsigned char *fake_copied_begin(uint16_t lid, struct fake_frame *frame, const struct fake_segments *segments,
				 uint64_t *number);

#endif
