/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "mapped.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "descriptor.h"

/* One byte through the pipe, and back to where it was if it must be writable. A wait or a signal is no fault. */
static int passes(const int *ends, unsigned char *at, int back)
{
	unsigned char byte;
	if (write(ends[1], at, 1) != 1)
		return errno != EFAULT;
	return read(ends[0], back ? at : &byte, 1) == 1 || errno != EFAULT;
}

/* At the beginning of each page, or of each step of so many pages. */
static size_t probe(unsigned char *at, size_t bytes, int back, size_t pages)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), step = pages * page;
	size_t good = 0;
	int ends[2];
	if (descriptor_pipe(ends))
		return bytes;
	while (good < bytes && passes(ends, at + good, back))
		good += step - ((uintptr_t)at + good) % page;
	close(ends[0]);
	close(ends[1]);
	return good < bytes ? good : bytes;
}

size_t mapped_readable(const void *at, size_t bytes)
{
	return probe((unsigned char *)(uintptr_t)at, bytes, 0, 1);
}

size_t mapped_writable(void *at, size_t bytes)
{
	return probe(at, bytes, 1, 1);
}

enum { STEPS = 32, STEPS_BYTES = 64 << 10 };

/* By the calls that reach the memory of processes, here this one: they read and write any number of bytes at once, and store what was there. No answer is
 * no fault: a filter may forbid them. */
static int is_good(const struct iovec *samples, unsigned long n, int writes)
{
	unsigned char kept[STEPS + 1];
	const struct iovec there = { kept, n };
	const pid_t self = getpid();
	ssize_t done = syscall(SYS_process_vm_writev, self, samples, n, &there, 1UL, 0UL);
	if (done == (ssize_t)n && writes)
		done = syscall(SYS_process_vm_readv, self, samples, n, &there, 1UL, 0UL);
	return done < 0 ? errno != EFAULT : done == (ssize_t)n;
}

int mapped_seems(const void *at, size_t bytes, int writes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)at & ~(page - 1);
	unsigned char *first = (unsigned char *)(uintptr_t)at;
	struct iovec samples[STEPS + 1];
#ifdef MADV_POPULATE_WRITE /* the quickest for some pages, where the kernel has it */
	if (bytes <= STEPS_BYTES && !madvise((void *)start, (uintptr_t)at + bytes - start,
					     writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 1;
#endif
	/* it starts no I/O, and finds gaps */
	if (msync((void *)start, (uintptr_t)at + bytes - start, MS_ASYNC) && errno == ENOMEM)
		return 0;
	for (size_t i = 0; i <= STEPS; i++)
		samples[i] =
		    (struct iovec){ first + (bytes - 1) / STEPS * i + (bytes - 1) % STEPS * i / STEPS, 1 };
	/* These calls don't reach what a device's driver has mapped, as pinned memory of CUDA, nor memfd_secret; a pipe does. */
	return is_good(samples, STEPS + 1, writes) ||
	       (probe(first, bytes, writes, bytes / page / STEPS + 1) == bytes &&
		probe(first + bytes - 1, 1, writes, 1) == 1);
}
