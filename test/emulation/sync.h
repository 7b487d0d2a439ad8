/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stands in for kernels/sync.cuh. Words are read and written by relaxed atomic accesses of the processor, so that
 * ThreadSanitizer knows them; what they order is as gpu.h says. Other fibers go on at every access.
 */
#ifndef SYNC_CUH
#define SYNC_CUH

#include <cuda_runtime.h>

static inline void sync_assume_global(const void *p)
{
	(void)p;
}

static inline uint64_t sync_load_relaxed(const uint64_t *word)
{
	gpu_yield();
	uint64_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
	gpu_loaded(word);
	return value;
}

static inline uint64_t sync_load_acquire(const uint64_t *word)
{
	uint64_t value = sync_load_relaxed(word);
	gpu_depended(word);
	gpu_polls(word);
	return value;
}

/* The second is no older than the first. */
static inline void sync_acquire_pair(const uint64_t *from, uint64_t *first, uint64_t *second)
{
	*first = sync_load_acquire(from);
	*second = __atomic_load_n(from + 1, __ATOMIC_RELAXED);
	gpu_loaded(from + 1);
}

static inline uint32_t sync_load_host(const uint32_t *word)
{
	gpu_maybe(2);
	uint32_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
	gpu_loaded(word);
	return value;
}

static inline void sync_store_relaxed(uint64_t *word, uint64_t value)
{
	gpu_carried(word);
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
	gpu_maybe(4);
}

/* ---- Packets: one access that may fall apart ---------------------------------------------------------------- */

struct sync_access {
	uint4 *at;
	uint4 v;
	unsigned unit; /* bytes that stay together */
	bool stores;
};

/* One unit of it. */
static inline void sync_access_unit(sync_access *a, unsigned unit)
{
	if (a->unit == 8) {
		uint64_t *memory = (uint64_t *)a->at + unit, half;
		char *value = (char *)&a->v + unit * 8;
		memcpy(&half, value, 8);
		if (a->stores)
			__atomic_store_n(memory, half, __ATOMIC_RELAXED);
		else
			half = __atomic_load_n(memory, __ATOMIC_RELAXED);
		memcpy(value, &half, 8);
		return;
	}
	uint32_t *memory = (uint32_t *)a->at + unit, *value = (uint32_t *)&a->v + unit;
	if (a->stores)
		__atomic_store_n(memory, *value, __ATOMIC_RELAXED);
	else
		*value = __atomic_load_n(memory, __ATOMIC_RELAXED);
}

/* All of it at once, as a part of a line. */
static inline void sync_access_whole(void *operand)
{
	sync_access *a = (sync_access *)operand;
	if (a->stores)
		gpu_carried(a->at);
	for (unsigned unit = 0; unit < 4; unit++)
		sync_access_unit(a, unit);
	if (!a->stores)
		gpu_loaded(a->at);
}

/* Unit by unit in any order, with others in between. */
static inline void sync_access_torn(sync_access *a)
{
	unsigned units = a->unit == 8 ? 2 : 4, first = gpu_random(units),
		 step = 1 + 2 * gpu_random(units / 2);
	for (unsigned i = 0; i < units; i++) {
		gpu_maybe(8);
		if (a->stores)
			gpu_carried(a->at);
		sync_access_unit(a, (first + i * step) % units);
	}
	if (!a->stores)
		gpu_loaded(a->at);
	if (!a->stores && a->unit == 8)
		gpu_depended(a->at);
}

static inline void sync_access_packet(sync_access *a)
{
	a->unit = gpu_unit(a->at);
	gpu_maybe(4);
	if (a->unit != 128 || !gpu_together(a->at, sync_access_whole, a))
		sync_access_torn(a);
}

static inline uint4 sync_load_packet(const void *from)
{
	sync_access a = { (uint4 *)from, {}, 0, false };
	sync_access_packet(&a);
	return a.v;
}

static inline void sync_store_packet(void *to, uint4 v)
{
	sync_access a = { (uint4 *)to, v, 0, true };
	if (gpu_recording)
		gpu_stored(to, &v);
	sync_access_packet(&a);
}

/* ---- Meetings, order, time -------------------------------------------------------------------------------------------- */

static inline void sync_warps(uint32_t barrier, uint32_t threads)
{
	gpu_barrier(barrier, threads, 1);
}

static inline bool sync_warps_and(uint32_t barrier, uint32_t threads, bool mine)
{
	return gpu_barrier(barrier, threads, mine);
}

static inline void sync_fence(void)
{
	gpu_fence();
}

static inline void sync_store_release(uint64_t *word, uint64_t value)
{
	sync_fence();
	sync_store_relaxed(word, value);
}

/* The thread sanitizer knows no other order of loads and stores. */
static inline void sync_store_after_loads(uint64_t *word, uint64_t value)
{
	sync_store_release(word, value);
}

static inline uint64_t sync_now_ns(void)
{
	return gpu_now();
}

/* Orders, as time does on a GPU. */
static inline void sync_count(uint64_t *word)
{
	gpu_maybe(2);
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

static inline void sync_settle(void)
{
	sync_fence();
}

static inline void sync_nap(void)
{
	gpu_yield();
}

static inline void sync_next_kernel(void)
{
}

static inline void sync_previous_kernel(void)
{
	gpu_previous_kernel();
}

#endif
