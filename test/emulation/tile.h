/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for kernels/tile.cuh: what is loaded comes when it is awaited, what is stored arrives as late as it may. */
#ifndef TILE_CUH
#define TILE_CUH

#include <string.h>

#include "gpu.h"

enum { TILE_BYTES = 256, TILE_SHARED = 0, TILE_IS_HERE = 1, TILE_STORES = 4 /* on their way at a time */ };

struct tile_bytes {
	unsigned char *to;
	uint32_t bytes; /* 0: none */
	unsigned char held[TILE_BYTES];
};

struct tile {
	const unsigned char *from; /* NULL: it is here */
	uint32_t bytes;
	unsigned char held[TILE_BYTES];
	tile_bytes stored[TILE_STORES];
};

static inline tile tile_open(void)
{
	return {};
}

static inline void tile_load(tile *t, const unsigned char *from, uint32_t bytes)
{
	t->from = from;
	t->bytes = bytes;
	memset(t->held, 0x5a, sizeof(t->held));
}

static inline void tile_await(tile *t)
{
	gpu_maybe(4);
	memcpy(t->held, t->from, t->bytes);
	t->from = nullptr;
}

static inline void tile_arrive(tile_bytes *s)
{
	if (s->bytes)
		memcpy(s->to, s->held, s->bytes);
	s->bytes = 0;
}

static inline void tile_store(tile *t, unsigned char *to, uint32_t bytes)
{
	tile_bytes *s = &t->stored[gpu_random(TILE_STORES)];
	tile_arrive(s);
	s->to = to;
	s->bytes = bytes;
	memcpy(s->held, t->held, bytes);
	gpu_maybe(4);
}

static inline void tile_close(tile *t)
{
	for (tile_bytes &s : t->stored)
		tile_arrive(&s);
}

static inline void tile_prefetch(const unsigned char *from, uint32_t bytes)
{
}

#endif
