/* Stands in for kernels/tile.cuh: what is loaded comes when it is stored, a store reads its tile and arrives as late as it may. */
#ifndef TILE_CUH
#define TILE_CUH

#include <string.h>

#include "gpu.h"

enum { TILE_BYTES = 256, TILE_IS_HERE = 1, TILE_STORES = 4 /* on their way at a time */ };

template <int N> static constexpr int TILES_SHARED = 1;

struct tile_loaded {
	const unsigned char *from;
	unsigned char held[TILE_BYTES];
};

struct tile_stored {
	unsigned char *to;
	uint32_t bytes; /* 0: none */
	const unsigned char *tile; /* NULL: it is read */
	unsigned char held[TILE_BYTES];
};

template <int N> struct tiles {
	uint32_t loads, stores;
	tile_loaded loaded[N];
	tile_stored stored[TILE_STORES]; /* by turn */
};

/* Every other block has tiles. */
static inline uint32_t tiles_room(void)
{
	return gpu_block() % 2 ? 0 : 1 << 20;
}

static inline void tiles_see(void)
{
}

template <int N> static inline tiles<N> tiles_open(uint32_t number)
{
	return {};
}

template <int N> static inline void tiles_load(tiles<N> *t, const unsigned char *from, uint32_t bytes)
{
	tile_loaded *tile = &t->loaded[t->loads++ % N];
	tile->from = from;
	memset(tile->held, 0x5a, sizeof(tile->held));
}

static inline void tile_read(tile_stored *s)
{
	if (s->tile)
		memcpy(s->held, s->tile, s->bytes);
	s->tile = nullptr;
}

static inline void tile_arrive(tile_stored *s)
{
	tile_read(s);
	for (uint32_t at = 0; at < s->bytes; at += 16) {
		if (gpu_recording)
			gpu_stored(s->to + at, s->held + at);
		memcpy(s->to + at, s->held + at, 16);
	}
	s->bytes = 0;
}

template <int N> static inline void tiles_store(tiles<N> *t, unsigned char *to, uint32_t bytes)
{
	tile_loaded *tile = &t->loaded[t->stores % N];
	tile_stored *s = &t->stored[t->stores++ % TILE_STORES];
	gpu_maybe(4);
	memcpy(tile->held, tile->from, bytes);
	tile_arrive(s); /* of the turn before */
	s->to = to;
	s->bytes = bytes;
	s->tile = tile->held;
}

template <int LATER, int N> static inline void tiles_read(tiles<N> *t)
{
	static_assert(LATER < TILE_STORES, "the others have arrived");
	for (uint32_t i = LATER; i < TILE_STORES && i < t->stores; i++)
		tile_read(&t->stored[(t->stores - 1 - i) % TILE_STORES]);
	gpu_maybe(4);
}

template <int N> static inline void tiles_arrive(tiles<N> *t)
{
	uint32_t first = gpu_random(TILE_STORES);
	for (uint32_t i = 0; i < TILE_STORES; i++)
		tile_arrive(&t->stored[(first + i) % TILE_STORES]);
}

template <int N> static inline void tiles_close(tiles<N> *t)
{
	tiles_arrive(t);
}

static inline void tile_prefetch(const unsigned char *from, uint32_t bytes)
{
}

#endif
