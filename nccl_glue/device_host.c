/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers in host memory; streams are ignored, as every call has ended when it returns. */
#include "device.h"

#include <stdlib.h>

#include "base/log.h"
#include "corale.h"

static int no_version(void)
{
	return 0;
}

static int current(int *ordinal)
{
	*ordinal = 0;
	return 0;
}

static int select_any(int ordinal)
{
	return 0;
}

static int count(int *n)
{
	*n = 1;
	return 0;
}

static int64_t bus_id(int ordinal)
{
	return 0;
}

static int alloc(size_t bytes, void **memory)
{
	*memory = malloc(bytes ? bytes : 1);
	return *memory ? 0 : log_error(CORALE_ENOMEM, -1, "no memory for %zu bytes", bytes);
}

static int free_memory(void *memory)
{
	free(memory);
	return 0;
}

const struct door_device door_device_host = { .version = no_version,
					      .current = current,
					      .peek = current,
					      .select = select_any,
					      .count = count,
					      .bus_id = bus_id,
					      .alloc = alloc,
					      .free = free_memory };
