/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real GPU's memory: FAKE_VERBS_COPIER names the socket of the process that copies it (test/fake_verbs/fake_copier.c). In a rank's process nothing is copied:
 * a copy there would wait for locks of the driver that the rank's own work holds. Under the lock, unless it is said.
 */
#ifndef FAKE_VERBS_COPIER_H
#define FAKE_VERBS_COPIER_H

#include <stddef.h>
#include <stdint.h>

#include "copier_board.h"

/* There is such a process. Connects when it is asked first. */
int fake_copier_is_used(void);

/* An address is a GPU's, by what the driver says. */
int fake_copier_has(const void *address);

/* Registers GPU memory under a key, which peers name by addresses from `start` on: an errno. What has no key any more is not copied. */
int fake_copier_register(uint32_t key, uint64_t start, const void *memory, size_t bytes);
void fake_copier_forget(uint32_t key);

/* Whether the registration of another adapter is GPU memory. */
int fake_copier_knows(uint32_t lid, uint32_t key);

/* Begins a copy from memory of this adapter. The number by which fake_copier_is_done asks. */
uint64_t fake_copier_begin(uint32_t key, uint64_t address, struct copier_place to, size_t bytes);
int fake_copier_is_done(uint64_t number);
void fake_copier_wait(uint64_t number);

/* Copies between this adapter's registered GPU memory and host memory, and waits for it. */
void fake_copier_fetch(uint32_t key, uint64_t address, void *to, size_t bytes);
void fake_copier_store(uint32_t key, uint64_t address, const void *from, size_t bytes);

/* Without the lock: it is connected; how many copies have ended. */
int fake_copier_is_joined(void);
uint64_t fake_copier_done(void);

#endif
