/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folding on the host: the reference for every kernel. The rules of P2 in one place: one fixed order (the order of
 * the sources), 8- and 16-bit floats in float32 with one rounding at the end, no fused multiply-add, canonical NaN,
 * -0 < +0 in min and max (which keep NaN), float8 saturates, integers wrap, avg of integers truncates toward zero
 * after the sum has wrapped. The rounding mode and flush-to-zero of the calling thread change nothing (base/float_env.h).
 *
 * Canonical NaNs have all bits but the sign set (0x7fffffff, 0x7fff, 0x7f, ...), as GPUs' conversions make them.
 * Saturating includes infinities: an operator's float8 result is finite or NaN. Copies keep all bits: one input,
 * nothing to convert, to multiply or to divide.
 */
#ifndef REDUCE_H
#define REDUCE_H

#include <stddef.h>

#include "corale.h"

enum { REDUCE_MAX_SOURCES = 1024 };

struct reduce_spec {
	corale_type type;
	corale_op op; /* a built-in operator, or CORALE_NUM_OPS for premultiplied sum */
	int ranks; /* divisor of avg */
	unsigned char scalar[8]; /* premultiplied sum: this rank's scalar, of type */
};

enum reduce_source {
	REDUCE_LOCAL,
	REDUCE_SEND /* the caller's send buffer: multiplied by the scalar */
};

struct reduce_input {
	const void *data;
	int kind; /* enum reduce_source */
};

/*
 * dst = fold of the k inputs in their order count elements. final: divide for avg. dst may equal any one input's data exactly,
 * or begin before that of a single one, but overlap none otherwise. Any alignment of every pointer.
 */
void reduce_fold(const struct reduce_spec *spec, void *dst, const struct reduce_input *inputs, int k,
		 size_t count, int final);

/* Inputs at equal distances in a circle of cells. */
struct reduce_cells {
	const void *data; /* of the first cell */
	size_t bytes; /* of a cell */
	int cells; /* of the circle */
	int first, folded; /* the cell of the first input, and how many inputs there are */
	int kind; /* enum reduce_source, of all */
};

/* The same of any number of inputs that lie so: bit for bit what reduce_fold makes of them. dst overlaps none of them. */
void reduce_fold_cells(const struct reduce_spec *spec, void *dst, const struct reduce_cells *cells,
		       size_t count, int final);

/*
 * Sums of float32, float16 and bfloat16, where every input and the result are of one type: the fast path of
 * reduce_fold, once per level of vector instructions. All levels give the same bits.
 */

enum reduce_level { REDUCE_BASELINE, REDUCE_AVX2, REDUCE_AVX512 };

/* The best level of this processor. */
enum reduce_level reduce_level(void);

/* True if reduce_sum knows the type. */
int reduce_sum_has(corale_type type);

/*
 * dst = ((inputs[0] + inputs[1]) + ...) / divisor (0: no division), rounded once. Any alignment; dst may be
 * one of the inputs. level: at most reduce_level().
 */
void reduce_sum(enum reduce_level level, corale_type type, void *dst, const struct reduce_input *inputs,
		int k, size_t count, float divisor);

#endif
