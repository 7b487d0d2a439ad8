/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_path.h"

#include "window.h"

/* Messages of one try of the slower way: the first ones find its memory in no cache. And messages between tries, more where that way is much slower. */
enum {
	TRIES = 17 /* timed: three */,
	BETWEEN = 1024,
	TRIES_LONG = 24 /* each slot of a queue three times: before that it is in no cache */,
	BETWEEN_LONG = 1536,
	BETWEEN_MOST = 32768
};

/* A reader's word: number << 48 | way << 47 | class << 40 | ns. */
enum { NUMBER_SHIFT = 48, WAY_SHIFT = 47, CLASS_SHIFT = 40 };

static int class_of(size_t bytes)
{
	int class = 0;
	while (class < HOST_PATH_CLASSES - 1 && bytes >= host_path_bytes(class + 1))
		class ++;
	return class;
}

size_t host_path_bytes(int class)
{
	return (size_t)HOST_PATH_LEAST << class;
}

void host_path_follow(float *value, float sample)
{
	const float more = *value * 17 / 16, less = *value * 15 / 16;
	if (*value <= 0)
		*value = sample;
	else if (sample > *value)
		*value = sample < more ? sample : more;
	else if (sample > *value / 2)
		*value = sample > less ? sample : less;
	else
		*value = (*value + sample) / 2;
}

/*
 * Of the way that is used: the median, so a thread that has lost its core now and then changes little. What is far too high, because memory was touched for
 * the first time or the machine has become faster, is halved. Of the way that is tried: the best sample, as few messages show what it takes when all its
 * memory is in caches.
 */
static void learn(float *value, float sample, int is_try)
{
	if (!is_try)
		host_path_follow(value, sample);
	else if (*value <= 0 || sample < *value)
		*value = sample;
}

static const float reference_factor = 1.2f; /* as measured beside the whole call, 128 KB to 64 MB */

/* What a message adds to a call, by a way; 0: not known yet. A reference costs more than its copy: the sender's call waits for the reader. */
static float ns_of(const struct host_path *path, enum host_way way, struct host_flow flow)
{
	const float read = path->read_ns[way], write = path->write_ns * (float)flow.writes;
	if (read <= 0 || (way == HOST_BY_SLOT && write <= 0))
		return 0;
	if (way == HOST_BY_REFERENCE)
		return read * reference_factor;
	return !flow.one_way ? read + write : read > write ? read : write;
}

double host_path_us(const struct host_path *path, enum host_way way)
{
	return ns_of(path, way, (struct host_flow){ 0, 1 }) / 1e3;
}

static void compare(struct host_path *path, struct host_flow flow)
{
	const float now = ns_of(path, path->way, flow), other = ns_of(path, !path->way, flow);
	if (now > 0 && other > 0 && other < .9f * now)
		path->way = !path->way;
}

/* Soon at first; then so rarely that tries take about 1 % of the time. */
static void plan_next_try(struct host_path *path, size_t bytes, struct host_flow flow)
{
	const int is_long = bytes >= HOST_PATH_LONG;
	const float best = ns_of(path, path->way, flow), other = ns_of(path, !path->way, flow),
		    between = is_long ? BETWEEN_LONG : BETWEEN,
		    n = best > 0 && other > best ? between * (other / best) : between,
		    most = n < BETWEEN_MOST ? n : BETWEEN_MOST, twice = 2 * (float)path->between;
	path->between = (uint16_t)(twice < most ? twice : most);
	path->until_try = path->between;
	path->tries = is_long ? TRIES_LONG : TRIES;
}

enum host_way host_path_choose(struct host_path *paths, size_t bytes, uint64_t number, struct host_flow flow)
{
	struct host_path *path = &paths[class_of(bytes)];
	const int is_timed = host_path_is_timed(bytes, number);
	if (!path->between) {
		path->way = bytes >= HOST_PATH_LONG ? HOST_BY_REFERENCE : HOST_BY_SLOT;
		path->between = path->until_try = bytes >= HOST_PATH_LONG ? TRIES_LONG : TRIES;
	}
	if (is_timed && !path->tries)
		compare(path, flow);
	if (path->until_try)
		path->until_try--;
	else if (is_timed && !path->tries)
		plan_next_try(path, bytes, flow);
	const enum host_way way = path->tries ? !path->way : path->way;
	if (path->tries)
		path->tries--;
	path->sent[way]++;
	return way;
}

void host_path_wrote(struct host_path *paths, size_t bytes, int64_t ns)
{
	struct host_path *path = &paths[class_of(bytes)];
	learn(&path->write_ns, (float)ns, path->way != HOST_BY_SLOT);
}

void host_path_publish(_Atomic uint64_t *consumed, size_t bytes, enum host_way way, uint64_t number,
		       int64_t ns)
{
	const uint64_t most = (UINT64_C(1) << CLASS_SHIFT) - 1, took = ns < 1 ? 1 : (uint64_t)ns;
	atomic_store_explicit(window_took(consumed),
			      number << NUMBER_SHIFT | (uint64_t)way << WAY_SHIFT |
				  (uint64_t)class_of(bytes) << CLASS_SHIFT | (took < most ? took : most),
			      memory_order_relaxed);
}

static float ns_in(uint64_t word)
{
	return (float)(word & ((UINT64_C(1) << CLASS_SHIFT) - 1));
}

static void learn_read(struct host_path *path, enum host_way way, float ns)
{
	learn(&path->read_ns[way], ns, path->way != way);
}

void host_path_learn(struct host_path *paths, _Atomic uint64_t *const *consumed, int n, uint64_t *seen)
{
	const uint64_t first = atomic_load_explicit(window_took(consumed[0]), memory_order_relaxed);
	float slowest = ns_in(first);
	if (first == *seen)
		return;
	*seen = first;
	for (int i = 1; i < n; i++) {
		const uint64_t word = atomic_load_explicit(window_took(consumed[i]), memory_order_relaxed);
		if (word >> CLASS_SHIFT == first >> CLASS_SHIFT && ns_in(word) > slowest)
			slowest = ns_in(word);
	}
	const int class = first >> CLASS_SHIFT & 0x7f;
	if (class < HOST_PATH_CLASSES)
		learn_read(&paths[class], (enum host_way)(first >> WAY_SHIFT & 1), slowest);
}
