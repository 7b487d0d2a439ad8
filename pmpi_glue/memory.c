/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of device, and pinned memory. */
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
	return pmpi.device && p && !pmpi_is_own(p) ? pmpi.device->ordinal(p) : -1;
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
		pmpi_progress(NULL);
		sched_yield();
		turn = wait_now_ns() + TURN_NS;
	}
	return done < 0 ? done : 0;
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

void *pmpi_pinned(size_t bytes)
{
	int list;
	const size_t rounded = round_up(bytes, &list);
	pthread_mutex_lock(&pool.lock);
	struct unused *found = pool.first[list];
	if (found) {
		pool.first[list] = found->next;
		pool.kept -= rounded;
	}
	pthread_mutex_unlock(&pool.lock);
	void *memory = found;
	return memory || !pmpi.device->pin(rounded, &memory) ? memory : NULL;
}

void pmpi_unpinned(void *memory, size_t bytes)
{
	int list;
	struct unused *unused = memory;
	const size_t rounded = round_up(bytes, &list);
	pthread_mutex_lock(&pool.lock);
	const int has_room = rounded <= most_kept - pool.kept;
	if (has_room) {
		unused->next = pool.first[list];
		pool.first[list] = unused;
		pool.kept += rounded;
	}
	pthread_mutex_unlock(&pool.lock);
	if (!has_room)
		pmpi.device->unpin(memory);
}

int pmpi_host_take(struct pmpi_host *host, size_t bytes, int is_pinned)
{
	const size_t room = bytes ? bytes : 1;
	host->memory = is_pinned ? pmpi_pinned(room) : malloc(room);
	host->pinned = is_pinned && host->memory ? room : 0;
	return host->memory
		   ? 0
		   : log_error(
			 CORALE_ENOMEM, pmpi.rank,
			 "no %zu bytes of host memory for the data of a call: the host's memory is full, "
			 "or (of device buffers) its limit of locked memory (ulimit -l) is low",
			 bytes);
}

void pmpi_host_free(struct pmpi_host *host)
{
	if (host->pinned)
		pmpi_unpinned(host->memory, host->pinned);
	else
		free(host->memory);
	*host = (struct pmpi_host){ 0 };
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
