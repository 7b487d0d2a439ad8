/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the stress test of CUDA communicators. */
#ifndef CUDA_STRESS_H
#define CUDA_STRESS_H

#include "cuda_batch.h"

enum { STRESS_STREAMS = 4, STRESS_ARENA = 96 << 20, STRESS_AGREE = 8 };

struct stress {
	struct cuda_world world;
	struct cuda_bench benches[2]; /* the second with a communicator of its own where a part wants one */
	cudaStream_t streams[STRESS_STREAMS];
	uint64_t seed, state; /* state: the same on all ranks */
	uint64_t own; /* this rank's alone */
	long calls; /* of the tiny parts */
	int words; /* of a call of a burst */
	double end; /* of the current part, on rank 0's clock */
	int broken;
};

/*
 * Collective: 1 if the part is over, because its time is or because a communicator is broken somewhere. All ranks hear
 * the same.
 */
int stress_over(struct stress *stress);

/* ---- Parts; cuda_stress_tiny.c ---- */

/* 8-byte all-reduces between a kernel that makes the input and one that checks, and random delays. */
void stress_tiny(struct stress *stress);
/* 8-byte all-reduces one behind the other, with delays here and there; all results are checked later. */
void stress_burst(struct stress *stress);
/* The same in a graph, replayed again and again. */
void stress_replayed(struct stress *stress);
/* Each call takes the result of the one before, on another stream. */
void stress_chain(struct stress *stress);
/* Two threads with a communicator each. */
void stress_threads(struct stress *stress);

/* ---- cuda_stress_mix.c ---- */

/* Random calls on several streams of one communicator. */
void stress_mix(struct stress *stress);
/* Two communicators on two streams at once. */
void stress_two(struct stress *stress);
/* Graphs in any order among each other, eager calls and another communicator's. */
void stress_graphs(struct stress *stress);
/* Graphs that outlive their communicator. */
void stress_outlived(struct stress *stress);

#endif
