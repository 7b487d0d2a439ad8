/*
 * One use of a collective, a send or a receive by one rank, from the public function to the engine that runs it: what other ranks are told of it, and
 * what they are not.
 */
#ifndef CALL_H
#define CALL_H

#include "base/collectives.h"
#include "journal.h"

struct shared_plan;

/* What an engine of GPUs has found of a call, asking once. */
struct admission {
	uint64_t capture; /* that its stream is in; 0: none */
	int plain; /* its buffers in ordinary host memory, which no kernel can read, a bit each */
};

struct call {
	struct record record; /* op is as the caller gave it */
	const void *send;
	void *recv;
	const size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* all_to_all_v */
	struct shared_plan *plan; /* of a persistent plan, else NULL */
	uint64_t
	    scalar; /* of a premultiplied sum, when the call was made; the element's bits come first in memory */
	const void *scalar_at; /* in memory of a GPU, whose kernel reads it; NULL: it is scalar */
	struct admission admission; /* on a GPU, by gpu_admit */
	uint32_t number; /* on a GPU: the key of its journal, for what fails */
};

/* Of a block or vector; of blocks that are uneven 0. */
static inline uint64_t call_bytes(const struct call *call)
{
	return coll_is_uneven(call->record.coll) ? 0
						 : call->record.count * corale_type_bytes(call->record.type);
}

static inline int call_is_pair(const struct call *call)
{
	return coll_table[call->record.coll].pair;
}

#endif
