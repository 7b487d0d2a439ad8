#define _GNU_SOURCE
#include "mapped.h"

#include <errno.h>
#include <stdint.h>
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

static size_t probe(unsigned char *at, size_t bytes, int back)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t good = 0;
	int ends[2];
	if (descriptor_pipe(ends))
		return bytes;
	while (good < bytes && passes(ends, at + good, back))
		good += page - ((uintptr_t)at + good) % page;
	close(ends[0]);
	close(ends[1]);
	return good < bytes ? good : bytes;
}

size_t mapped_readable(const void *at, size_t bytes)
{
	return probe((unsigned char *)(uintptr_t)at, bytes, 0);
}

size_t mapped_writable(void *at, size_t bytes)
{
	return probe(at, bytes, 1);
}
