/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine does with a codelet (plan/codelet/codelet.h): one struct cuda_codelet in a file of its name, lib/cuda/codelet/X.c. Its kernels and
 * their launchers are in kernels/.
 */
#ifndef CUDA_CODELET_H
#define CUDA_CODELET_H

#include "cuda/engine_cuda.h"

/* Whether a call in place overwrites data that it has yet to send. */
enum codelet_overwrites {
	CODELET_KEEPS_ORDER, /* no: packets leave an offset before others are stored there, or kernels wait for that */
	CODELET_OVERWRITES,
	CODELET_OVERWRITES_DIRECT, /* where messages go straight into registered memory: slots keep what comes until all is sent */
	CODELET_OVERWRITES_REMOTE /* over nodes: the window's slots hold data back until all is sent, connections to other nodes do not */
};

/* Written by position, so that a codelet that lacks a part does not compile. */
struct cuda_codelet {
	int (*load)(void); /* loads its kernels, so that no launch has to; 0 or a cudaError_t */
	/* Arguments that all calls of a launch share. */
	void (*fill)(const struct engine *e, struct gpu_launch *launch);
	enum codelet_overwrites overwrites;
	/* Patches the arguments by the call, and enqueues it. */
	int (*run)(struct engine *e, const struct call *call, const struct gpu_launch *launch,
		   cudaStream_t stream);
};

#define CODELET(name) extern const struct cuda_codelet cuda_##name;
#include "plan/codelet/codelets.def"
#undef CODELET

/* run.c */
int engine_run(struct engine *engine, const struct call *call, const struct gpu_launch *launch, void *stream);
int engine_run_messages(struct engine *engine, const struct call *messages, int n, void *stream);
void engine_prepare(const struct engine *engine, struct gpu_launch *launch);
/* Loads the kernels of all codelets; 0 or a cudaError_t. */
int engine_load_codelets(void);

/* p2p.c: sends and receives that start together. */
int p2p_run_messages(struct engine *engine, const struct call *messages, int n, cudaStream_t stream);

/* cuda_codelet.c. For fill: messages through slots, in scratch or in the window. */
void codelet_fill_slots(const struct engine *e, struct gpu_launch *launch);
/* For run: begins the launch, of blocks that count themselves; returns its arguments, with the registered memory into which a direct call stores. */
struct codelet_args codelet_begin(struct engine *e, const struct call *call, const struct gpu_launch *launch);

#endif
