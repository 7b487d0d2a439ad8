/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the readable mapping of memory that stands for a GPU's: at its own address a processor may not touch it. */
#define _GNU_SOURCE
#include "gpu.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct mapping {
	uintptr_t begin, end;
	uint64_t offset, inode;
	unsigned major, minor;
	char access[5];
};

/* Skips the rest of the line, a name of any length. */
static int read_mapping(FILE *maps, struct mapping *m)
{
	if (fscanf(maps, "%lx-%lx %4s %lx %x:%x %lu", &m->begin, &m->end, m->access, &m->offset, &m->major,
		   &m->minor, &m->inode) != 7)
		return 0;
	for (int c = 0; c != '\n' && c != EOF;)
		c = getc(maps);
	return 1;
}

static int has_no_access(const struct mapping *m)
{
	return !strncmp(m->access, "---", 3);
}

/* Where a mapping has these bytes of the file of another one, or NULL. */
static unsigned char *place_in(const struct mapping *m, const struct mapping *other, uint64_t offset,
			       size_t bytes)
{
	if (m->inode != other->inode || m->major != other->major || m->minor != other->minor ||
	    strncmp(m->access, "rw", 2) || offset < m->offset ||
	    offset + bytes > m->offset + (m->end - m->begin))
		return NULL;
	return (unsigned char *)m->begin + (offset - m->offset);
}

static int find_mapping(FILE *maps, uintptr_t address, struct mapping *m)
{
	while (read_mapping(maps, m))
		if (m->begin <= address && address < m->end)
			return 1;
	return 0;
}

static unsigned char *find_readable(FILE *maps, const struct mapping *gpu, uintptr_t address, size_t bytes)
{
	struct mapping m;
	unsigned char *found = NULL;
	rewind(maps);
	while (!found && address + bytes <= gpu->end && read_mapping(maps, &m))
		found = place_in(&m, gpu, gpu->offset + (address - gpu->begin), bytes);
	return found;
}

int fake_gpu_find(const void *address, size_t bytes, unsigned char **readable)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mapping m;
	*readable = NULL;
	const int is_gpu = maps && find_mapping(maps, (uintptr_t)address, &m) && has_no_access(&m);
	if (is_gpu && m.inode)
		*readable = find_readable(maps, &m, (uintptr_t)address, bytes);
	if (maps)
		fclose(maps);
	return is_gpu;
}
