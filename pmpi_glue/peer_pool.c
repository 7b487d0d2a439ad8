/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for messages that are copied before they are read: see peer_table.h. */
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "door.h"
#include "peer_table.h"

enum { LEAST_BITS = 16 };
static const size_t most_bytes = (size_t)256 << 20;

static struct {
	pthread_mutex_t lock;
	struct peer_part *unused;
	size_t bytes; /* of all parts */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* 1: there is none that others can map. */
static int allocate(struct peer_part *part, size_t bytes)
{
	static _Atomic int said;
	int before;
	if (pmpi_enter(part->ordinal, &before))
		return 1;
	int has_none = pmpi.device->alloc(bytes, &part->memory);
	if (!has_none && pmpi.device->export_memory(part->memory, bytes, &part->exported)) {
		pmpi.device->free(part->memory);
		has_none = 1;
	}
	if (has_none)
		log_once(&said, LOG_INFO, pmpi.rank,
			 "no %zu bytes of device memory for messages that are copied before they are read: "
			 "they go through host memory",
			 bytes);
	pmpi_leave(before);
	return has_none;
}

static struct peer_part *make(int ordinal, int bits)
{
	const size_t bytes = (size_t)1 << bits;
	struct peer_part *part = bytes <= most_bytes - pool.bytes ? malloc(sizeof *part) : NULL;
	if (!part)
		return NULL;
	*part = (struct peer_part){ .ordinal = ordinal, .bits = bits };
	if (allocate(part, bytes)) {
		free(part);
		return NULL;
	}
	pool.bytes += bytes;
	return part;
}

struct peer_part *peer_part_take(int ordinal, size_t bytes)
{
	const int bits = peer_bits_of(bytes, LEAST_BITS);
	pthread_mutex_lock(&pool.lock);
	struct peer_part **link = &pool.unused;
	while (*link && ((*link)->ordinal != ordinal || (*link)->bits != bits))
		link = &(*link)->next;
	struct peer_part *part = *link;
	if (part)
		*link = part->next;
	else
		part = make(ordinal, bits);
	pthread_mutex_unlock(&pool.lock);
	return part;
}

void peer_part_give(struct peer_part *part)
{
	pthread_mutex_lock(&pool.lock);
	part->next = pool.unused;
	pool.unused = part;
	pthread_mutex_unlock(&pool.lock);
}

static void free_part(struct peer_part *part)
{
	int before;
	if (!pmpi_enter(part->ordinal, &before)) {
		pmpi.device->free(part->memory);
		pmpi_leave(before);
	}
	free(part);
}

void peer_pool_end(void)
{
	pthread_mutex_lock(&pool.lock);
	for (struct peer_part *next; pool.unused; pool.unused = next) {
		next = pool.unused->next;
		free_part(pool.unused);
	}
	pthread_mutex_unlock(&pool.lock);
}
