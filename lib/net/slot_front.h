/* SPDX-License-Identifier: BSD-3-Clause */
/* The front of a slot (kernels/remote.h), a header or an inline message, as the proxy reads and writes it. */
#ifndef SLOT_FRONT_H
#define SLOT_FRONT_H

#include "kernels/remote.h"

enum front_form { FRONT_NOTHING, FRONT_HEADER, FRONT_INLINE };

/* Reads message `number`, from 1. FRONT_HEADER: its data lie in the slot. FRONT_INLINE: its data, REMOTE_FEW_BYTES at most, were copied to `data`.
 * FRONT_NOTHING: not all of it has arrived. */
enum front_form slot_front_read(const void *front, uint64_t number, struct remote_header *header,
				unsigned char *data);

/* Writes a message whose data lie in the slot; those of an inline message are in `data`, too. */
void slot_front_write(void *front, const struct remote_header *header, const unsigned char *data);

#endif
