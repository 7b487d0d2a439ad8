/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's record of a call, as other ranks read it: in windows, in messages between nodes, and where a failure names an earlier call. A journal is a
 * ring buffer of a rank's last records. One thread at a time writes it; any thread of any process may read it meanwhile, and gets a record whole or not at all.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "corale.h"

struct record {
	uint64_t number; /* of a collective, counted by communicator from 1; 0: none, or a send or receive */
	uint64_t signature, count;
	uint64_t
	    target; /* receive buffer: registration + 1 << 48 | offset; 0: none, or any. Of a reduce_scatter_v on GPUs: a hash of its counts */
	corale_coll coll;
	corale_type type;
	corale_op op;
	int32_t root; /* or the peer of a send or receive */
};

enum { JOURNAL_WORDS = sizeof(struct record) / 8 };

/* As op: the rank has refused the call. coll is CORALE_SEND for receives too, count says which of the rank's refusals it is, and all else is 0: ranks that refuse
 * the same collective agree. */
enum { RECORD_REFUSED = -1 };
/* As op: a collective that the MPI door left to MPI. target: the first letters of MPI's name; count: this rank's bytes, which need not agree. */
enum { RECORD_BY_MPI = -2 };

/* A cache line. */
struct journal_entry {
	_Atomic uint64_t key; /* by which readers look for the call, from 1; 0: being written */
	_Atomic uint64_t first; /* the key of the first call of its group */
	_Atomic uint64_t words[JOURNAL_WORDS];
};
_Static_assert(sizeof(struct record) % 8 == 0 && sizeof(struct journal_entry) == 64,
	       "an entry is a cache line");

/* n: entries of the journal; key uses entry key % n. */
void journal_write(struct journal_entry *journal, uint64_t n, uint64_t key, uint64_t first,
		   const struct record *record);

/* The key of the first call of that call's group; 0: the call has not been written yet, or a later one has its entry. */
uint64_t journal_read(struct journal_entry *journal, uint64_t n, uint64_t key, struct record *record);

/* Whether the call of a key has been written, or a later one in its entry. */
static inline int journal_has(const struct journal_entry *journal, uint64_t n, uint64_t key)
{
	return atomic_load_explicit(&((struct journal_entry *)(uintptr_t)journal)[key % n].key,
				    memory_order_acquire) >= key;
}

#endif
