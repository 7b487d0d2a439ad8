/*
 * Blocks of elements in the form in which they are reduced: float for float32 and narrower floats, double for
 * float64, 64-bit integers for integers. The generic path of reduce_fold is made of these.
 */
#ifndef REDUCE_BLOCK_H
#define REDUCE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "corale.h"

enum { REDUCE_BLOCK = 256 }; /* elements */

union reduce_block {
	float f[REDUCE_BLOCK];
	double d[REDUCE_BLOCK];
	uint64_t u[REDUCE_BLOCK]; /* signed integers sign-extended */
};

/* n <= REDUCE_BLOCK elements at any address, into or out of a block. Out of it integers wrap and floats are
 * rounded, with canonical NaNs. */
void reduce_load(corale_type type, union reduce_block *block, const void *data, size_t n);
void reduce_store(corale_type type, const union reduce_block *block, void *data, size_t n);

/* How elements of a type are computed with. */
enum reduce_arithmetic { REDUCE_FLOAT, REDUCE_DOUBLE, REDUCE_SIGNED, REDUCE_UNSIGNED, REDUCE_ARITHMETICS };
enum reduce_arithmetic reduce_arithmetic(corale_type type);

/* acc = acc op block; op: any but avg and premultiplied sum. */
void reduce_combine(enum reduce_arithmetic a, corale_op op, union reduce_block *acc,
		    const union reduce_block *block, size_t n);

/* acc = acc / divisor; integers toward zero. */
void reduce_divide(enum reduce_arithmetic a, union reduce_block *acc, int divisor, size_t n);

#endif
