/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of messages by peer copies. Device memory is written and read by copies, so that GPUs can have it, too (test/fake_device/cuda_device.c). */
#ifndef PMPI_PEER_H
#define PMPI_PEER_H

#include <stdlib.h>
#include <string.h>

#include "test/fake_device/fake_device.h"

static inline void put(char *buffer, size_t bytes, int value)
{
	char *host = malloc(bytes + 1);
	memset(host, value, bytes);
	fake_device_copy(buffer, host, bytes);
	free(host);
}

static inline char *get(const char *buffer, size_t bytes)
{
	char *host = malloc(bytes + 1);
	fake_device_copy(host, buffer, bytes);
	return host;
}

#endif
