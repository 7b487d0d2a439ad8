/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call on GPU buffers, from random inputs to a check of every element, of the bytes around the buffers and of
 * what must stay as it was. Cases of several runs may be in flight at once.
 */
#ifndef CUDA_CASE_H
#define CUDA_CASE_H

#include "cuda_memory.h"
#include "cuda_pool.h"

enum {
	CUDA_CASE_MOST_PIECES = 2 * CUDA_POOL_MOST_RANKS + 3,
	CUDA_CASE_GUARD = 256, /* bytes on either side of a buffer */
	CUDA_CASE_SHIFTS = 8 /* buffers miss the alignment by less elements than this */
};

/* What is called: a corale_coll, where SEND, RECV and NUM_COLLS are these. */
enum {
	CUDA_CASE_RING =
	    CORALE_SEND, /* a group: to rank + distance, from rank - distance; root is the distance */
	CUDA_CASE_EXCHANGE =
	    CORALE_RECV, /* a group: everybody with everybody, oneself too, counts of all sorts */
	CUDA_CASE_PAIRS = CORALE_NUM_COLLS, /* send and recv of two ranks without a group */
	CUDA_CASE_CALLS
};

struct cuda_case {
	int call;
	corale_type type;
	corale_op op; /* CORALE_NUM_OPS: premultiplied sum */
	size_t count;
	int root, in_place, misaligned;
	enum cuda_memory_kind send_kind, recv_kind;
	enum reference_data data;
	uint64_t seed; /* of misalignments, of counts and of where in the pools the inputs begin */
};

/* Where cases run. */
struct cuda_bench {
	struct cuda_world *world;
	corale_comm *comm;
	struct cuda_pools pools;
	struct cuda_arena arenas[CUDA_MEMORY_KINDS]; /* those with bytes are in use */
	unsigned char *staging; /* page-locked */
	cudaStream_t work; /* of fills and checks */
};

/* A stretch of elements of a buffer. */
struct cuda_piece {
	size_t at, count, first; /* first: index within the contribution */
	int source; /* rank, or CUDA_PIECE_FOLD, or CUDA_PIECE_ANY: not laid down */
};

enum { CUDA_PIECE_FOLD = -1, CUDA_PIECE_ANY = -2 };

struct cuda_layout {
	int n;
	size_t elements;
	struct cuda_piece pieces[CUDA_CASE_MOST_PIECES];
};

struct cuda_buffer {
	enum cuda_memory_kind kind;
	unsigned char *region; /* guard, buffer, guard */
	size_t lead, bytes; /* of the first guard, of the buffer */
};

struct cuda_run {
	struct cuda_case c;
	struct cuda_pool *pool;
	size_t start; /* in the pool */
	corale_op op;
	unsigned char *
	    scalars; /* of some premultiplied sums, in memory of the GPU: as the kernel finds it, and as a copy before the call makes it; NULL: none */
	corale_plan *plan; /* or NULL */
	struct cuda_layout inputs, outputs;
	struct cuda_buffer send, recv; /* in place: only the larger one has bytes */
	size_t counts[4][CUDA_POOL_MOST_RANKS]; /* sent, their displacements, received, their displacements */
};

int cuda_bench_open(struct cuda_world *world, struct cuda_bench *bench, uint64_t seed);
/* Opens arenas of the kinds of a mask, bytes each; collective. */
int cuda_bench_memory(struct cuda_bench *bench, unsigned int kinds, size_t bytes);
void cuda_bench_free(struct cuda_bench *bench);
/* Gives back what runs have taken; but what was taken up to the last cuda_bench_keep stays. */
void cuda_bench_reset(struct cuda_bench *bench);
void cuda_bench_keep(struct cuda_bench *bench);
void cuda_bench_forget(struct cuda_bench *bench); /* gives back what was kept, too */
void cuda_bench_close(struct cuda_bench *bench);

/* 0: the combination has no meaning, or its buffers are larger than bytes in all. */
int cuda_case_possible(const struct cuda_case *c, int ranks, size_t bytes);
/* Text that names a case. */
void cuda_case_name(const struct cuda_case *c, char *text, size_t bytes);

/* Takes memory, makes the operator (and with_plan: the plan). Returns 0, or a fault and what went wrong. */
int cuda_run_open(struct cuda_bench *bench, const struct cuda_case *c, int with_plan, struct cuda_run *run);
/* New inputs and poisoned outputs; the turn-th differ from all others. No call on the buffers may be in flight. */
int cuda_run_fill(struct cuda_bench *bench, struct cuda_run *run, int turn);
/* Makes the call. */
int cuda_run_issue(struct cuda_bench *bench, struct cuda_run *run, cudaStream_t stream);
/* Compares; nonzero with a fault if anything is wrong. The call must be complete. */
int cuda_run_check(struct cuda_bench *bench, struct cuda_run *run);
void cuda_run_close(struct cuda_bench *bench, struct cuda_run *run);

#endif
