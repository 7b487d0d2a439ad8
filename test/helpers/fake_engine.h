/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine without a GPU, in place of lib/cuda's: communicators of CORALE_DEVICE_CUDA come up by it, of one node or several, and calls are
 * counted instead of run. What the engine would refuse is what a stream says.
 */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/remote.h"

enum { FAKE_ENGINE_RANKS = 4 }; /* whose edges are kept */

/* What is given as the stream of a call. */
struct fake_stream {
	int refuses; /* CORALE_E*: nothing can be enqueued on it; 0: it takes calls */
	int fails; /* CORALE_E*: what is admitted can't be enqueued after all; 0: it can */
	uint64_t capture; /* that it is in; 0: none */
	int waits; /* the kernels of calls on it wait for all ranks of the node, for ever */
	atomic_int calls, joins; /* enqueued on it */
	int lowered; /* the last call of a collective runs by its plan, not by a codelet */
	uint64_t signature; /* of that call, */
	uint64_t bytes; /* of a block of its launch, */
	int coll; /* its collective, */
	size_t edges
	    [4]
	    [FAKE_ENGINE_RANKS]; /* and its counts and displacements, as plan_env_uneven has them; of calls of one count by root: that of the last
						one, and the address that it sends from */
};

#define FAKE_ENGINE_PCI "0000:13:00.0"

/* Of all engines: kernels do not start, as on a GPU that other work fills; the GPU needs reading back (engine_slab.reads_back). */
extern int fake_engine_has_late_kernels, fake_engine_reads_back;

/* Of engines opened from now on: blocks of a kernel, where the communicator has no lower limit; the first byte of the GPU's UUID, for
 * all or for those of this thread, 0: each rank of a communicator has one of its own. Of all engines: what connect fails with on rank 0, 0: it succeeds. */
extern _Atomic int fake_engine_connect_fails;
extern int fake_engine_blocks, fake_engine_gpu;
extern _Thread_local int fake_engine_own_gpu;

/* What rank 0 stores at this local rank arrives as something else, FAKE_ENGINE_ALL: what any stores at any; 0: all arrives. Trials of engines so far. What is
 * between GPUs, an enum engine_link. */
enum { FAKE_ENGINE_ALL = -1 };
extern int fake_engine_lies_to, fake_engine_link;
extern _Atomic int fake_engine_trials;

/* Memory that outlives its engines. */
extern _Atomic int fake_engine_kept;

struct engine;

/* As kernels reach it. */
struct remote fake_engine_remote(const struct engine *engine);

#endif
