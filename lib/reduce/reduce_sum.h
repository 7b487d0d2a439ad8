/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of float32, float16 and bfloat16, where every input and the result are of one type: the fast path of
 * reduce_fold, once per level of vector instructions. All levels give the same bits.
 */
#ifndef REDUCE_SUM_H
#define REDUCE_SUM_H

#include <stddef.h>

#include "corale.h"
#include "reduce.h"

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
