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
};

/* The default stream, one that waits for it, and one that does not. */
int cuda_batch_streams(struct cuda_world *world, cudaStream_t *streams);

/*
 * Runs and checks a batch; resets the bench's arenas. Returns 0, even after wrong results, or an error with which the
 * communicator is done for. Both are faults.
 */
int cuda_batch_run(struct cuda_bench *bench, const struct cuda_batch *batch);

#endif
