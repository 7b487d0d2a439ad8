/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many blocks the CUDA communicators of this process have on each GPU. A block waits for its peers while it holds its multiprocessor, and calls of
 * several communicators on several streams run at one time. Where their blocks do not fit on a GPU together, a call keeps out
 * another one that its peers wait for, for ever. So a new communicator has what the earlier ones leave, and its number for life: another
 * one would need all ranks to change at the same call, graphs included. One without a limit has all of the GPU, whatever others have, and a line says that two may wait for each other.
 *
 * Blocks are counted as multiprocessors: kernels of which two blocks fit on one have twice as many at most. Messages to and from n ranks are 2n - 1 lists of
 * half a multiprocessor, so a communicator holds n at least. Kernels of one warp fit beside all others. Each process counts for itself: those of several on a GPU take
 * turns or, under MPS, run side by side; of one communicator all fit then (gpu_hello_share).
 *
 * Not done: a chain of events over all communicators, as programs may call two of them in different orders on different ranks; turns that one GPU grants, which
 * cost an exchange for each large call.
 */
#ifndef GPU_BLOCKS_H
#define GPU_BLOCKS_H

#include "cuda/engine.h"

enum {
	GPU_BLOCKS_COMMS = 8 /* communicators with a limit that always fit */
};

/* What a rank's communicator asks for on its GPU. */
struct gpu_blocks {
	uint64_t comm; /* its id: several ranks of it in one process are counted once */
	unsigned char gpu[ENGINE_UUID_BYTES];
	int processors; /* of the GPU */
	int wish; /* blocks of its largest kernel */
	int least; /* multiprocessors that it may hold however few blocks it has: messages to and from each rank */
};

/* All communicators of this process on a GPU. */
struct gpu_blocks_sum {
	int comms, blocks;
};

/* Multiprocessors for all communicators. One of 32 is left to kernels that wait for nobody, as a peer may wait for those. */
int gpu_blocks_room(int processors);

/* The blocks of a communicator beside others. Without a limit it has all of the GPU, as one alone. Else as much is kept back for each further one, up to
 * GPU_BLOCKS_COMMS, as that one needs at least; where so many do not fit, half of what is left. Pure. */
int gpu_blocks_offer(const struct gpu_blocks *asked, const struct gpu_blocks_sum *others);

/*
 * Counts a communicator's rank (owner: any address that is its own) until it is released: at first with what it is offered, which *offered says and *others
 * explains, or the least that it holds; when the ranks have agreed, with that (settle). Ranks of one communicator on one GPU are offered the same. Any thread.
 * CORALE_ENOMEM.
 */
int gpu_blocks_claim(const void *owner, int rank, const struct gpu_blocks *asked, int *offered,
		     struct gpu_blocks_sum *others);
struct gpu_blocks_sum gpu_blocks_settle(const void *owner, int blocks);
void gpu_blocks_release(const void *owner);

/*
 * One line a process, each: a communicator has fewer blocks than it asks for; all communicators of a GPU, least of each included, do not fit on it. What each
 * costs, and what to set. gpu: its place on the bus.
 */
void gpu_blocks_log_cut(int rank, const char *gpu, const struct gpu_blocks *asked,
			const struct gpu_blocks_sum *others, int blocks);
void gpu_blocks_log_excess(int rank, const char *gpu, const struct gpu_blocks *asked,
			   const struct gpu_blocks_sum *sum);

/* The variables that limit blocks, as those lines name them: "CORALE_MAX_CTAS", unless a front door has others, too. Stays the caller's. */
void gpu_blocks_name_variables(const char *names);

#endif
