/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory. */
#ifndef FAKE_VERBS_MEMORY_H
#define FAKE_VERBS_MEMORY_H

#include "wire.h"

/* Under the lock: `bytes` at `address` of the registration `key`, or NULL if key, range or access rights forbid it. Not for use where it is copied. */
void *fake_memory_at(uint32_t key, uint64_t address, size_t bytes, unsigned access);

/* The iovecs of segments from `offset` on, `bytes` at most; -1: a part of them is not registered with these rights. */
int fake_memory_places(const struct fake_segments *segments, size_t offset, size_t bytes, unsigned access,
		       struct iovec *places);

/* What fake_memory_at has found is stored. */
void fake_memory_store(uint32_t key, uint64_t address, const void *data, size_t bytes);

/* Of a registration: its memory is a GPU's; of a real one, which a copier alone reaches; it was asked for with relaxed ordering. */
int fake_memory_is_gpu(uint32_t key);
int fake_memory_is_copied(uint32_t key);
int fake_memory_is_relaxed(uint32_t key);

#endif
