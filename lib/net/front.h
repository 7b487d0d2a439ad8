/* The front of a slot (kernels/remote.h), a header or an inline message, as the proxy reads and writes it. */
#ifndef FRONT_H
#define FRONT_H

#include "kernels/remote.h"

enum front_form { FRONT_NOTHING, FRONT_HEADER, FRONT_INLINE };

/* Message `number`, from 1: its header, and its data in the slot (FRONT_HEADER) or now in data (FRONT_INLINE: REMOTE_FEW_BYTES at most); or
 * FRONT_NOTHING: it is not there whole yet. */
enum front_form front_read(const void *front, uint64_t number, struct remote_header *header,
			   unsigned char *data);

/* A message whose data are in the slot, and of few bytes in data too. */
void front_write(void *front, const struct remote_header *header, const unsigned char *data);

#endif
