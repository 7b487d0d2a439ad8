/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on emulated GPUs: their windows, states and engines, as lib/cuda/engine_cuda_open.c makes them on real ones. */
#ifndef WORLD_H
#define WORLD_H

#include "cuda/engine.h"
#include "cuda/codelet/cuda_codelet.h"
#include "exports.h"
#include "gpu.h"
#include "plan/choose/planner.h"

struct world_params {
	int ranks, max_blocks;
	size_t window_bytes; /* about */
	uint64_t first_epoch; /* before the first call */
	uint64_t first_message; /* the same of each pair of ranks: so many they have had, all in lines */
	uint64_t timeout_ns; /* 0: never */
	int holds; /* a kernel that has failed keeps its stream until world_release */
	size_t registered_bytes; /* of each rank's memory that the others may store into: region 0 */
	size_t scratch_chunk; /* bytes; 0: there is no scratch (region 1) */
	int torn_lines; /* a link on which only words of 8 bytes arrive whole */
	int words_only; /* what engines know of it */
	const int *nodes; /* ranks of each node, then a 0; NULL: all ranks reach each other's memory */
	uint32_t remote_slot; /* bytes of a message between nodes at most */
	unsigned slab_rails; /* a bit each: slots between nodes lie in a slab there, not in pinned memory */
	int edges_at_once; /* of an all_to_all's launch; 0: as many as a real one has */
	size_t chunk_bytes; /* CORALE_CHUNK_BYTES */
	enum exports_kind exports; /* of the buffers of calls that are zero-copy */
	int read_blocks; /* of calls whose buffers are read, at most; 0: as many as real ones have */
	unsigned lists_ranks; /* a bit each: teams of warps run no lists of messages there */
	int exports_apart; /* others have them at other addresses, where they can only read */
};

struct world {
	int ranks;
	enum exports_kind exports;
	struct codelet_layout layout;
	unsigned char *windows;
	struct engine *engines; /* by rank */
	unsigned char **regions; /* a row of all ranks a region */
	struct gpu_event *events; /* two of each rank */
	unsigned char **registered, **scratch; /* by rank, or NULL */
	struct gpu_machine machine;
	struct topo *topo;
	struct planner planner,
	    single_channel; /* single_channel: of plans on one channel, in slots of half the size */
	struct nodes *nodes; /* NULL: one */
};

extern int world_in_host; /* windows of worlds that are opened from now on lie in host memory */
extern int
    world_forced; /* enum plan_protocol: what CORALE_PROTO names in worlds that are opened from now on; 0: none */

/* 0 or CORALE_ENOMEM. Of several nodes: without registered memory and scratch. */
int world_open(struct world *world, const struct world_params *params);
void world_close(struct world *world);

/* The plan of a row of the algorithm table for a key, and its list on a rank. 0, or CORALE_ENOTSUP: it has none. */
int world_plan(struct world *world, const struct plan_key *key, int row, int single_channel, int rank,
	       int root, struct plan *plan, int *list, struct lowered_messages *messages);

/* gpu_run of its ranks, each beside its proxy, if it has one. */
int world_run(struct world *world, void (*host)(int rank, void *arg), void *arg, uint64_t seed);

/* Of a run, against what proxies owe to the wire: printed. */
int world_faults(const struct world *world);

/* A send to a rank, or a receive from it: of whole elements. */
struct call world_send(int to, const void *data, uint64_t bytes, corale_type type);
struct call world_receive(int from, void *data, uint64_t bytes, corale_type type);

/* What a rank calls another one. */
int world_place(const struct world *world, int rank, int other);

/* From now on the handle names another stream. */
void world_new_stream(void *stream);

/* What a copy engine does. */
struct world_copy {
	unsigned char *to;
	const unsigned char *from;
	size_t bytes;
};

/* 0: the launch is a kernel. */
int world_copied(const struct gpu_launched *launched, struct world_copy *copy);

/* Ends the waits of a rank's kernels, as the engine's abort does. Any host. */
void world_abort(struct world *world, int rank, int code);
void world_quit(struct world *world, int rank, int code);
void world_release(struct world *world, int rank);

#endif
