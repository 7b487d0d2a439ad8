/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_engine.h"

#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/wait.h"
#include "host_path.h"

/* The second-level cache is a core's own; how much of the third-level cache a virtual machine has is not known to it. */
int host_copy_exceeds_cache(size_t received)
{
	enum { TIMES = 4 };
	long cache = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
	cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
	return received >= HOST_COPY_CALL && (cache <= 0 || received / TIMES >= (size_t)cache);
}

#ifdef __SSE2__
static void copy_past_caches(unsigned char *to, const unsigned char *from, size_t bytes)
{
	enum { LINE = 64, AHEAD = 16 * LINE };
	const size_t head = -(uintptr_t)to % LINE;
	memcpy(to, from, head);
	size_t at = head;
	for (; at + LINE <= bytes; at += LINE) {
		const __m128i *source = (const __m128i *)(const void *)(from + at);
		__m128i *target = (__m128i *)(void *)(to + at);
		_mm_prefetch((const char *)(uintptr_t)((uintptr_t)(from + at) + AHEAD), _MM_HINT_T0);
		const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1),
			      c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
		_mm_stream_si128(target, a);
		_mm_stream_si128(target + 1, b);
		_mm_stream_si128(target + 2, c);
		_mm_stream_si128(target + 3, d);
	}
	memcpy(to + at, from + at, bytes - at);
	_mm_sfence(); /* before any signal that the slot is free */
}
#else
static void copy_past_caches(unsigned char *to, const unsigned char *from, size_t bytes)
{
	memcpy(to, from, bytes);
}
#endif

/* Of each round the last copies are by the other kind of store; then the faster one is taken. */
void host_copy(struct host_copier *copier, void *to, const void *from, size_t bytes)
{
	enum { ROUND = 64, TRIES = 4 };
	const unsigned place = copier->copies++ % ROUND;
	const enum host_store best = copier->other ? HOST_STORE_CACHED : HOST_STORE_PAST,
			      store =
				  place >= ROUND - TRIES ? HOST_STORE_CACHED + HOST_STORE_PAST - best : best;
	const int64_t start = wait_now_ns();
	if (store == HOST_STORE_PAST)
		copy_past_caches(to, from, bytes);
	else
		memcpy(to, from, bytes);
	host_path_follow(&copier->ns[store], (float)(wait_now_ns() - start) / (float)(bytes >> 10));
	if (place == ROUND - 1 && copier->ns[!best] < .95f * copier->ns[best])
		copier->other = !copier->other;
}
