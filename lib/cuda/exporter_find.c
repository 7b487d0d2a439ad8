/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a call's buffer lies, and which allocations are published. */
#include "exporter_state.h"

#include <string.h>

#include "base/log.h"

enum { PUBLISHED_AT = 3 /* its third call */ };
static const size_t most_dead = (size_t)1 << 30; /* bytes */

static const struct export_ref nowhere = { 0, 0 };

static struct export_ref refuse(struct exporter *x, enum exporter_reason reason, const void *buffer,
				size_t bytes)
{
	static const char *const reasons[] = {
		[REASON_UNKNOWN] = "it is no memory of a GPU",
		[REASON_SHORT] = "its allocation ends before it does",
		[REASON_OTHER_GPU] = "it is memory of another GPU than the rank's",
		[REASON_KIND] = "it is memory of cudaMallocAsync or cudaMallocManaged, or of cuMemCreate "
				"without file descriptors",
		[REASON_ROOM] = "peers have as many allocations mapped as they can, or have yet to close "
				"more than 1 GiB that was freed",
	};
	if (exporter_says(x, reason))
		log_line(LOG_INFO, x->rank,
			 "calls on the %zu bytes at %p go through slots, as peers can't read them where they "
			 "lie: %s; later "
			 "ones for this reason are not logged",
			 bytes, buffer, reasons[reason]);
	return nowhere;
}

/* The next number whose index is free; those between are never named. 0: there is none, or peers hold too much that was freed. */
static uint64_t next_number(const struct exporter *x)
{
	for (uint64_t number = x->last_number + 1;
	     x->dead_bytes <= most_dead && number <= x->last_number + EXPORTS_ROOM; number++)
		if (x->own[number % EXPORTS_ROOM].state == EXPORT_FREE)
			return number;
	return 0;
}

/* ---- Publishing ---- */

/* By any thread, perhaps of another GPU, and in a capture. 0: *reason says why not. */
static int get_handle(struct exporter *x, const struct export_range *r, struct export_handle *handle,
		      struct export_run **run, enum exporter_reason *reason)
{
	CUcontext before;
	int ordinal = -1, is_capable = r->is_run, can = 1;
	x->driver->pointer_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, r->at);
	if (!r->is_run)
		x->driver->pointer_attribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
					     r->at);
	*reason = ordinal == x->ordinal ? REASON_KIND : REASON_OTHER_GPU;
	if (ordinal != x->ordinal || !is_capable || x->driver->push_context(x->context) != CUDA_SUCCESS)
		return 0;
	const int mode = engine_spare_captures();
	memset(handle, 0, sizeof *handle);
	handle->run_bytes = r->is_run ? r->bytes : 0;
	handle->at = r->at;
	if (r->is_run)
		can = (*run = exporter_hold_run(x, r)) != NULL;
	else
		can = cudaIpcGetMemHandle(&handle->allocation, (void *)(uintptr_t)r->at) == cudaSuccess;
	if (!can)
		cudaGetLastError(); /* ours, not the program's */
	engine_end_spare(mode);
	x->driver->pop_context(&before);
	return can;
}

/* Under the lock. */
static uint64_t add_export(struct exporter *x, struct export_seen *s, const struct export_range *r,
			   const struct export_handle *handle, struct export_run **run)
{
	_Static_assert(sizeof *handle == BOARD_HANDLE_WORDS * sizeof(uint64_t), "a handle's room on a board");
	const uint64_t number = next_number(x);
	if (!number || exporter_start(x))
		return 0;
	s->index = (int16_t)(number % EXPORTS_ROOM);
	x->own[s->index] = (struct export){ EXPORT_ASKED, number, *r, *run };
	*run = NULL;
	x->last_number = number;
	board_publish(x->board, number, handle);
	exporter_wake(x);
	return number;
}

/* Another thread may publish it at the same time. 0: *reason says why not. */
static uint64_t publish(struct exporter *x, const struct export_range *r, enum exporter_reason *reason)
{
	struct export_handle handle;
	struct export_run *run = NULL;
	uint64_t number = 0;
	const int has_handle = get_handle(x, r, &handle, &run, reason);
	pthread_mutex_lock(&x->lock);
	struct export_seen *s = exporter_place_of(x, r->id);
	if (s && !has_handle)
		s->is_refused = 1;
	else if (s && s->index != EXPORTER_NO_INDEX)
		number = x->own[s->index].number;
	else if (s && !s->is_refused)
		number = add_export(x, s, r, &handle, &run);
	pthread_mutex_unlock(&x->lock);
	exporter_drop_run(x, run);
	*reason = has_handle ? REASON_ROOM : *reason;
	return number;
}

/* Counts a call on a range. *publishes: it has no number, and is to get one. */
static uint64_t number_of(struct exporter *x, unsigned long long id, int captured, int *publishes)
{
	uint64_t number = 0;
	*publishes = 0;
	pthread_mutex_lock(&x->lock);
	struct export_seen *s = exporter_place_of(x, id);
	if (s && s->index != EXPORTER_NO_INDEX)
		number = x->own[s->index].number;
	else if (s && !s->is_refused)
		*publishes = ++s->calls >= PUBLISHED_AT || captured;
	pthread_mutex_unlock(&x->lock);
	return number;
}

struct export_ref exporter_find(struct exporter *x, const void *buffer, size_t bytes, int captured)
{
	const CUdeviceptr at = (CUdeviceptr)(uintptr_t)buffer;
	struct export_range range;
	int publishes;
	if (atomic_load_explicit(&x->stops, memory_order_relaxed))
		return nowhere;
	enum exporter_reason reason = exporter_range(x, at, bytes, &range);
	if (reason)
		return refuse(x, reason, buffer, bytes);
	uint64_t number = number_of(x, range.id, captured, &publishes);
	if (publishes && !(number = publish(x, &range, &reason)))
		return refuse(x, reason, buffer, bytes);
	return number ? (struct export_ref){ number, (uint64_t)(at - range.at) } : nowhere;
}
