/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exported memory of ranks on emulated GPUs, as the processes' boards and mapping threads make it on real ones: one world's at a time. Buffers of calls that may be
 * zero-copy lie in a few allocations of each rank, its arenas, each of which is an export.
 */
#ifndef EMULATED_EXPORTS_H
#define EMULATED_EXPORTS_H

#include <stddef.h>
#include <stdint.h>

enum exports_kind {
	EXPORTS_NONE,
	EXPORTS_OPEN, /* all are mapped at all ranks before the first call */
	EXPORTS_BY_HAND, /* none at first; only the functions below change that */
	EXPORTS_LATE, /* they come, are refused and vanish while calls run */
	EXPORTS_REFUSED /* the last one of rank 0 is never mapped at the last rank */
};

/* apart: other ranks have an arena at another address, where they can only read it. 0 or CORALE_ENOMEM. */
int exports_open(int ranks, enum exports_kind kind, int apart);
void exports_close(void);

/* One turn of all mapping threads. */
void exports_step(void);

/* Memory of a rank in one of its arenas, or NULL: there are no exports. */
unsigned char *exports_take(int rank, size_t bytes);
/* 1 if it was in an arena: it holds other bytes from now on. */
int exports_give(unsigned char *memory);

/* Between two runs: all ranks open what is exported; every arena dies, and another one takes its index, and is open. */
void exports_open_all(void);
void exports_replace(void);
/* From now on calls name what is exported now, as those of a graph do. 0: what is exported when they are made. */
void exports_capture(int captured);

/* All calls that a rank has made have ended. */
void exports_ended(int rank);

#endif
