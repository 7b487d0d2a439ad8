/* SPDX-License-Identifier: BSD-3-Clause */
#include "staging.h"

#include <string.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"

/* ---- Whose memory it is -------------------------------------------------------------------------------- */

/*
 * The device of a derived type's bytes; -1: the host's. Its bytes lie in one allocation, unless the type has absolute addresses: then one device's are
 * enough, as copies read and write host memory too.
 */
static int ordinal_of_runs(const char *buffer, const struct pmpi_layout *layout)
{
	const size_t n = buffer == MPI_BOTTOM ? layout->n : layout->n > 0;
	int ordinal = -1;
	for (size_t i = 0; i < n && ordinal < 0; i++)
		ordinal = pmpi_ordinal((const void *)((uintptr_t)buffer + (uintptr_t)layout->runs[i].at));
	return ordinal;
}

int pmpi_stage_any(struct pmpi_staged *s, const void *buffer, MPI_Count count, MPI_Datatype type)
{
	*s = (struct pmpi_staged){ .buffer = (void *)buffer, .count = count, .type = type, .ordinal = -1 };
	if (!pmpi.device || count < 0 || type == MPI_DATATYPE_NULL)
		return 0;
	struct pmpi_layout *layout = pmpi_layout_get(type);
	if (!layout)
		return 0; /* logged; MPI says what is wrong with the type */
	s->bytes = layout->size * (size_t)count;
	if (s->bytes)
		s->ordinal = layout->is_contiguous ? pmpi_ordinal(buffer) : ordinal_of_runs(buffer, layout);
	s->device = (char *)buffer;
	s->layout = layout;
	return 1;
}

void pmpi_stage_forget(struct pmpi_staged *s)
{
	if (s->layout)
		pmpi_layout_put(s->layout);
	s->layout = NULL;
	s->ordinal = -1;
}

int pmpi_stage_find(struct pmpi_staged *s, const void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (!pmpi_stage_any(s, buffer, count, count > 0 ? type : MPI_DATATYPE_NULL)) {
		s->type = type;
		return 0;
	}
	if (s->ordinal < 0 || !s->bytes) {
		pmpi_stage_forget(s);
		return 0;
	}
	s->type = s->layout->packed;
	return 1;
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

void pmpi_transfer_begin(struct pmpi_transfer *t, enum pmpi_direction direction, int ordinal, int is_pinned)
{
	t->direction = direction;
	t->ordinal = ordinal;
	t->is_alike = 0;
	if (ordinal >= 0)
		pmpi_copying_begin(&t->copies, ordinal, is_pinned);
}

static void copy_piece(const struct piece *p)
{
	for (size_t i = 0; i < p->rows; i++)
		memcpy((char *)p->to + i * p->to_pitch, (const char *)p->from + i * p->from_pitch, p->width);
}

static int add_rows(void *arg, const struct pmpi_rows *rows)
{
	struct pmpi_transfer *t = arg;
	char *buffer = (char *)((uintptr_t)t->buffer + (uintptr_t)rows->at);
	char *packed = t->packed + (t->is_alike ? rows->at : (ptrdiff_t)rows->packed_at);
	const size_t pitch = t->is_alike ? rows->pitch : rows->packed_pitch;
	const struct piece piece =
	    t->direction == PMPI_TO_PACKED
		? (struct piece){ packed, pitch, buffer, rows->pitch, rows->width, rows->rows }
		: (struct piece){ buffer, rows->pitch, packed, pitch, rows->width, rows->rows };
	if (t->ordinal >= 0)
		return pmpi_copying_add(&t->copies, &piece);
	copy_piece(&piece);
	return 0;
}

int pmpi_transfer_add(struct pmpi_transfer *t, const struct pmpi_layout *layout, size_t count, size_t bytes,
		      void *buffer, void *packed)
{
	t->buffer = buffer;
	t->packed = packed;
	return pmpi_layout_walk(layout, count, bytes, add_rows, t);
}

int pmpi_transfer_end(struct pmpi_transfer *t, int ret, struct pmpi_stream **stream)
{
	if (stream)
		*stream = NULL;
	if (t->ordinal < 0)
		return ret;
	const int end =
	    stream && !ret ? pmpi_copying_leave(&t->copies, stream) : pmpi_copying_end(&t->copies);
	return ret ? ret : end;
}

static int transfer(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		    size_t bytes, int is_pinned, struct pmpi_stream **stream)
{
	struct pmpi_transfer t;
	pmpi_transfer_begin(&t, direction, ordinal, is_pinned);
	const int ret = pmpi_transfer_add(&t, s->layout, (size_t)s->count, bytes, s->device, packed);
	return pmpi_transfer_end(&t, ret, stream);
}

int pmpi_stage_start(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		     size_t bytes, struct pmpi_stream **stream)
{
	return transfer(s, direction, packed, s->ordinal >= 0 ? s->ordinal : ordinal, bytes, 0, stream);
}

int pmpi_stage_copy(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		    size_t bytes)
{
	return pmpi_stage_start(s, direction, packed, ordinal, bytes, NULL);
}

/* To or from pinned memory. Absolute addresses may be those of the program's own host memory, which no kernel reaches. */
static int copy(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, size_t bytes)
{
	return transfer(s, direction, packed, s->ordinal, bytes, s->device != MPI_BOTTOM, NULL);
}

int pmpi_stage_unpack(const struct pmpi_staged *s, void *packed, size_t bytes, int is_pinned)
{
	return is_pinned ? copy(s, PMPI_FROM_PACKED, packed, bytes)
			 : pmpi_stage_copy(s, PMPI_FROM_PACKED, packed, -1, bytes);
}

int pmpi_stage_take(struct pmpi_staged *s)
{
	if (s->ordinal < 0)
		return 0;
	s->buffer = pmpi_pinned(s->bytes);
	return s->buffer
		   ? 0
		   : log_error(CORALE_ENOMEM, pmpi.rank,
			       "no %zu bytes of pinned memory for a message of a device buffer: the host's "
			       "memory is full, or its limit of locked memory (ulimit -l) is low",
			       s->bytes);
}

int pmpi_stage_again(struct pmpi_staged *s)
{
	return s->ordinal < 0 ? 0 : copy(s, PMPI_TO_PACKED, s->buffer, s->bytes);
}

int pmpi_stage_in(struct pmpi_staged *s)
{
	const int ret = pmpi_stage_take(s);
	return ret ? ret : pmpi_stage_again(s);
}

void pmpi_stage_end(struct pmpi_staged *s)
{
	if (s->ordinal < 0)
		return;
	if (s->buffer != s->device)
		pmpi_unpinned(s->buffer, s->bytes);
	pmpi_stage_forget(s);
}
