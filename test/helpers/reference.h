/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expected results, computed without the library: every element that a rank contributes is a function of
 * (seed, rank, index), so anyone can say what any rank must hold, and no test moves data to check data.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "corale.h"

enum { REFERENCE_COPY = -1 }; /* op of the collectives that only move bytes: all bit patterns occur */

enum reference_data {
	REFERENCE_EXACT, /* every partial result is representable: results compare by their bits. Integers wrap. */
	REFERENCE_RANDOM, /* all bits of the significand in use: float results compare within a rounding bound */
	REFERENCE_SPECIAL /* NaN, infinities, zeros of both signs, for min and max also the ends of the range; exact for
			     at most 8 ranks */
};

struct reference {
	corale_type type;
	corale_op op; /* a built-in operator, CORALE_NUM_OPS for a premultiplied sum, or REFERENCE_COPY */
	int ranks;
	enum reference_data data;
	uint64_t seed;
};

struct reference_fault {
	size_t index;
	char got[40], expected[40];
};

/* Elements [first, first + count) of what rank contributes. buf may have any alignment. */
void reference_fill(const struct reference *ref, int rank, size_t first, size_t count, void *buf);

/* The scalar by which rank multiplies in a premultiplied sum: one element of the type (8 bytes always suffice). */
void reference_scalar(const struct reference *ref, int rank, void *scalar);

/* How many of buf's elements differ from the source rank's elements [first, first + count); the first of them in
 * fault, which may be NULL. */
size_t reference_check_copy(const struct reference *ref, int source, size_t first, size_t count,
			    const void *buf, struct reference_fault *fault);

/* The same against the fold of all ranks' elements [first, first + count). */
size_t reference_check_fold(const struct reference *ref, size_t first, size_t count, const void *buf,
			    struct reference_fault *fault);

/* A digest of bytes, to compare results across ranks. */
uint64_t reference_digest(const void *buf, size_t bytes);

#endif
