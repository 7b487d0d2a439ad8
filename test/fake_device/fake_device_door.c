/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake device as the MPI door's kind of device: the door finds it by its name in the program. Copies are carried out only when the door asks for their
 * end, so one that it does not wait for is seen. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corale.h"
#include "fake_device.h"
#include "pmpi_glue/memory.h"

enum { POLLS = 2 };

/* Pieces that are copied at the end of the stream's work, from a list of then. */
struct copy {
	const struct piece *pieces; /* own, or those of copy_pieces */
	size_t n;
	struct piece own;
	struct copy *next;
};

struct stream {
	int ordinal, polls;
	struct copy *first, **last;
};

static _Thread_local int current;
static _Atomic size_t pinned, pins, copies, copied_rows, exports, mapped;

size_t fake_device_pinned(void)
{
	return pinned;
}

size_t fake_device_pins(void)
{
	return pins;
}

size_t fake_device_copies(void)
{
	return copies;
}

size_t fake_device_exports(void)
{
	return exports;
}

size_t fake_device_mapped(void)
{
	return mapped;
}

size_t fake_device_copied_rows(void)
{
	return copied_rows;
}

static int is_there(void)
{
	return 1;
}

static int ordinal(const void *p)
{
	const int found = fake_device_ordinal(p);
	return found == FAKE_CONTEXT ? PMPI_DEVICES : found;
}

/* What is current has no way to memory of another context: that faults. */
static void *reach(const void *p)
{
	const int memory = ordinal(p);
	const int is_reached = memory == current || (memory < PMPI_DEVICES && current < PMPI_DEVICES);
	return is_reached ? fake_device_reach(p) : (void *)p;
}

static int in_use(void)
{
	return current;
}

static int enter(int ordinal, int *before)
{
	*before = current;
	current = ordinal;
	return 0;
}

static void leave(int before)
{
	current = before;
}

/* Pinned memory has its size and that of the list of all in front; of mapped memory that is elsewhere. */
enum { FRONT = 64 };
struct front {
	size_t bytes;
	struct front *next;
	const void *mapped;
};

static struct {
	pthread_mutex_t lock;
	struct front *first;
} all_pinned = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int pin(size_t bytes, void **memory)
{
	struct front *front = malloc(bytes + FRONT);
	if (!front)
		return CORALE_ENOMEM;
	pthread_mutex_lock(&all_pinned.lock);
	*front = (struct front){ bytes, all_pinned.first, NULL };
	all_pinned.first = front;
	pthread_mutex_unlock(&all_pinned.lock);
	pinned += bytes;
	pins++;
	*memory = (char *)front + FRONT;
	return 0;
}

static void unpin(void *memory)
{
	struct front *front = (void *)((char *)memory - FRONT);
	pthread_mutex_lock(&all_pinned.lock);
	struct front **link = &all_pinned.first;
	while (*link != front)
		link = &(*link)->next;
	*link = front->next;
	pthread_mutex_unlock(&all_pinned.lock);
	pinned -= front->bytes;
	free(front);
}

static int is_pinned(const void *p)
{
	pthread_mutex_lock(&all_pinned.lock);
	const struct front *front = all_pinned.first;
	while (front &&
	       (uintptr_t)p - (front->mapped ? (uintptr_t)front->mapped : (uintptr_t)front + FRONT) >=
		   front->bytes)
		front = front->next;
	pthread_mutex_unlock(&all_pinned.lock);
	return front != NULL;
}

static int pin_mapped(void *memory, size_t bytes)
{
	struct front *front = getenv("FAKE_DEVICE_UNPINNED") ? NULL : malloc(sizeof *front);
	if (!front)
		return CORALE_ENOMEM;
	pthread_mutex_lock(&all_pinned.lock);
	*front = (struct front){ bytes, all_pinned.first, memory };
	all_pinned.first = front;
	pthread_mutex_unlock(&all_pinned.lock);
	return 0;
}

/* Blocks of the door's own. */
enum { MOST_OWN = 64 };
static uint64_t own[MOST_OWN];
static _Atomic int own_n;

static int is_own(const void *p)
{
	const uint64_t block = fake_device_block(p);
	int i = 0;
	while (i < own_n && own[i] != block)
		i++;
	return i < own_n;
}

static int alloc_memory(size_t bytes, void **memory)
{
	*memory = fake_device_alloc(current, bytes);
	if (*memory && own_n < MOST_OWN) {
		own[own_n] = fake_device_block(*memory);
		own_n++;
	}
	return !*memory;
}

static int stream_create(void **stream)
{
	struct stream *s = calloc(1, sizeof(*s));
	if (!s)
		return CORALE_ENOMEM;
	s->ordinal = current;
	s->last = &s->first;
	*stream = s;
	return 0;
}

static void stream_destroy(void *stream)
{
	free(stream);
}

/* A stream takes copies of its own device only. */
static int start(const struct copy *wanted, void *stream)
{
	struct stream *s = stream;
	struct copy *copy = malloc(sizeof(*copy));
	if (!copy || s->ordinal != current)
		abort();
	*copy = *wanted;
	if (!copy->pieces)
		copy->pieces = &copy->own;
	for (size_t i = 0; i < copy->n; i++) {
		const struct piece *p = &copy->pieces[i];
		if (p->rows > 1 && (p->to_pitch < p->width || p->from_pitch < p->width))
			abort();
		copied_rows += p->rows;
	}
	*s->last = copy;
	s->last = &copy->next;
	copies++;
	return 0;
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		     size_t rows, void *stream)
{
	return start(&(struct copy){ .n = 1, .own = { to, to_pitch, from, from_pitch, width, rows } },
		     stream);
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
	return copy_rows(to, bytes, from, bytes, bytes, 1, stream);
}

/* A kernel reaches its device, mapped memory and pinned memory only. */
static int kernel_reaches(const void *p)
{
	return ordinal(p) == current || is_pinned(p) ||
	       (fake_device_ordinal(p) < 0 && fake_device_reach(p) != p);
}

static int copy_pieces(const struct piece *pieces, size_t n, void *stream)
{
	for (size_t i = 0; i < n; i++)
		if (!is_pinned(&pieces[i]) || !kernel_reaches(pieces[i].to) ||
		    !kernel_reaches(pieces[i].from))
			abort();
	return start(&(struct copy){ .pieces = pieces, .n = n }, stream);
}

static void carry_out(const struct piece *p)
{
	for (size_t i = 0; i < p->rows; i++)
		fake_device_copy((char *)p->to + i * p->to_pitch, (const char *)p->from + i * p->from_pitch,
				 p->width);
}

static int query(void *stream)
{
	struct stream *s = stream;
	if (s->first && ++s->polls < POLLS)
		return 0;
	for (struct copy *c = s->first, *next; c; c = next) {
		next = c->next;
		for (size_t i = 0; i < c->n; i++)
			carry_out(&c->pieces[i]);
		free(c);
	}
	s->first = NULL;
	s->last = &s->first;
	s->polls = 0;
	return 1;
}

/*
 * Of the process: a mapping has all its devices. Memory of a context of its own is not exported, and with FAKE_DEVICE_UNEXPORTED none of the program's, as that of cudaMallocAsync.
 */
struct handle {
	long pid;
	int descriptor;
};

static int export_memory(const void *p, size_t bytes, struct pmpi_exported *out)
{
	const struct handle handle = { getpid(), fake_device_descriptor() };
	if (fake_device_ordinal(p) == FAKE_CONTEXT || (getenv("FAKE_DEVICE_UNEXPORTED") && !is_own(p)) ||
	    fake_device_ordinal(p) != fake_device_ordinal((const char *)p + bytes - 1))
		return 1;
	*out = (struct pmpi_exported){ .id = fake_device_block(p), .at = fake_device_offset(p) };
	memcpy(out->handle, &handle, sizeof handle);
	exports++;
	return 0;
}

static int map_memory(const struct pmpi_exported *exported, void **allocation)
{
	struct handle handle;
	memcpy(&handle, exported->handle, sizeof handle);
	*allocation = fake_device_map(handle.pid, handle.descriptor);
	if (!*allocation || getenv("FAKE_DEVICE_UNREACHED"))
		return 1;
	mapped++;
	return 0;
}

static void unmap_memory(void *allocation)
{
	mapped--;
}

__attribute__((visibility("default")))
const struct pmpi_device corale_pmpi_device = { .corale_device = CORALE_DEVICE_HOST,
						.is_there = is_there,
						.ordinal = ordinal,
						.in_use = in_use,
						.reach = reach,
						.enter = enter,
						.leave = leave,
						.pin = pin,
						.unpin = unpin,
						.pin_mapped = pin_mapped,
						.alloc = alloc_memory,
						.free = fake_device_free,
						.stream_create = stream_create,
						.stream_destroy = stream_destroy,
						.copy = copy,
						.copy_rows = copy_rows,
						.copy_pieces = copy_pieces,
						.query = query,
						.export_memory = export_memory,
						.allocation = fake_device_block,
						.map = map_memory,
						.unmap = unmap_memory };
