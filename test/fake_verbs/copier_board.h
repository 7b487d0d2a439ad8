/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What adapters and the process that copies GPU memory for them (test/fake_verbs/fake_copier.c) say to each other. An adapter sends messages through a Unix
 * socket, each with a descriptor, and gets an answer to each; its copies it posts in memory that both have mapped.
 */
#ifndef FAKE_VERBS_COPIER_BOARD_H
#define FAKE_VERBS_COPIER_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

enum { COPIER_POSTS = 64, COPIER_STAGED_BYTES = 1 << 20 };

/* In place of a key: the memory of the board itself, whose addresses begin with 0. */
static const uint32_t copier_staged = UINT32_MAX;

/* Registered memory of an adapter, by the address that it was registered with. */
struct copier_place {
	uint32_t lid, key;
	uint64_t address;
};

struct copier_copy {
	struct copier_place from, to;
	uint64_t bytes; /* 0: nothing is copied, but the answer is whether `to` is known */
	int is_unknown; /* the answer: a place is not registered */
};

/* Copies end in the order in which they were posted. */
struct copier_board {
	_Atomic uint64_t posted, done;
	struct copier_copy copies[COPIER_POSTS];
	unsigned char staged[COPIER_STAGED_BYTES];
};

enum copier_kind { COPIER_JOIN, COPIER_REGISTER, COPIER_FORGET };

/*
 * JOIN: the descriptor is the board's. REGISTER: that of the allocation of a GPU, of `allocated` bytes, which has the memory from `offset` on; peers
 * name its first byte by `address`. The answer is an int32_t: an errno.
 */
struct copier_message {
	uint32_t kind, lid, key;
	int32_t device;
	uint64_t address, allocated, offset, bytes;
};

#endif
