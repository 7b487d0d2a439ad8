/* The fake device as the MPI door's kind of device: its communicators are of the host, and reach the data in the second mapping. */
#include <stdlib.h>

#include "corale.h"
#include "fake_device.h"
#include "pmpi_glue/memory.h"

static int is_there(void)
{
	return 1;
}

static int in_use(void)
{
	return 0;
}

static int enter(int ordinal, int *before)
{
	*before = 0;
	return 0;
}

static void leave(int before)
{
}

static int pin(size_t bytes, void **memory)
{
	*memory = malloc(bytes);
	return *memory ? 0 : CORALE_ENOMEM;
}

static int stream_create(void **stream)
{
	*stream = malloc(1);
	return *stream ? 0 : CORALE_ENOMEM;
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
	fake_device_copy(to, from, bytes);
	return 0;
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		     size_t rows, void *stream)
{
	for (size_t i = 0; i < rows; i++)
		fake_device_copy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
	return 0;
}

static int query(void *stream)
{
	return 1;
}

extern const struct pmpi_device corale_pmpi_device;
const struct pmpi_device corale_pmpi_device = { .name = "fake",
						.corale_device = CORALE_DEVICE_HOST,
						.is_there = is_there,
						.ordinal = fake_device_ordinal,
						.in_use = in_use,
						.reach = fake_device_reach,
						.enter = enter,
						.leave = leave,
						.pin = pin,
						.unpin = free,
						.stream_create = stream_create,
						.stream_destroy = free,
						.copy = copy,
						.copy_rows = copy_rows,
						.query = query };
