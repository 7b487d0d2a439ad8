/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of elements in the form in which they are reduced: float for float32 and narrower floats, double for
 * float64, 64-bit integers for integers; complex numbers as their parts, pairs as values and indices. The generic path of reduce_fold is made of these.
 */
#ifndef REDUCE_BLOCK_H
#define REDUCE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "corale.h"

enum {
	REDUCE_BLOCK = 256,
	REDUCE_WIDE_BLOCK = REDUCE_BLOCK / 2
}; /* elements; of complex numbers and pairs */

struct reduce_pairs {
	union {
		double d[REDUCE_WIDE_BLOCK];
		int64_t i[REDUCE_WIDE_BLOCK];
	} value;
	int32_t index[REDUCE_WIDE_BLOCK];
};

union reduce_block {
	float f[REDUCE_BLOCK]; /* of complex numbers both parts, one behind the other */
	double d[REDUCE_BLOCK];
	uint64_t u[REDUCE_BLOCK]; /* signed integers sign-extended */
	struct reduce_pairs pairs;
};

/* The most elements of a type in a block. */
size_t reduce_block_length(corale_type type);

/* Up to so many elements at any address, into or out of a block. Out of it integers wrap and floats are
 * rounded, with canonical NaNs. */
void reduce_load(corale_type type, union reduce_block *block, const void *data, size_t n);
void reduce_store(corale_type type, const union reduce_block *block, void *data, size_t n);

/* How elements of a type are computed with. */
enum reduce_arithmetic {
	REDUCE_FLOAT,
	REDUCE_DOUBLE,
	REDUCE_SIGNED,
	REDUCE_UNSIGNED,
	REDUCE_COMPLEX_FLOAT,
	REDUCE_COMPLEX_DOUBLE,
	REDUCE_PAIR_DOUBLE,
	REDUCE_PAIR_INTEGER,
	REDUCE_ARITHMETICS
};
enum reduce_arithmetic reduce_arithmetic(corale_type type);

/* acc = acc op block; op: one that the type has, but avg and premultiplied sum; of complex numbers prod only. */
void reduce_combine(enum reduce_arithmetic a, corale_op op, union reduce_block *acc,
		    const union reduce_block *block, size_t n);

/* acc = acc / divisor; integers toward zero. Of neither complex numbers nor pairs. */
void reduce_divide(enum reduce_arithmetic a, union reduce_block *acc, int divisor, size_t n);

#endif
