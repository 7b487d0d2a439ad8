/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that a GPU has been given of late, by number: what fails there, long after the call, is named by it. */
#ifndef GPU_JOURNAL_H
#define GPU_JOURNAL_H

#include "state/comm.h"

/* To be freed by free. NULL: no memory. */
struct gpu_journal *gpu_journal_create(void);

/* Keeps n calls that start together; the number of the first one, which is 1 or more. One thread at a time; all other functions
 * beside it too. */
uint32_t gpu_journal_add(struct gpu_journal *journal, const struct call *calls, int n);

/* The number of the last call; 0: there was none. */
uint32_t gpu_journal_last(const struct gpu_journal *journal);

/* 1 if what was called last waits for that rank: it is a collective, or with this peer. */
int gpu_journal_concerns(const struct gpu_journal *journal, int rank);

/*
 * The call of a number, or of those that started with it the one with that peer, without its buffers and scalar. One that is no longer
 * kept: its coll is CORALE_NUM_COLLS.
 */
struct record gpu_journal_find(const struct gpu_journal *journal, uint32_t number, int peer);

#endif
