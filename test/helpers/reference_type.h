/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types as the reference sees them: sizes, formats and conversions, independent of the library's. */
#ifndef REFERENCE_TYPE_H
#define REFERENCE_TYPE_H

#include <stddef.h>
#include <stdint.h>

#include "corale.h"

struct reference_type {
	int bytes;
	int digits; /* floats: bits of the significand with the hidden one; 0: an integer */
	int is_signed, is_bool;
	int min_exponent; /* floats: of the smallest normal number 2^min_exponent */
	double max; /* floats: the largest finite number */
	int saturates; /* floats: overflow gives max, not infinity */
	int infinities;
};

const struct reference_type *reference_type(corale_type type);

/* n float elements of a type to and from doubles, rounding to nearest, ties to even. */
void reference_encode(corale_type type, const double *values, size_t n, void *buf);
void reference_decode(corale_type type, const void *buf, size_t n, double *values);

#endif
