/*
 * What a rank called, as others are told of it: in windows, in messages between nodes, and where a failure of long ago is to be named. A journal
 * is a ring of the last calls. One thread at a time writes it; any thread of any process reads it meanwhile, and gets a call whole or not at all.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "corale.h"

struct record {
	uint64_t
	    number; /* of a collective: its place among the communicator's, from 1; 0: none, or a send or receive */
	uint64_t signature, count;
	uint64_t
	    target; /* registration + 1 << 48 | offset of the receive buffer; 0: none, or it does not matter */
	corale_coll coll;
	corale_type type;
	corale_op op;
	int32_t root; /* or the peer of a send or receive */
};

enum { JOURNAL_WORDS = sizeof(struct record) / 8 };

/* A cache line. */
struct journal_entry {
	_Atomic uint64_t key; /* by which the call is looked for, from 1; 0: being written */
	_Atomic uint64_t first; /* the key of the first of those that started with it */
	_Atomic uint64_t words[JOURNAL_WORDS];
};
_Static_assert(sizeof(struct record) % 8 == 0 && sizeof(struct journal_entry) == 64,
	       "an entry is a cache line");

/* n: entries of the journal, of which each key has one. */
void journal_write(struct journal_entry *journal, uint64_t n, uint64_t key, uint64_t first,
		   const struct record *record);

/* The key of the first of those that started with the call; 0: the call has not been written, or no longer is there. */
uint64_t journal_read(struct journal_entry *journal, uint64_t n, uint64_t key, struct record *record);

/* 1 if the call of a key, or one so much later that it has its entry, has been written. */
static inline int journal_has(const struct journal_entry *journal, uint64_t n, uint64_t key)
{
	return atomic_load_explicit(&((struct journal_entry *)(uintptr_t)journal)[key % n].key,
				    memory_order_acquire) >= key;
}

#endif
