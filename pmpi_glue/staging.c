/* SPDX-License-Identifier: BSD-3-Clause */
#include "staging.h"

#include <string.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "types.h"

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

struct copying {
	const struct pmpi_staged *s;
	char *packed;
	enum pmpi_direction direction;
	int by_processor; /* both sides are host memory */
	struct pmpi_copying copies;
};

static void copy_piece(const struct piece *p)
{
	for (size_t i = 0; i < p->rows; i++)
		memcpy((char *)p->to + i * p->to_pitch, (const char *)p->from + i * p->from_pitch, p->width);
}

static int add_rows(void *arg, const struct pmpi_rows *rows)
{
	struct copying *c = arg;
	char *buffer = (char *)((uintptr_t)c->s->device + (uintptr_t)rows->at);
	char *packed = c->packed + rows->packed_at;
	const struct piece piece =
	    c->direction == PMPI_TO_PACKED
		? (struct piece){ packed, rows->packed_pitch, buffer, rows->pitch, rows->width, rows->rows }
		: (struct piece){ buffer, rows->pitch, packed, rows->packed_pitch, rows->width, rows->rows };
	if (!c->by_processor)
		return pmpi_copying_add(&c->copies, &piece);
	copy_piece(&piece);
	return 0;
}

/* stream: NULL: the copy ends here. */
static int copy_by_device(struct copying *c, int ordinal, size_t bytes, int is_pinned,
			  struct pmpi_stream **stream)
{
	pmpi_copying_begin(&c->copies, ordinal, is_pinned);
	const int ret = pmpi_layout_walk(c->s->layout, (size_t)c->s->count, bytes, add_rows, c);
	const int end =
	    stream && !ret ? pmpi_copying_leave(&c->copies, stream) : pmpi_copying_end(&c->copies);
	return ret ? ret : end;
}

int pmpi_stage_start(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		     size_t bytes, struct pmpi_stream **stream)
{
	struct copying c = { .s = s, .packed = packed, .direction = direction };
	if (stream)
		*stream = NULL;
	if (s->ordinal >= 0 || ordinal >= 0)
		return copy_by_device(&c, s->ordinal >= 0 ? s->ordinal : ordinal, bytes, 0, stream);
	c.by_processor = 1;
	return pmpi_layout_walk(s->layout, (size_t)s->count, bytes, add_rows, &c);
}

int pmpi_stage_copy(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		    size_t bytes)
{
	return pmpi_stage_start(s, direction, packed, ordinal, bytes, NULL);
}

/* Absolute addresses may be those of the program's own host memory, which no kernel reaches. */
static int copy(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, size_t bytes)
{
	struct copying c = { .s = s, .packed = packed, .direction = direction };
	return copy_by_device(&c, s->ordinal, bytes, s->device != MPI_BOTTOM, NULL);
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
