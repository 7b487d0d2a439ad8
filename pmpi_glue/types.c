/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts of datatypes: found from what made the type (types_decode.c), kept as an attribute, walked as rows. */
#include "types.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- What MPI is given for packed bytes ---------------------------------------------------------------- */

/* Of more bytes than a count holds: rows of 1 GB, and the rest. */
static int make_long_type(size_t bytes, MPI_Datatype *out)
{
	enum { ROW = 1 << 30 };
	MPI_Datatype parts[2] = { MPI_DATATYPE_NULL, MPI_BYTE };
	const int rows = (int)(bytes / ROW), lengths[2] = { rows, (int)(bytes % ROW) };
	const MPI_Aint at[2] = { 0, (MPI_Aint)rows * ROW };
	int ret = PMPI_Type_contiguous(ROW, MPI_BYTE, &parts[0]);
	if (ret)
		return ret;
	ret = PMPI_Type_create_struct(2, lengths, at, parts, out);
	PMPI_Type_free(&parts[0]);
	return ret ? ret : PMPI_Type_commit(out);
}

struct pmpi_bytes pmpi_long_bytes(size_t bytes)
{
	struct pmpi_bytes b = { 1, MPI_BYTE };
	if (make_long_type(bytes, &b.type))
		b.count = (pmpi_count)bytes; /* MPI refuses it */
	return b;
}

/* ---- Making and keeping -------------------------------------------------------------------------------- */

static void free_layout(struct pmpi_layout *layout)
{
	free(layout->runs);
	free(layout);
}

static int is_contiguous(const struct pmpi_layout *layout)
{
	return !layout->size || (layout->n == 1 && layout->runs[0].at == 0 && layout->runs[0].count == 1 &&
				 layout->extent == (ptrdiff_t)layout->size);
}

static struct pmpi_layout *make_layout(MPI_Datatype type, int *is_named)
{
	struct pmpi_layout *layout = calloc(1, sizeof(*layout));
	MPI_Count size;
	MPI_Aint from, extent;
	if (!layout)
		return NULL;
	PMPI_Type_size_x(type, &size);
	PMPI_Type_get_extent(type, &from, &extent);
	layout->size = (size_t)size;
	layout->extent = extent;
	layout->users = 1;
	if (pmpi_decode(type, &layout->runs, &layout->n, is_named)) {
		free_layout(layout);
		return NULL;
	}
	layout->is_contiguous = is_contiguous(layout);
	return layout;
}

void pmpi_layout_put(struct pmpi_layout *layout)
{
	if (!layout->is_named && atomic_fetch_sub(&layout->users, 1) == 1)
		free_layout(layout);
}

struct pmpi_layout *pmpi_layout_share(struct pmpi_layout *layout)
{
	if (!layout->is_named)
		atomic_fetch_add_explicit(&layout->users, 1, memory_order_relaxed);
	return layout;
}

/* Predefined types are few and stay: a table that is read without a lock. They may not have attributes in every MPI. */
enum { NAMED = 256 };
static struct {
	pthread_mutex_t lock; /* of writers, and of keyval */
	struct named {
		MPI_Datatype type; /* valid once layout is there */
		struct pmpi_layout *_Atomic layout;
	} named[NAMED];
	int n;
	int keyval;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER, .keyval = MPI_KEYVAL_INVALID };

/* The type's row of the table, or the empty one where it belongs. */
static struct named *find_named(MPI_Datatype type)
{
	size_t row = (size_t)((uint64_t)(uintptr_t)type * 0x9e3779b97f4a7c15u >> 56);
	for (;; row = (row + 1) % NAMED) {
		struct pmpi_layout *layout =
		    atomic_load_explicit(&kept.named[row].layout, memory_order_acquire);
		if (!layout || kept.named[row].type == type)
			return &kept.named[row];
	}
}

int pmpi_type_is_named(MPI_Datatype type)
{
	return find_named(type)->layout != NULL;
}

static int type_is_gone(MPI_Datatype type, int keyval, void *layout, void *unused)
{
	(void)type, (void)keyval, (void)unused;
	pmpi_layout_put(layout);
	return MPI_SUCCESS;
}

/* Under the lock. The type's attribute keeps a reference. Without room the caller has the only one. */
static void keep(MPI_Datatype type, struct pmpi_layout *layout, int is_named)
{
	if (is_named) {
		struct named *row = find_named(type);
		if (kept.n == NAMED / 2)
			return;
		kept.n++;
		layout->is_named = 1;
		row->type = type;
		atomic_store_explicit(&row->layout, layout, memory_order_release);
		return;
	}
	if (kept.keyval == MPI_KEYVAL_INVALID &&
	    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, type_is_gone, &kept.keyval, NULL))
		return;
	if (!PMPI_Type_set_attr(type, kept.keyval, layout))
		pmpi_layout_share(layout);
}

/* Under the lock, so that no other thread replaces an attribute that is in use. */
static struct pmpi_layout *find_locked(MPI_Datatype type)
{
	struct pmpi_layout *layout = NULL;
	int found = 0, is_named = 0;
	if (kept.keyval != MPI_KEYVAL_INVALID)
		PMPI_Type_get_attr(type, kept.keyval, &layout, &found);
	if (found)
		return pmpi_layout_share(layout);
	layout = find_named(type)->layout; /* another thread may have been first */
	if (layout)
		return layout;
	layout = make_layout(type, &is_named);
	if (layout)
		keep(type, layout, is_named);
	return layout;
}

static struct pmpi_layout *__attribute__((noinline)) find_derived(MPI_Datatype type)
{
	pthread_mutex_lock(&kept.lock);
	struct pmpi_layout *layout = find_locked(type);
	pthread_mutex_unlock(&kept.lock);
	return layout;
}

struct pmpi_layout *pmpi_layout_get(MPI_Datatype type)
{
	struct pmpi_layout *layout = find_named(type)->layout;
	return layout ? layout : find_derived(type); /* a predefined type's users are not counted */
}

void pmpi_types_end(void)
{
	pthread_mutex_lock(&kept.lock);
	for (int i = 0; i < NAMED; i++) {
		struct pmpi_layout *layout = atomic_exchange(&kept.named[i].layout, NULL);
		if (layout)
			free_layout(layout);
	}
	kept.n = 0;
	if (kept.keyval != MPI_KEYVAL_INVALID)
		PMPI_Type_free_keyval(&kept.keyval);
	pthread_mutex_unlock(&kept.lock);
}

/* ---- Walking ------------------------------------------------------------------------------------------- */

struct walk {
	int (*take)(void *arg, const struct pmpi_rows *rows);
	void *arg;
};

/* Rows that lie back to back on both sides are one. Those that overlap, or go backwards, are taken one by one. */
static int walk_rows(const struct walk *w, struct pmpi_rows rows, ptrdiff_t pitch)
{
	const size_t n = rows.rows;
	rows.pitch = (size_t)pitch;
	if (!n || !rows.width)
		return 0;
	if (n > 1 && pitch == (ptrdiff_t)rows.width && rows.packed_pitch == rows.width) {
		rows.width *= n;
		rows.rows = 1;
	}
	if (rows.rows == 1 || pitch >= (ptrdiff_t)rows.width)
		return w->take(w->arg, &rows);
	rows.rows = 1;
	for (size_t i = 0; i < n; i++) {
		const int ret = w->take(w->arg, &rows);
		if (ret)
			return ret;
		rows.at += pitch;
		rows.packed_at += rows.packed_pitch;
	}
	return 0;
}

/* A run of the first `count` elements: rows along the longer of both dimensions, a call for each of the other. */
static int walk_run(const struct walk *w, const struct pmpi_layout *layout, const struct pmpi_run *run,
		    size_t packed_at, size_t count)
{
	const int is_along = count >= run->count;
	const size_t calls = is_along ? run->count : count, rows = is_along ? count : run->count;
	int ret = 0;
	for (size_t i = 0; i < calls && !ret; i++) {
		const ptrdiff_t step = is_along ? (ptrdiff_t)run->stride : layout->extent;
		const size_t packed_step = is_along ? run->bytes : layout->size;
		struct pmpi_rows part = { .at = run->at + (ptrdiff_t)i * step,
					  .packed_at = packed_at + i * packed_step,
					  .packed_pitch = is_along ? layout->size : run->bytes,
					  .width = run->bytes,
					  .rows = rows };
		ret = walk_rows(w, part, is_along ? layout->extent : (ptrdiff_t)run->stride);
	}
	return ret;
}

static int walk_whole(const struct walk *w, const struct pmpi_layout *layout, size_t count)
{
	size_t packed_at = 0;
	int ret = 0;
	for (size_t i = 0; i < layout->n && !ret; i++) {
		ret = walk_run(w, layout, &layout->runs[i], packed_at, count);
		packed_at += layout->runs[i].bytes * layout->runs[i].count;
	}
	return ret;
}

/* The first `bytes` of an element. */
static int walk_part(const struct walk *w, const struct pmpi_layout *layout, ptrdiff_t at, size_t packed_at,
		     size_t bytes)
{
	for (const struct pmpi_run *run = layout->runs; bytes; run++) {
		const size_t have = bytes < run->bytes * run->count ? bytes : run->bytes * run->count;
		const size_t rows = have / run->bytes;
		struct pmpi_rows part = { .at = at + run->at,
					  .packed_at = packed_at,
					  .packed_pitch = run->bytes,
					  .width = run->bytes,
					  .rows = rows };
		int ret = walk_rows(w, part, (ptrdiff_t)run->stride);
		if (ret)
			return ret;
		part.at += (ptrdiff_t)(rows * run->stride);
		part.packed_at += rows * run->bytes;
		part.width = have % run->bytes;
		part.rows = 1;
		ret = walk_rows(w, part, 0);
		if (ret)
			return ret;
		packed_at += have;
		bytes -= have;
	}
	return 0;
}

int pmpi_layout_walk(const struct pmpi_layout *layout, size_t count, size_t bytes,
		     int (*take)(void *arg, const struct pmpi_rows *rows), void *arg)
{
	const struct walk w = { take, arg };
	if (!layout->size || !count)
		return 0;
	if (bytes > count * layout->size)
		bytes = count * layout->size;
	const size_t whole = bytes / layout->size;
	const int ret = walk_whole(&w, layout, whole);
	return ret ? ret
		   : walk_part(&w, layout, (ptrdiff_t)whole * layout->extent, whole * layout->size,
			       bytes % layout->size);
}
