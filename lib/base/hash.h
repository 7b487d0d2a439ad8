/* SPDX-License-Identifier: BSD-3-Clause */
/* FNV-1a (Fowler, Noll and Vo): what ranks compare instead of the bytes themselves. */
#ifndef HASH_H
#define HASH_H

#include <stddef.h>
#include <stdint.h>

static const uint64_t hash_start = 0xcbf29ce484222325u;

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
	const unsigned char *p = data;
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u;
	return hash;
}

#endif
