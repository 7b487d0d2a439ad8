/* SPDX-License-Identifier: BSD-3-Clause */
#include "staging.h"

#include <pthread.h>
#include <stdlib.h>
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

int pmpi_buffer_find(struct pmpi_buffer *b, const void *at, MPI_Count count, MPI_Datatype type)
{
	*b = (struct pmpi_buffer){ .at = (char *)at, .count = (size_t)count, .ordinal = -1 };
	if (!pmpi.device || count < 0 || type == MPI_DATATYPE_NULL || !(b->layout = pmpi_layout_get(type)))
		return 0;
	b->bytes = b->layout->size * b->count;
	if (b->bytes)
		b->ordinal = b->layout->is_contiguous ? pmpi_ordinal(at) : ordinal_of_runs(at, b->layout);
	return 1;
}

void pmpi_buffer_end(struct pmpi_buffer *b)
{
	if (b->layout)
		pmpi_layout_put(b->layout);
	b->layout = NULL;
}

int pmpi_is_device(const void *at, MPI_Count count, MPI_Datatype type)
{
	struct pmpi_buffer b;
	const int is_device =
	    pmpi_buffer_find(&b, at, count, count ? type : MPI_DATATYPE_NULL) && b.ordinal >= 0;
	pmpi_buffer_end(&b);
	return is_device;
}

/* ---- Streams for copies, which the process keeps: one has the copies of one call, or message, at a time. */

struct pmpi_stream {
	void *of_device;
	int ordinal;
	struct pmpi_stream *next; /* unused */
};

static struct {
	pthread_mutex_t lock;
	struct pmpi_stream *unused[PMPI_NO_ORDINAL];
} streams = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of the ordinal that the thread has entered. */
static int take_stream(int ordinal, struct pmpi_stream **out)
{
	pthread_mutex_lock(&streams.lock);
	struct pmpi_stream *stream = streams.unused[ordinal];
	if (stream)
		streams.unused[ordinal] = stream->next;
	pthread_mutex_unlock(&streams.lock);
	*out = stream;
	if (stream)
		return 0;
	if (!(stream = malloc(sizeof *stream)))
		return log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a stream of copies");
	stream->ordinal = ordinal;
	const int ret = pmpi.device->stream_create(&stream->of_device);
	if (ret)
		free(stream);
	else
		*out = stream;
	return ret;
}

static void give_stream(struct pmpi_stream *stream)
{
	pthread_mutex_lock(&streams.lock);
	stream->next = streams.unused[stream->ordinal];
	streams.unused[stream->ordinal] = stream;
	pthread_mutex_unlock(&streams.lock);
}

static int wait_and_give(struct pmpi_stream **stream)
{
	const int ret = *stream ? pmpi_wait((*stream)->of_device) : 0;
	if (*stream)
		give_stream(*stream);
	*stream = NULL;
	return ret;
}

int pmpi_copied(struct pmpi_stream *stream)
{
	const int ret = pmpi.device->query(stream->of_device);
	if (ret)
		give_stream(stream);
	return ret;
}

/* ---- Copies. By a kernel where rows are short: a copy unit takes each row for itself, and each copy costs the host a call. */

static int start_on(const struct piece *pieces, size_t n, int by_kernel, void *stream)
{
	int ret = 0;
	if (by_kernel)
		return pmpi.device->copy_pieces(pieces, n, stream);
	for (const struct piece *p = pieces; p < pieces + n && !ret; p++)
		ret = p->rows == 1 ? pmpi.device->copy(p->to, p->from, p->width, stream)
				   : pmpi.device->copy_rows(p->to, p->to_pitch, p->from, p->from_pitch,
							    p->width, p->rows, stream);
	return ret;
}

/* Those that a kernel makes are waited for, as it reads their list. */
static int start_pieces(struct pmpi_copies *c, size_t n, int by_kernel)
{
	int before;
	int ret = pmpi_enter(c->ordinal, &before);
	if (ret)
		return ret;
	if (!c->stream)
		ret = take_stream(c->ordinal, &c->stream);
	if (!ret)
		ret = start_on(c->pieces, n, by_kernel, c->stream->of_device);
	pmpi_leave(before);
	return ret || !by_kernel ? ret : wait_and_give(&c->stream);
}

enum { MANY_PIECES = 8192, FEW_ROWS = 8, LONG_ROW = 4096 };

void pmpi_copies_begin(struct pmpi_copies *c, enum pmpi_direction direction, int ordinal, int is_pinned)
{
	c->direction = direction;
	c->ordinal = ordinal;
	c->is_pinned = is_pinned;
	c->is_alike = 0;
	c->stream = NULL;
	c->n = c->rows = c->bytes = 0;
	c->room = PMPI_FEW_PIECES;
	c->pieces = c->few;
}

/* The list moves to memory that a kernel reads. Without such memory it stays as short as it is. */
static void make_room(struct pmpi_copies *c)
{
	struct piece *many =
	    c->is_pinned && c->pieces == c->few ? pmpi_pinned(MANY_PIECES * sizeof(*many)) : NULL;
	if (!many)
		return;
	memcpy(many, c->few, c->n * sizeof(*many));
	c->pieces = many;
	c->room = MANY_PIECES;
}

static int copy_now(struct pmpi_copies *c)
{
	const int is_short = c->is_pinned && c->rows > FEW_ROWS && c->bytes / c->rows < LONG_ROW;
	const size_t n = c->n;
	if (is_short)
		make_room(c);
	c->n = c->rows = c->bytes = 0;
	return n ? start_pieces(c, n, is_short && c->pieces != c->few) : 0;
}

static int add_piece(struct pmpi_copies *c, const struct piece *piece)
{
	int ret = 0;
	if (c->n == c->room)
		make_room(c);
	if (c->n == c->room)
		ret = copy_now(c);
	c->pieces[c->n++] = *piece;
	c->rows += piece->rows;
	c->bytes += piece->rows * piece->width;
	return ret;
}

static int copy_by_processor(const struct piece *p)
{
	for (size_t i = 0; i < p->rows; i++)
		memcpy((char *)p->to + i * p->to_pitch, (const char *)p->from + i * p->from_pitch, p->width);
	return 0;
}

static int add_rows(void *arg, const struct pmpi_rows *rows)
{
	struct pmpi_copies *c = arg;
	char *buffer = (char *)((uintptr_t)c->buffer + (uintptr_t)rows->at);
	char *packed = c->packed + (c->is_alike ? rows->at : (ptrdiff_t)rows->packed_at);
	const size_t pitch = c->is_alike ? rows->pitch : rows->packed_pitch;
	const struct piece piece =
	    c->direction == PMPI_TO_PACKED
		? (struct piece){ packed, pitch, buffer, rows->pitch, rows->width, rows->rows }
		: (struct piece){ buffer, rows->pitch, packed, pitch, rows->width, rows->rows };
	return c->ordinal >= 0 ? add_piece(c, &piece) : copy_by_processor(&piece);
}

int pmpi_copies_add(struct pmpi_copies *c, const struct pmpi_layout *layout, size_t count, size_t bytes,
		    void *buffer, void *packed)
{
	c->buffer = buffer;
	c->packed = packed;
	return pmpi_layout_walk(layout, count, bytes, add_rows, c);
}

int pmpi_copies_end(struct pmpi_copies *c, int ret, struct pmpi_stream **stream)
{
	if (!ret)
		ret = copy_now(c);
	if (c->pieces != c->few)
		pmpi_unpinned(c->pieces, MANY_PIECES * sizeof(*c->pieces));
	if (ret || !stream) {
		const int waited = wait_and_give(&c->stream);
		ret = ret ? ret : waited;
	}
	if (stream)
		*stream = c->stream;
	return ret;
}

/* Absolute addresses may be those of the program's own host memory, which no kernel reaches. */
int pmpi_buffer_copy(const struct pmpi_buffer *b, enum pmpi_direction direction, void *packed, int where,
		     size_t bytes, struct pmpi_stream **stream)
{
	struct pmpi_copies c;
	pmpi_copies_begin(&c, direction, b->ordinal >= 0 ? b->ordinal : where,
			  (where == PMPI_IN_PINNED || (where >= 0 && b->ordinal >= 0)) &&
			      b->at != MPI_BOTTOM);
	return pmpi_copies_end(&c, pmpi_copies_add(&c, b->layout, b->count, bytes, b->at, packed), stream);
}
