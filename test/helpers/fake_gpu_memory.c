/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows every touch of a GPU's memory by a processor: one mapping has no access, the other is the test's. */
#define _GNU_SOURCE
#include "fake_gpu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

int fake_gpu_memory_map(struct fake_gpu_memory *m, size_t bytes)
{
	*m = (struct fake_gpu_memory){ .bytes = bytes, .fd = memfd_create("fake-gpu", MFD_CLOEXEC) };
	if (m->fd < 0)
		return -1;
	if (!ftruncate(m->fd, (off_t)bytes)) {
		m->address = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, m->fd, 0);
		m->readable = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
		if (m->address != MAP_FAILED && m->readable != MAP_FAILED)
			return 0;
	}
	close(m->fd);
	return -1;
}

void fake_gpu_memory_unmap(struct fake_gpu_memory *m)
{
	munmap(m->address, m->bytes);
	munmap(m->readable, m->bytes);
	close(m->fd);
}
