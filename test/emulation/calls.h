/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on emulated GPUs, every element of their results checked against the host's folds in the order of the ranks. */
#ifndef CALLS_H
#define CALLS_H

#include "test/plan/codelet_kind.h"
#include "world.h"
#include "test/helpers/row_find.h"

enum { CALL_AT_FRONT = 2 }; /* in place: a reduce_scatter's result goes to the front of what it sends */

struct test_call {
	const struct codelet *codelet; /* NULL: that of this row, lowered */
	int row; /* of the algorithm table */
	int single_channel; /* between nodes that plan uses connections of one channel */
	corale_coll coll;
	corale_type type;
	int op; /* corale_op, or CORALE_NUM_OPS: a premultiplied sum */
	int scalar_changes; /* of a premultiplied sum: it lies in memory, which holds it only while the kernel runs */
	size_t
	    count; /* elements of a block or vector; of an edge of all_to_all_v, or a block of reduce_scatter_v, about */
	size_t rounds; /* of a reduce_scatter_v; 0 is 1 */
	size_t astray; /* so many elements more of rank 0 awaits rank 1 in an all_to_all_v; 1 at most */
	int root;
	unsigned send_shift, recv_shift; /* bytes behind an address that is a multiple of 128 */
	int alone; /* rank + 1: the shifts and what is in place are so there only; 0: everywhere */
	int in_place, scratch; /* scratch: through it, if the world has any */
	int zero_copy; /* as far as the buffers are mapped, in a world with exports */
	int in_lines; /* a lowered plan, where it can: by lines, or by words of 8 bytes */
	size_t
	    place; /* of the receive buffer in registered memory, with what call_room says; 0: it is not registered */
	uint64_t seed;
	uint32_t number; /* the host's */
};

/* A call as most are: by a codelet, or by the plan of a row of that name, lowered. */
static inline struct test_call call_by(const struct codelet *codelet, corale_coll coll, corale_type type,
				       size_t count)
{
	return (struct test_call){ .codelet = codelet, .coll = coll, .type = type, .count = count };
}
static inline struct test_call call_lowered(corale_coll coll, const char *row, corale_type type, size_t count)
{
	return (struct test_call){ .row = row_find(coll, row), .coll = coll, .type = type, .count = count };
}

/* A call of one rank, from its start until it has been checked. */
struct started {
	const struct test_call *call;
	int rank, ranks;
	const struct plan_map *map;
	struct plan plan;
	struct lowered_messages messages;
	uint64_t scalar, scalars[2]; /* as the kernel finds it; for the call, and behind it */
	unsigned char *send_memory, *recv_memory, *send, *recv;
	size_t send_counts[GPU_MAX_HOSTS], send_displs[GPU_MAX_HOSTS]; /* of all_to_all_v */
	size_t recv_counts[GPU_MAX_HOSTS], recv_displs[GPU_MAX_HOSTS];
};

/* Bytes that a call's receive buffer needs in registered memory: the most of all ranks. */
size_t call_room(const struct test_call *call, int ranks);

/* Over windows in host memory: by few blocks, or lowered. */
int call_runs_in_host(const struct test_call *call);

/* Bits of the call that all ranks must share. */
uint64_t call_signature(const struct test_call *call);

/* Fills the buffers of a call. */
void call_fill(struct started *s, struct world *world, int rank, const struct test_call *call);

/* Fills buffers and enqueues the call; 0 or what the engine says. */
int call_start(struct started *s, struct world *world, int rank, const struct test_call *call,
	       uint64_t signature);
/* The same on another stream than the rank's first one. */
int call_start_on(struct started *s, struct world *world, int rank, const struct test_call *call,
		  uint64_t signature, void *stream);

/* After its end: the number of faults, the first of which are printed. Frees the buffers. */
int call_finish(struct started *s);

/* Frees them without a look. */
void call_drop(struct started *s);

#endif
