/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "corale.h"
#include "base/descriptor.h"
#include "base/log.h"

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

void window_layout_init(struct window_layout *layout, int locals, int channels, int slots, size_t slot_bytes)
{
	enum { PAGE = 4096, LARGEST = 2 }; /* payloads: one is read while the next one is written */
	*layout = (struct window_layout){ .locals = locals,
					  .channels = channels,
					  .slots = slots,
					  .slot_bytes = slot_bytes,
					  .queue_bytes = locals > 1 ? LARGEST * slot_bytes : 0 };
	size_t queues = window_queue(layout, locals, 0, 0);
	layout->consumed = round_up(sizeof(struct window_control), PAGE);
	layout->headers = round_up(layout->consumed + 2 * queues * WINDOW_LINE, PAGE);
	layout->payload = round_up(layout->headers + queues * WINDOW_HEADERS * WINDOW_LINE, PAGE);
	layout->bytes = layout->payload + queues * layout->queue_bytes;
}

struct window_header *window_headers(const struct window_layout *layout, void *window, int d, int channel,
				     int queue)
{
	size_t at = layout->headers + window_queue(layout, d, channel, queue) * WINDOW_HEADERS * WINDOW_LINE;
	return (struct window_header *)((unsigned char *)window + at);
}

unsigned char *window_payload(const struct window_layout *layout, void *window, int d, int channel, int queue)
{
	return (unsigned char *)window + layout->payload +
	       window_queue(layout, d, channel, queue) * layout->queue_bytes;
}

_Atomic uint64_t *window_consumed(const struct window_layout *layout, void *window, int sender, int all,
				  int channel, int queue)
{
	size_t index = window_queue(layout, sender, channel, queue) * 2 + (size_t)all;
	return (_Atomic uint64_t *)((unsigned char *)window + layout->consumed + index * WINDOW_LINE);
}

static int map(int fd, size_t bytes, int rank, void **window)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return log_error(CORALE_ENOMEM, rank,
				 "mapping a window of %zu bytes failed: %s; lower CORALE_SLOT_BYTES "
				 "or CORALE_SLOTS",
				 bytes, strerror(errno));
	madvise(at, bytes, MADV_DONTFORK); /* a forked child must not write into the job's windows */
	*window = at;
	return 0;
}

/* Pages that are taken away end the next access by SIGBUS. */
int window_is_sealed(int fd, size_t bytes)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &file) && (uint64_t)file.st_size >= bytes;
}

int window_map_peer(int fd, size_t bytes, int rank, int peer, void **window)
{
	struct stat file = { 0 };
	if (window_is_sealed(fd, bytes))
		return map(fd, bytes, rank, window);
	fstat(fd, &file);
	return log_error(
	    CORALE_EPEER, rank,
	    "what rank %d has passed on as its window has %lld bytes and seals %d; expected shared memory of "
	    "at least %zu bytes that is sealed against shrinking (%d): start all ranks with the same library",
	    peer, (long long)file.st_size, fcntl(fd, F_GET_SEALS), bytes, F_SEAL_SHRINK);
}

static int report(size_t bytes, int rank, const char *failed_at)
{
	const int error = errno;
	struct rlimit files;
	if (error == EFBIG && !getrlimit(RLIMIT_FSIZE, &files))
		return log_error(CORALE_ENOMEM, rank,
				 "a window of %zu bytes is more than a file of this process may have (%llu "
				 "bytes): raise the "
				 "limit of file sizes (ulimit -f), or lower CORALE_MEMORY_CAP",
				 bytes, (unsigned long long)files.rlim_cur);
	return log_error(error == ENOMEM || error == ENOSPC ? CORALE_ENOMEM : CORALE_ESYSTEM, rank,
			 "making a window of %zu bytes failed: %s: %s", bytes, failed_at, strerror(error));
}

int window_create(size_t bytes, int rank, int *fd, void **window)
{
	const char *failed_at;
	int new_fd = descriptor_memory("corale-window", bytes, &failed_at);
	if (new_fd < 0)
		return report(bytes, rank, failed_at);
	int ret = map(new_fd, bytes, rank, window);
	if (ret) {
		close(new_fd);
		return ret;
	}
	*fd = new_fd;
	return 0;
}

static void touch(unsigned char *at, size_t bytes, int is_owner)
{
	enum { PAGE = 4096 };
	for (size_t i = 0; i < bytes; i += PAGE) {
		volatile unsigned char *byte = at + i;
		const unsigned char value = *byte;
		if (is_owner)
			*byte = value;
	}
}

void window_touch(const struct window_layout *layout, void *window, int is_owner)
{
	enum { TOUCHED = 1 << 20 };
	const size_t queues = (size_t)layout->locals * PLAN_MAX_QUEUES, most = TOUCHED / queues;
	size_t bytes = most < WINDOW_CACHED ? most : WINDOW_CACHED;
	bytes = bytes < layout->queue_bytes ? bytes : layout->queue_bytes;
	for (int d = 0; d < layout->locals; d++) {
		for (int queue = 0; queue < PLAN_MAX_QUEUES; queue++) {
			touch((unsigned char *)window_headers(layout, window, d, 0, queue),
			      WINDOW_HEADERS * WINDOW_LINE, is_owner);
			touch(window_payload(layout, window, d, 0, queue), bytes, is_owner);
		}
	}
}

void window_unmap(void *window, size_t bytes)
{
	if (window)
		munmap(window, bytes);
}

size_t window_used(void *window, size_t bytes)
{
	enum { AT_ONCE = 4096 };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = round_up(bytes, page) / page;
	unsigned char resident[AT_ONCE];
	size_t used = 0;
	for (size_t first = 0; first < pages; first += AT_ONCE) {
		const size_t n = pages - first < AT_ONCE ? pages - first : AT_ONCE;
		if (mincore((unsigned char *)window + first * page, n * page, resident))
			return bytes; /* not known: the most that it can be */
		for (size_t i = 0; i < n; i++)
			used += resident[i] & 1 ? page : 0;
	}
	return used < bytes ? used : bytes;
}
