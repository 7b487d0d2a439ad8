/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of device, copies, and pinned memory. */
#define _GNU_SOURCE
#include "memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"
#include "door.h"

const struct pmpi_device *pmpi_device_find(void)
{
	const struct pmpi_device *found = dlsym(RTLD_DEFAULT, "corale_pmpi_device");
	return found ? found : pmpi_device_gpu;
}

int pmpi_ordinal(const void *p)
{
	return pmpi.device && p ? pmpi.device->ordinal(p) : -1;
}

int pmpi_ordinal_reaches(int ordinal, int memory)
{
	return memory == ordinal || (memory < PMPI_DEVICES && (memory < 0 || ordinal < PMPI_DEVICES));
}

int pmpi_enter(int ordinal, int *before)
{
	if (!pmpi.device)
		return 0;
	if (ordinal < 0 || ordinal >= PMPI_NO_ORDINAL)
		return log_error(CORALE_ENOTSUP, pmpi.rank,
				 "a buffer is in the memory of GPU %d or higher, or in one of more than %d "
				 "CUDA contexts that the program has made so far: the MPI door takes no such "
				 "buffer; use the GPU's primary context (cudaSetDevice)",
				 PMPI_DEVICES, PMPI_NO_ORDINAL - PMPI_DEVICES);
	return pmpi.device->enter(ordinal, before);
}

void pmpi_leave(int before)
{
	if (pmpi.device)
		pmpi.device->leave(before);
}

/*
 * ---- Waits. A turn of MPI's progress takes as long as several looks at the stream, and the end of a short call is seen that much later; so MPI goes on from
 * SHORT_NS on, and then in one turn of each TURN_NS.
 */

enum { SHORT_NS = 50000, TURN_NS = 5000 };

int pmpi_wait(void *stream)
{
	int64_t turn = 0;
	int done;
	while (!(done = pmpi.device->query(stream))) {
		const int64_t now = wait_now_ns();
		if (!turn)
			turn = now + SHORT_NS;
		if (now < turn)
			continue;
		pmpi_progress();
		sched_yield();
		turn = wait_now_ns() + TURN_NS;
	}
	return done < 0 ? done : 0;
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

/* ---- Copies -------------------------------------------------------------------------------------------- */

static int start_copy(const struct piece *piece, void *stream)
{
	if (!piece->width || !piece->rows)
		return 0;
	return piece->rows == 1
		   ? pmpi.device->copy(piece->to, piece->from, piece->width, stream)
		   : pmpi.device->copy_rows(piece->to, piece->to_pitch, piece->from, piece->from_pitch,
					    piece->width, piece->rows, stream);
}

static int start_on(const struct piece *pieces, size_t n, int by_kernel, void *stream)
{
	int ret = 0;
	if (by_kernel)
		return pmpi.device->copy_pieces(pieces, n, stream);
	for (size_t i = 0; i < n && !ret; i++)
		ret = start_copy(&pieces[i], stream);
	return ret;
}

static int start_pieces(struct pmpi_copying *c, size_t n, int by_kernel)
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
	return ret;
}

/* ---- Many copies. By a kernel where rows are short: a copy unit takes each row for itself, and each copy costs the host a call. */

enum { MANY_PIECES = 8192, FEW_ROWS = 8, LONG_ROW = 4096 };

void pmpi_copying_begin(struct pmpi_copying *c, int ordinal, int is_pinned)
{
	c->ordinal = ordinal;
	c->is_pinned = is_pinned;
	c->stream = NULL;
	c->n = c->rows = c->bytes = 0;
	c->room = PMPI_FEW_PIECES;
	c->pieces = c->few;
}

/* The list moves to memory that a kernel reads. Without such memory it stays as short as it is. */
static void make_room(struct pmpi_copying *c)
{
	struct piece *many = pmpi_pinned(MANY_PIECES * sizeof(*many));
	if (!many)
		return;
	memcpy(many, c->few, c->n * sizeof(*many));
	c->pieces = many;
	c->room = MANY_PIECES;
}

/* A kernel reads the list, which waits for it, and after an error all that has started is waited for. */
static int copy_now(struct pmpi_copying *c)
{
	const int is_short = c->is_pinned && c->rows > FEW_ROWS && c->bytes / c->rows < LONG_ROW;
	const size_t n = c->n;
	if (is_short && c->pieces == c->few)
		make_room(c);
	const int by_kernel = is_short && c->pieces != c->few;
	c->n = c->rows = c->bytes = 0;
	const int ret = n ? start_pieces(c, n, by_kernel) : 0;
	const int waited = ret || by_kernel ? wait_and_give(&c->stream) : 0;
	return ret ? ret : waited;
}

int pmpi_copying_add(struct pmpi_copying *c, const struct piece *piece)
{
	int ret = 0;
	if (c->n == c->room && c->is_pinned && c->pieces == c->few)
		make_room(c);
	if (c->n == c->room)
		ret = copy_now(c);
	c->pieces[c->n++] = *piece;
	c->rows += piece->rows;
	c->bytes += piece->rows * piece->width;
	return ret;
}

int pmpi_copying_end(struct pmpi_copying *c)
{
	struct pmpi_stream *stream;
	const int ret = pmpi_copying_leave(c, &stream), waited = wait_and_give(&stream);
	return ret ? ret : waited;
}

int pmpi_copying_leave(struct pmpi_copying *c, struct pmpi_stream **stream)
{
	const int ret = copy_now(c);
	if (c->pieces != c->few)
		pmpi_unpinned(c->pieces, MANY_PIECES * sizeof(*c->pieces));
	*stream = c->stream;
	return ret;
}

/*
 * ---- Pinned memory. Pinning takes milliseconds and unpinning waits for the whole device, so the pool keeps what it gets back, a list for each size, up
 * to MOST_KEPT bytes in all. Sizes are 5, 6, 7 and 8 eighths of powers of two.
 */

enum { LEAST_BITS = 12, SIZES = 4 * (64 - LEAST_BITS) };
static const size_t most_kept = (size_t)1 << 30;

/* Unused memory has this at its start. */
struct unused {
	struct unused *next;
};

static struct {
	pthread_mutex_t lock;
	size_t kept; /* bytes */
	struct unused *first[SIZES];
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The size that bytes are rounded up to, and its list. */
static size_t round_up(size_t bytes, int *list)
{
	int bits = LEAST_BITS;
	while (bytes && (bytes - 1) >> bits > 1)
		bits++;
	const size_t eighth = (size_t)1 << (bits - 2);
	const size_t eighths = bytes <= 5 * eighth ? 5 : (bytes + eighth - 1) / eighth;
	*list = 4 * (bits - LEAST_BITS) + (int)eighths - 5;
	return eighth * eighths;
}

/* NULL: the list is empty. */
static void *take(int list, size_t bytes)
{
	pthread_mutex_lock(&pool.lock);
	struct unused *found = pool.first[list];
	if (found) {
		pool.first[list] = found->next;
		pool.kept -= bytes;
	}
	pthread_mutex_unlock(&pool.lock);
	return found;
}

/* 0: there is no room for it. */
static int keep(void *memory, int list, size_t bytes)
{
	struct unused *unused = memory;
	pthread_mutex_lock(&pool.lock);
	const int has_room = bytes <= most_kept - pool.kept;
	if (has_room) {
		*unused = (struct unused){ pool.first[list] };
		pool.first[list] = unused;
		pool.kept += bytes;
	}
	pthread_mutex_unlock(&pool.lock);
	return has_room;
}

void *pmpi_pinned(size_t bytes)
{
	int list;
	const size_t rounded = round_up(bytes, &list);
	void *memory = take(list, rounded);
	return memory || !pmpi.device->pin(rounded, &memory) ? memory : NULL;
}

void pmpi_unpinned(void *memory, size_t bytes)
{
	int list;
	const size_t rounded = round_up(bytes, &list);
	if (memory && !keep(memory, list, rounded))
		pmpi.device->unpin(memory);
}

void pmpi_memory_end(void)
{
	pthread_mutex_lock(&pool.lock);
	for (int list = 0; list < SIZES; list++)
		for (struct unused *next; pool.first[list]; pool.first[list] = next) {
			next = pool.first[list]->next;
			pmpi.device->unpin(pool.first[list]);
		}
	pool.kept = 0;
	pthread_mutex_unlock(&pool.lock);
}
