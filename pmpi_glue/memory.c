/* The kind of device, copies, and pinned memory. */
#define _GNU_SOURCE
#include "memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/log.h"
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

/* ---- Copies: a stream for each thread and device, which the process keeps. */

enum { DEVICES = 64, POLLS = 32 };

static __thread void *streams[DEVICES] __attribute__((tls_model("initial-exec")));

static int wait_for(void *stream)
{
	int done;
	for (int polls = 0; !(done = pmpi.device->query(stream)); polls++)
		if (polls >= POLLS) {
			pmpi_progress();
			sched_yield();
		}
	return done < 0 ? done : 0;
}

static int start_copy(const struct pmpi_copy *copy, void *stream)
{
	if (!copy->width || !copy->rows)
		return 0;
	return copy->rows == 1 ? pmpi.device->copy(copy->to, copy->from, copy->width, stream)
			       : pmpi.device->copy_rows(copy->to, copy->to_pitch, copy->from,
							copy->from_pitch, copy->width, copy->rows, stream);
}

/* After an error too it waits for the copies that have started. */
static int copy_on(int ordinal, const struct pmpi_copy *copies, size_t n)
{
	int ret = 0;
	if (!streams[ordinal])
		ret = pmpi.device->stream_create(&streams[ordinal]);
	if (ret)
		return ret;
	for (size_t i = 0; i < n && !ret; i++)
		ret = start_copy(&copies[i], streams[ordinal]);
	const int waited = wait_for(streams[ordinal]);
	return ret ? ret : waited;
}

int pmpi_copies(int ordinal, const struct pmpi_copy *copies, size_t n)
{
	int before, ret;
	if (ordinal < 0 || ordinal >= DEVICES)
		return log_error(CORALE_EINVAL, pmpi.rank, "device %d: the door knows devices 0 to %d",
				 ordinal, DEVICES - 1);
	ret = pmpi.device->enter(ordinal, &before);
	if (ret)
		return ret;
	ret = copy_on(ordinal, copies, n);
	pmpi.device->leave(before);
	return ret;
}

int pmpi_copy(int ordinal, void *to, const void *from, size_t bytes)
{
	return bytes ? pmpi_copies(ordinal, &(struct pmpi_copy){ to, bytes, from, bytes, bytes, 1 }, 1) : 0;
}

int pmpi_copy_rows(int ordinal, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		   size_t rows)
{
	const struct pmpi_copy copy = { to, to_pitch, from, from_pitch, width, rows };
	return width && rows ? pmpi_copies(ordinal, &copy, 1) : 0;
}

/* ---- Pinned memory, by powers of two. What is too large to keep goes back to the device. */

enum { LEAST = 12, MOST = 26, KEPT = 16 };

static struct pool {
	pthread_mutex_t lock;
	int n[MOST + 1];
	void *free[MOST + 1][KEPT];
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int size_class(size_t bytes)
{
	int class = LEAST;
	while (((size_t)1 << class) < bytes)
		class ++;
	return class;
}

void *pmpi_pinned(size_t bytes)
{
	const int class = size_class(bytes);
	void *memory = NULL;
	if (class <= MOST) {
		pthread_mutex_lock(&pool.lock);
		if (pool.n[class])
			memory = pool.free[class][--pool.n[class]];
		pthread_mutex_unlock(&pool.lock);
	}
	if (!memory && pmpi.device->pin((size_t)1 << class, &memory))
		return NULL;
	return memory;
}

void pmpi_unpinned(void *memory, size_t bytes)
{
	const int class = size_class(bytes);
	if (!memory)
		return;
	if (class <= MOST) {
		pthread_mutex_lock(&pool.lock);
		if (pool.n[class] < KEPT) {
			pool.free[class][pool.n[class]++] = memory;
			memory = NULL;
		}
		pthread_mutex_unlock(&pool.lock);
	}
	if (memory)
		pmpi.device->unpin(memory);
}

void pmpi_memory_end(void)
{
	pthread_mutex_lock(&pool.lock);
	for (int class = LEAST; class <= MOST; class ++)
		while (pool.n[class])
			pmpi.device->unpin(pool.free[class][--pool.n[class]]);
	pthread_mutex_unlock(&pool.lock);
}
