/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows every touch of device memory by a processor: its addresses fault, and only copies reach the data. */
#define _GNU_SOURCE
#include "fake_device.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t device_bytes = (size_t)1 << 30;
enum { ALIGNMENT = 256, MOST_PEERS = 64 };

struct block {
	size_t at, bytes;
	uint64_t number;
	struct block *next; /* at rising offsets */
};

static struct {
	pthread_mutex_t lock;
	char *device; /* without access; device i from i * device_bytes on */
	char *data;
	int fd;
	struct block *blocks[FAKE_DEVICES];
	uint64_t blocks_n; /* ever */
	_Atomic int peers_n;
	struct peer {
		long pid;
		char *device, *data;
	} peers[MOST_PEERS];
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *map(int access, int fd)
{
	void *found = mmap(NULL, FAKE_DEVICES * device_bytes, access, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (found == MAP_FAILED) {
		perror("fake device: mmap");
		abort();
	}
	return found;
}

/* Before any thread asks whether memory is a device's. */
__attribute__((constructor)) static void start(void)
{
	int fd = memfd_create("fake device", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)(FAKE_DEVICES * device_bytes))) {
		perror("fake device: memfd_create");
		abort();
	}
	fake.device = map(PROT_NONE, fd);
	fake.data = map(PROT_READ | PROT_WRITE, fd);
	fake.fd = fd;
}

int fake_device_descriptor(void)
{
	return fake.fd;
}

size_t fake_device_offset(const void *p)
{
	return (size_t)((const char *)p - fake.device);
}

void *fake_device_map(long pid, int descriptor)
{
	char path[64];
	for (int i = 0; i < fake.peers_n; i++)
		if (fake.peers[i].pid == pid)
			return fake.peers[i].device;
	snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, descriptor);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fake.peers_n == MOST_PEERS)
		return NULL;
	struct peer *peer = &fake.peers[fake.peers_n];
	*peer = (struct peer){ pid, map(PROT_NONE, fd), map(PROT_READ | PROT_WRITE, fd) };
	fake.peers_n++; /* from here on other threads read it */
	close(fd);
	return peer->device;
}

/* The first gap that has room; a gap is left behind each block, so that a block's end is no other one's address. */
static struct block **find_gap(int ordinal, size_t bytes, size_t *at)
{
	struct block **link = &fake.blocks[ordinal];
	for (*at = 0; *link && (*link)->at < *at + bytes; link = &(*link)->next)
		*at = (*link)->at + (*link)->bytes;
	return link;
}

void *fake_device_alloc(int ordinal, size_t bytes)
{
	const size_t room = (bytes / ALIGNMENT + 2) * ALIGNMENT;
	struct block *block = malloc(sizeof(*block));
	size_t at;
	if (!block || ordinal < 0 || ordinal >= FAKE_DEVICES)
		abort();
	pthread_mutex_lock(&fake.lock);
	struct block **link = find_gap(ordinal, room, &at);
	const int has_room = at + room <= device_bytes;
	if (has_room) {
		*block = (struct block){ at, room, ++fake.blocks_n, *link };
		*link = block;
	}
	pthread_mutex_unlock(&fake.lock);
	if (!has_room)
		free(block);
	return has_room ? fake.device + (size_t)ordinal * device_bytes + at : NULL;
}

void fake_device_free(void *memory)
{
	const int ordinal = memory ? fake_device_ordinal(memory) : 0;
	if (!memory)
		return;
	if (ordinal < 0)
		abort();
	const size_t at = (size_t)((char *)memory - fake.device) - (size_t)ordinal * device_bytes;
	pthread_mutex_lock(&fake.lock);
	struct block **link = &fake.blocks[ordinal];
	while (*link && (*link)->at != at)
		link = &(*link)->next;
	struct block *block = *link;
	if (!block)
		abort();
	*link = block->next;
	pthread_mutex_unlock(&fake.lock);
	free(block);
}

uint64_t fake_device_block(const void *p)
{
	const int ordinal = fake_device_ordinal(p);
	uint64_t number = 0;
	if (ordinal < 0)
		return 0;
	const size_t at = fake_device_offset(p) - (size_t)ordinal * device_bytes;
	pthread_mutex_lock(&fake.lock);
	for (const struct block *b = fake.blocks[ordinal]; b; b = b->next)
		if (at >= b->at && at < b->at + b->bytes)
			number = b->number;
	pthread_mutex_unlock(&fake.lock);
	return number;
}

int fake_device_ordinal(const void *p)
{
	const uintptr_t at = (uintptr_t)p - (uintptr_t)fake.device;
	return at < FAKE_DEVICES * device_bytes ? (int)(at / device_bytes) : -1;
}

void *fake_device_reach(const void *p)
{
	for (int i = 0; i < fake.peers_n; i++) {
		const uintptr_t at = (uintptr_t)p - (uintptr_t)fake.peers[i].device;
		if (at < FAKE_DEVICES * device_bytes)
			return fake.peers[i].data + at;
	}
	return fake_device_ordinal(p) < 0 ? (void *)p : fake.data + ((const char *)p - fake.device);
}

void fake_device_copy(void *to, const void *from, size_t bytes)
{
	memmove(fake_device_reach(to), fake_device_reach(from), bytes);
}
