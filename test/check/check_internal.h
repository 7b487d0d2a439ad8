/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the checker; see check.h. All sizes are small: the machine that it runs is imaginary. */
#ifndef CHECK_INTERNAL_H
#define CHECK_INTERNAL_H

#include "check.h"
#include "plan/plan_eval.h"
#include "examples/plans/plan_queue.h"

/* ---- check_fold.c: who contributed to an element, in which order ------------ */

struct fold_node {
	int first, children; /* in fold_table.children; a leaf has none */
	int rank; /* of a leaf, else -1 */
	int contributors;
	int final;
};

struct fold_table {
	int ranks, words;
	struct fold_node *nodes;
	uint64_t *masks; /* words per node: its contributors */
	int count;
	size_t capacity;
	int *children;
	int nchildren;
	size_t children_capacity;
	int *buckets; /* hash of what a node is made of -> node + 1 */
	int nbuckets;
};

int fold_open(struct fold_table *table, int ranks); /* nodes 0 .. ranks - 1 are the leaves */
void fold_close(struct fold_table *table);
enum { FOLD_TWICE = -1, FOLD_FINISHED = -2, FOLD_NOMEM = -3 };
/* The node that folds these in this order (two operands: in either); or FOLD_TWICE (a contributor twice),
 * FOLD_FINISHED (an operand is finished), FOLD_NOMEM. */
int fold_make(struct fold_table *table, const int *operands, int n, int final);
int fold_is_complete(const struct fold_table *table, int node);
int fold_in_rank_order(const struct fold_table *table, int node); /* one left fold of ranks 0, 1, ... */

/* ---- What an element holds --------------------------------------------------- */

/* An element is one word: a fold node + 1, and its index in the contributors' send buffers; 0: nothing. */

static inline uint64_t value_make(int node, size_t element)
{
	return (uint64_t)(unsigned)(node + 1) << 32 | (uint32_t)element;
}

static inline int value_node(uint64_t value)
{
	return (int)(value >> 32) - 1;
}

static inline size_t value_element(uint64_t value)
{
	return (uint32_t)value;
}

/* ---- The machine: check_world.c, check_memory.c, check_act.c, check.c ------------- */

struct cell {
	uint64_t value;
	struct stamp write;
	int held; /* the youngest stable span + 1 that it is in */
	uint8_t written, touched; /* in this call */
	uint8_t completed; /* times that its final value was written */
};

struct stable_span {
	size_t first, count; /* cells */
	struct message *message;
	int older; /* the span + 1 that all its cells were in before */
};

struct context { /* one program of one channel of one rank */
	int index, rank, channel, program;
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action action;
	int has_action, done, time;
	int *clock;
};

struct rank {
	const struct plan *plan; /* of the current call; NULL: takes no part */
	int call, done;
	int ncontexts, running; /* contexts; channels begun */
	struct context *contexts;
	struct cell *cells;
	int *read_times; /* [context * cells + cell] */
	size_t ncells, send_at, recv_at, scratch_at, scratch_per_channel;
	size_t send_count, recv_count;
	size_t *counts; /* of a v-form; else NULL */
	const size_t *arrays[4]; /* in counts: as plan_env_uneven takes them */
	size_t own; /* elements of its own block, where it sends or receives one */
	int *clock; /* of what it knew when the call began */
	struct stable_span *stable;
	int nstable;
	size_t stable_capacity;
	int tangled; /* spans overlap otherwise than one exactly on or in an older one: look at them all */
	long steps, elements_sent;
};

struct world {
	const struct plan_map *map;
	const struct check_options *options;
	const struct plan *const *plans; /* by call */
	const struct plan *send, *recv; /* of an edge instead, with its ends */
	int calls, from, to;
	struct rank *ranks;
	int max_contexts, nclock; /* contexts a rank has at most; length of clocks, 0: none kept */
	struct fold_table folds;
	struct queue_table queues;
	uint64_t **expected; /* [call]: by element, what the first rank to finish got */
	uint64_t random;
	int in_rank_order;
	uint64_t *values; /* work space for one action: sources * count */
	size_t values_capacity;
	char *error;
	size_t error_bytes;
};

/* Writes the violation and returns CORALE_EINTERNAL. c may be NULL. */
int world_fail(struct world *world, const struct context *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int world_open(struct world *world);
void world_close(struct world *world);
/* Elements that a sends to b, or a's or b's block where that is what is uneven. */
size_t world_block(const struct world *world, int coll, int a, int b);
/* Prepares a rank's next call, or marks it done. */
int world_begin_call(struct world *world, struct rank *rank);
/* Compares what the call left in the receive buffer with what it should be. */
int world_verify(struct world *world, const struct rank *rank);

int memory_read(struct world *world, struct context *c, const struct plan_location *place, size_t count,
		uint64_t *values);
int memory_write(struct world *world, struct context *c, const struct plan_location *place, size_t count,
		 const uint64_t *values);
/* Remembers that the cells of place must stay as they are until the message was read. */
int memory_hold(struct world *world, struct context *c, const struct plan_location *place, size_t count,
		struct message *message);

/* Runs the context's action: 1 done, 0 blocked, negative: a violation (reported). */
int action_run(struct world *world, struct context *c);
/* What a blocked context waits for. */
void action_describe(struct world *world, const struct context *c, char *text, size_t bytes);

#endif
