/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero-copy: large calls use the programs' own buffers where they lie in the memory of the node's ranks. What the host and the kernels of a rank share about
 * them: which allocations of each rank are mapped here. Compiles as C and as CUDA.
 *
 * A process exports allocations of its GPU: it gives each one a number, from 1 on, in order, never twice. An export's index in all tables is its number
 * modulo EXPORTS_ROOM; its number is given out when every process has closed the export that had the index before.
 */
#ifndef EXPORTS_H
#define EXPORTS_H

#include <stdint.h>

enum {
	EXPORTS_ROOM = 1024, /* of a process and GPU, at a time */
	EXPORTS_MOST_RANKS = 16, /* of a node, of calls that are zero-copy */
	EXPORTS_OFFSET_BITS = 48
};

/*
 * The exports of one process, as a GPU of another one sees them, or its own: in that GPU's memory. Written by copies of one thread: an address first, then
 * `opened`; before an export is closed the owner has stopped naming it, so its address is not read any more.
 */
struct exports {
	uint64_t opened; /* exports up to this number are mapped here, or will never be named again */
	unsigned char *at[EXPORTS_ROOM]; /* by index: where the allocation begins */
};

/* Exports of the rank's own process that its calls may name: by index, the number; 0: none. In its GPU's memory. */
struct exports_own {
	uint64_t usable[EXPORTS_ROOM];
};

/* Where a call's buffer lies: an export, and the offset in it. number 0: it is in no export. */
struct export_ref {
	uint64_t number, offset;
};

#endif
