/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One use of a collective, a send or a receive by one rank, from the public function to the engine that runs it. Its record is what other ranks read:
 * the rest stays in the process.
 */
#ifndef CALL_H
#define CALL_H

#include "collectives.h"
#include "journal.h"

struct shared_plan;

/* What the engine of a GPU has asked CUDA of a call, once. */
struct admission {
	uint64_t capture; /* that the call's stream is in; 0: none */
	int plain; /* a bit each: buffers in ordinary host memory or on another GPU, which no kernel can read */
};

struct call {
	struct record record; /* op is as the caller gave it */
	const void *send;
	void *recv;
	const size_t *send_counts, *send_displs, *recv_counts,
	    *recv_displs; /* v-forms; NULL: this rank has none */
	size_t own; /* elements of a v-form's block that this rank sends, or receives, of its own; else 0 */
	struct shared_plan *plan; /* of a persistent plan, else NULL */
	uint64_t scalar; /* of a premultiplied sum: the element's bits come first in memory */
	const void *scalar_at; /* memory of a GPU, from which its kernel reads the scalar; or NULL */
	struct admission admission; /* on a GPU: gpu_admit fills it */
	uint32_t number; /* on a GPU: the key of the record in its journal, which messages of failures name */
};

/* Bytes of a block or vector; 0 where blocks are uneven. */
static inline uint64_t call_bytes(const struct call *call)
{
	return coll_is_uneven(call->record.coll) ? 0
						 : call->record.count * corale_type_bytes(call->record.type);
}

/* Whether a rank's call receives into what it sends to others, so that it sends from a copy. */
static inline int call_overwrites(const struct call *call, int rank)
{
	return coll_overwrites_in(call->record.coll, call->send, call->recv,
				  call->send_displs ? call->send_displs[rank] : (size_t)rank);
}

static inline int call_is_pair(const struct call *call)
{
	return coll_table[call->record.coll].pair;
}

#endif
