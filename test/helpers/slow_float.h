/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The narrow float formats by search: a table of all their values, and rounding by looking for the nearest. Slow,
 * plain, and sharing nothing with lib/reduce/float_convert.h, which it tests.
 */
#ifndef SLOW_FLOAT_H
#define SLOW_FLOAT_H

#include <stdint.h>

#include "corale.h"

/* True for the 8- and 16-bit float types. */
int slow_is_narrow(corale_type type);
/* The value of bits. */
double slow_widen(corale_type type, uint32_t bits);
/* The bits of value rounded to nearest even: canonical NaN; float8 saturates. */
uint32_t slow_narrow(corale_type type, double value);
/* Bits of the largest finite number. */
uint32_t slow_largest(corale_type type);
uint32_t slow_nan(corale_type type);

#endif
