/* The fake device as the MPI door's kind of device: the door finds it by its name in the program. Copies are carried out only when the door asks for their
 * end, so one that it does not wait for is seen. */
#include <stdatomic.h>
#include <stdlib.h>

#include "corale.h"
#include "fake_device.h"
#include "pmpi_glue/memory.h"

enum { POLLS = 2 };

struct copy {
	char *to;
	const char *from;
	size_t to_pitch, from_pitch, width, rows;
	struct copy *next;
};

struct stream {
	int ordinal, polls;
	struct copy *first, **last;
};

static _Thread_local int current;
static _Atomic size_t pinned, copied_rows;

size_t fake_device_pinned(void)
{
	return pinned;
}

size_t fake_device_copied_rows(void)
{
	return copied_rows;
}

static int is_there(void)
{
	return 1;
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

/* With its size in front. */
enum { FRONT = 64 };

static int pin(size_t bytes, void **memory)
{
	char *found = malloc(bytes + FRONT);
	if (!found)
		return CORALE_ENOMEM;
	*(size_t *)(void *)found = bytes;
	pinned += bytes;
	*memory = found + FRONT;
	return 0;
}

static void unpin(void *memory)
{
	char *found = (char *)memory - FRONT;
	pinned -= *(size_t *)(void *)found;
	free(found);
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
static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		     size_t rows, void *stream)
{
	struct stream *s = stream;
	struct copy *copy = malloc(sizeof(*copy));
	if (!copy || s->ordinal != current || (rows > 1 && (to_pitch < width || from_pitch < width)))
		abort();
	*copy = (struct copy){ to, from, to_pitch, from_pitch, width, rows, NULL };
	*s->last = copy;
	s->last = &copy->next;
	copied_rows += rows;
	return 0;
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
	return copy_rows(to, bytes, from, bytes, bytes, 1, stream);
}

static int query(void *stream)
{
	struct stream *s = stream;
	if (s->first && ++s->polls < POLLS)
		return 0;
	for (struct copy *c = s->first, *next; c; c = next) {
		next = c->next;
		for (size_t i = 0; i < c->rows; i++)
			fake_device_copy(c->to + i * c->to_pitch, c->from + i * c->from_pitch, c->width);
		free(c);
	}
	s->first = NULL;
	s->last = &s->first;
	s->polls = 0;
	return 1;
}

__attribute__((visibility("default")))
const struct pmpi_device corale_pmpi_device = { .name = "fake",
						.corale_device = CORALE_DEVICE_HOST,
						.is_there = is_there,
						.ordinal = fake_device_ordinal,
						.in_use = in_use,
						.reach = fake_device_reach,
						.enter = enter,
						.leave = leave,
						.pin = pin,
						.unpin = unpin,
						.stream_create = stream_create,
						.stream_destroy = stream_destroy,
						.copy = copy,
						.copy_rows = copy_rows,
						.query = query };
