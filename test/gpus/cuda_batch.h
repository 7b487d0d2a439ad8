/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases that run together: one, several in a group, several one behind the other; called, or replayed from a graph. */
#ifndef CUDA_BATCH_H
#define CUDA_BATCH_H

#include "cuda_case.h"

enum { CUDA_BATCH_MOST = 8, CUDA_BATCH_STREAMS = 3 };

enum cuda_way {
	CUDA_WAY_EAGER,
	CUDA_WAY_GRAPH, /* captured once, replayed three times with other inputs */
	CUDA_WAY_PLAN, /* a persistent plan, run twice */
	CUDA_WAYS
};

struct cuda_batch {
	struct cuda_case cases[CUDA_BATCH_MOST];
	int n, grouped;
	enum cuda_way way;
	int capture_mode; /* an enum cudaStreamCaptureMode */
	cudaStream_t stream;
	/* While it is open: */
	struct cuda_bench *bench;
	struct cuda_run runs[CUDA_BATCH_MOST];
	cudaGraphExec_t exec; /* of CUDA_WAY_GRAPH */
	int opened, turns;
	char name[360];
};

/* The default stream, one that waits for it, and one that does not. */
int cuda_batch_streams(struct cuda_world *world, cudaStream_t *streams);

/*
 * Runs and checks a batch; resets the bench's arenas. Returns 0, even after wrong results, or an error with which the
 * communicator is done for (which is aborted then, so that nobody waits for this rank). Both are faults.
 */
int cuda_batch_run(struct cuda_bench *bench, struct cuda_batch *batch);

/* The same in steps. Each returns 0, or an error after a fault. */
/* Takes memory; captures, too. */
int cuda_batch_open(struct cuda_bench *bench, struct cuda_batch *batch);
/* New inputs; nothing of the batch may be in flight. */
int cuda_batch_fill(struct cuda_batch *batch);
/* The calls or the replay, on batch->stream. */
int cuda_batch_start(struct cuda_batch *batch);
/* Waits and checks. */
int cuda_batch_finish(struct cuda_batch *batch);
void cuda_batch_close(struct cuda_batch *batch);

/* Any case at all of at most largest elements whose buffers fit into room, in memory of the given kinds. The same on every
 * rank for the same state, but for the memory. */
struct cuda_case cuda_case_draw(const struct cuda_world *world, uint64_t *state, size_t largest,
				unsigned int kinds, size_t room);

#endif
