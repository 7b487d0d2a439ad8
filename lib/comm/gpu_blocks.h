/*
 * How many blocks the CUDA communicators of this process may have waiting on a GPU. Calls of one communicator follow each other, those of
 * several on several streams run at one time: each waits for its peers on all the multiprocessors that its blocks have. Where
 * all of them together are more than a GPU's multiprocessors, one may keep out the other that its peers wait for, for ever.
 */
#ifndef GPU_BLOCKS_H
#define GPU_BLOCKS_H

#include "cuda/engine.h"

/* A rank's communicator on its GPU. */
struct gpu_blocks {
	uint64_t comm; /* its id: several ranks of it in one process are counted once */
	unsigned char gpu[ENGINE_UUID_BYTES];
	int blocks; /* of its largest kernel */
	int ranks; /* on the GPU, of all processes */
	int processors; /* of the GPU */
	int given; /* the user has limited the blocks: a warning is of use */
};

/* All communicators of this process that are registered for a GPU. */
struct gpu_blocks_sum {
	int comms, ranks, blocks;
};

/*
 * Registers a communicator's rank (owner: any address that is its own) until it is removed; returns what is on its GPU then. If that is more than
 * it has multiprocessors, one line a process says so: a warning where the blocks were given, else at INFO, as most programs that
 * leave them to the library use one stream. Any thread.
 */
struct gpu_blocks_sum gpu_blocks_add(const void *owner, int rank, const struct gpu_blocks *blocks);
void gpu_blocks_remove(const void *owner);

/* 1 if calls of several communicators may find no room beside each other. */
int gpu_blocks_exceed(const struct gpu_blocks_sum *sum, int processors);

/* The variables that limit blocks, as the line names them: "CORALE_MAX_CTAS", unless a front door has others, too. Stays the caller's. */
void gpu_blocks_name_variables(const char *names);

#endif
