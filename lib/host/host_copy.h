/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies into the receive buffer of a call that no cache can keep until the caller reads it. A store that goes past the caches saves loading the lines that it
 * overwrites: up to a third of what a copy moves. Whether that is faster depends on the processor and on what is in its caches, so both kinds are measured. */
#ifndef HOST_COPY_H
#define HOST_COPY_H

#include <stddef.h>
#include <stdint.h>

enum {
	HOST_COPY_LEAST = 64 << 10, /* bytes of one copy: a look at the clock costs nothing beside it */
	HOST_COPY_CALL = 8 << 20 /* bytes that a call receives */
};

enum host_store { HOST_STORE_CACHED, HOST_STORE_PAST, HOST_STORES };

/* What copies of one thread took; all zero at first. */
struct host_copier {
	float ns[HOST_STORES]; /* a KB, the median; 0: not measured yet */
	uint16_t copies;
	uint8_t other; /* the kind that copies begin with is not the faster one here */
};

/* 1 if a call that receives so many bytes leaves caches without them: they are several times the second-level cache. */
int host_copy_exceeds_cache(size_t received);
/* Copies at least HOST_COPY_LEAST bytes; the two places do not overlap. */
void host_copy(struct host_copier *copier, void *to, const void *from, size_t bytes);

#endif
