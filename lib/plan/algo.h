/*
 * Algorithms: one family a file (algo_*.c), one row each in the table of planner.c. Pure.
 */
#ifndef ALGO_H
#define ALGO_H

#include "corale.h"
#include "topo.h"

/* What a builder may look at: facts that all ranks share. */
struct algo_call {
	struct plan_key key;
	const struct topo *topo;
	size_t bytes; /* the size class's upper bound, of one block or vector */
	size_t wire_bytes; /* bytes of one element on the wire */
	uint8_t wire_type;
	uint32_t slot_bytes; /* the most that one message may carry */
	int slots; /* deepest ring */
	uint32_t chunk_bytes; /* forced chunk, or 0 */
	int max_channels;
	int reproducible; /* only algorithms that see all contributions at once may apply */
};

enum algo_traits {
	ALGO_ALL_AT_ONCE =
	    1, /* folds all contributions in rank order in one step: fit for CORALE_REPRODUCIBLE */
	ALGO_FLAT = 2, /* ignores nodes */
	ALGO_BY_COPIES = 4, /* some programs are for copy engines */
	ALGO_ON_GPUS = 8 /* of no use to hosts, whose memory is one */
};

struct algo {
	const char *name; /* "ring"; what CORALE_ALGO says */
	corale_coll coll;
	int traits;
	const char *source; /* where the algorithm is described */
	/* 1 if it can serve the call (key, number of ranks, nodes). */
	int (*applicable)(const struct algo_call *call);
	/* Appends programs to a plan that the planner has initialized (key, wire type, chunk, channels = 1). */
	void (*build)(const struct algo_call *call, struct plan *plan);
};

/* The table; *count rows. */
const struct algo *algo_table(int *count);

/* The row of a collective with that name, or -1. */
int algo_row(corale_coll coll, const char *name);

#endif
