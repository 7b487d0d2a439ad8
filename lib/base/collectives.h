/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives: one table row each, read by all who ask what a call's buffers hold, what it folds, and what must agree.
 * coll in what follows: a corale_coll.
 */
#ifndef COLLECTIVES_H
#define COLLECTIVES_H

#include <stddef.h>
#include <stdint.h>

#include "corale.h"

/* What a buffer holds, in blocks of the call's count. */
enum coll_blocks {
	COLL_NONE,
	COLL_ONE,
	COLL_EACH, /* one for each rank, in rank order */
	COLL_UNEVEN /* for each rank its own count and place */
};

struct collective {
	const char *name;
	uint8_t send, recv; /* enum coll_blocks */
	uint8_t folds; /* else every element stays as it is */
	uint8_t rooted; /* call.root is a rank that all name alike */
	uint8_t pair; /* one end of a message, whose other end is call.root */
	uint8_t root_sends, root_receives; /* only the root has that buffer */
	uint8_t counts_agree; /* blocks are uneven, and all ranks pass the same counts */
};

extern const struct collective coll_table[CORALE_NUM_COLLS];

static inline int coll_folds(int coll)
{
	return coll_table[coll].folds;
}

static inline int coll_is_rooted(int coll)
{
	return coll_table[coll].rooted;
}

static inline int coll_is_pair(int coll)
{
	return coll_table[coll].pair;
}

static inline int coll_is_uneven(int coll)
{
	return coll_table[coll].send == COLL_UNEVEN || coll_table[coll].recv == COLL_UNEVEN;
}

/* Whether there are data at all. */
static inline int coll_has_data(int coll)
{
	return coll_table[coll].send != COLL_NONE || coll_table[coll].recv != COLL_NONE;
}

/* Whether all ranks know one count: that of every block, or the largest block's. */
static inline int coll_has_count(int coll)
{
	return coll_has_data(coll) && (!coll_is_uneven(coll) || coll_table[coll].counts_agree);
}

/* Whether the buffer has a block for each rank, so that blocks are found by rank. */
static inline int coll_sends_each(int coll)
{
	return coll_table[coll].send == COLL_EACH;
}

static inline int coll_receives_each(int coll)
{
	return coll_table[coll].recv == COLL_EACH;
}

/* Whether nothing is folded and no rank's blocks differ from rank to rank: what one rank sends, another receives, moved only. */
static inline int coll_moves(int coll)
{
	return !coll_folds(coll) && !coll_is_pair(coll) && coll_has_data(coll) && !coll_is_uneven(coll);
}

static inline size_t coll_blocks(uint8_t kind, int ranks)
{
	return kind == COLL_EACH ? (size_t)ranks : kind == COLL_ONE;
}

/* Blocks of count elements in a rank's send or recv buffer; 0 where it has none, or they are uneven. */
static inline size_t coll_send_blocks(int coll, int ranks, int rank, int root)
{
	const struct collective *c = &coll_table[coll];
	return c->root_sends && rank != root ? 0 : coll_blocks(c->send, ranks);
}

static inline size_t coll_recv_blocks(int coll, int ranks, int rank, int root)
{
	const struct collective *c = &coll_table[coll];
	return c->root_receives && rank != root ? 0 : coll_blocks(c->recv, ranks);
}

/*
 * In place the smaller buffer is a rank's own block of the larger one, and buffers of equal size are one buffer. The number of the block of the send (recv) buffer that lies on the other one's first.
 */
static inline size_t coll_send_own(int coll, int rank)
{
	return coll_table[coll].send == COLL_EACH && coll_table[coll].recv == COLL_ONE ? (size_t)rank : 0;
}

static inline size_t coll_recv_own(int coll, int rank)
{
	return coll_table[coll].recv == COLL_EACH && coll_table[coll].send == COLL_ONE ? (size_t)rank : 0;
}

/* Whether a rank in place receives into what it sends to others: with a block for each rank in both buffers. */
static inline int coll_overwrites(int coll)
{
	return (coll_sends_each(coll) && coll_receives_each(coll)) || coll == CORALE_ALL_TO_ALL_V;
}

/* Whether the result may go to the front of the send buffer instead, as in place of MPI: that of reduce_scatter and reduce_scatter_v. */
static inline int coll_folds_to_front(int coll)
{
	return coll_folds(coll) && (coll_sends_each(coll) || coll_is_uneven(coll));
}

/* A reduce_scatter_v. */
static inline int coll_folds_uneven(int coll)
{
	return coll_folds(coll) && coll_is_uneven(coll);
}

/* The same of a call: one that needs a copy of what it sends. own_at: where the rank's own block begins in its send buffer. */
static inline int coll_overwrites_in(int coll, const void *send, const void *recv, size_t own_at)
{
	return send == recv && (coll_overwrites(coll) || (coll_folds_to_front(coll) && own_at));
}

#endif
