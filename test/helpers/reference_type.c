/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference's own sizes, formats and conversions of element types. */
#include <math.h>
#include <string.h>

#include "reference_type.h"

static const struct reference_type types[] = {
	[CORALE_INT8] = { .bytes = 1, .is_signed = 1 },
	[CORALE_UINT8] = { .bytes = 1 },
	[CORALE_INT32] = { .bytes = 4, .is_signed = 1 },
	[CORALE_UINT32] = { .bytes = 4 },
	[CORALE_INT64] = { .bytes = 8, .is_signed = 1 },
	[CORALE_UINT64] = { .bytes = 8 },
	[CORALE_FLOAT16] = { .bytes = 2, .digits = 11, .min_exponent = -14, .max = 65504, .infinities = 1 },
	[CORALE_BFLOAT16] = { .bytes = 2,
			      .digits = 8,
			      .min_exponent = -126,
			      .max = 0x1.fep127,
			      .infinities = 1 },
	[CORALE_FLOAT32] = { .bytes = 4,
			     .digits = 24,
			     .min_exponent = -126,
			     .max = 0x1.fffffep127,
			     .infinities = 1 },
	[CORALE_FLOAT64] = { .bytes = 8,
			     .digits = 53,
			     .min_exponent = -1022,
			     .max = 0x1.fffffffffffffp1023,
			     .infinities = 1 },
	[CORALE_FLOAT8_E4M3] = { .bytes = 1, .digits = 4, .min_exponent = -6, .max = 448, .saturates = 1 },
	[CORALE_FLOAT8_E5M2] = { .bytes = 1,
				 .digits = 3,
				 .min_exponent = -14,
				 .max = 57344,
				 .saturates = 1,
				 .infinities = 1 },
	[CORALE_INT16] = { .bytes = 2, .is_signed = 1 },
	[CORALE_UINT16] = { .bytes = 2 },
	[CORALE_BOOL] = { .bytes = 1, .is_bool = 1 },
	/* bytes alone: reference.c takes them as their parts, or as integers */
	[CORALE_COMPLEX64] = { .bytes = 8 },
	[CORALE_COMPLEX128] = { .bytes = 16 },
	[CORALE_PAIR_FLOAT32] = { .bytes = 8 },
	[CORALE_PAIR_FLOAT64] = { .bytes = 16 },
	[CORALE_PAIR_INT64] = { .bytes = 16 },
	[CORALE_PAIR_INT32] = { .bytes = 8 },
	[CORALE_PAIR_INT16] = { .bytes = 8 },
};

_Static_assert(sizeof(types) / sizeof(*types) == CORALE_NUM_TYPES, "a row for each type");

const struct reference_type *reference_type(corale_type type)
{
	return &types[type];
}

/* Bits of a non-negative finite number that the format holds exactly. */
static uint32_t pack(const struct reference_type *t, double a)
{
	int stored = t->digits - 1, exponent;
	if (a < ldexp(1, t->min_exponent))
		return (uint32_t)ldexp(a, stored - t->min_exponent);
	frexp(a, &exponent);
	uint32_t fraction = (uint32_t)ldexp(a, stored - (exponent - 1)) - (1u << stored);
	return (uint32_t)(exponent - t->min_exponent) << stored | fraction;
}

static uint32_t encode_narrow(const struct reference_type *t, double value)
{
	int width = t->bytes * 8, stored = t->digits - 1, exponent;
	uint32_t sign = signbit(value) ? 1u << (width - 1) : 0, top = (1u << (width - 1)) - 1;
	uint32_t infinity = (top >> stored) << stored;
	double a = fabs(value);
	if (isnan(value))
		return t->infinities ? infinity | 1u << (stored - 1) : top;
	if (a == 0)
		return sign;
	frexp(a, &exponent);
	int last = (exponent - 1 > t->min_exponent ? exponent - 1 : t->min_exponent) - stored;
	a = isinf(a) ? a : ldexp(nearbyint(ldexp(a, -last)), last);
	if (a > t->max)
		return sign | (t->saturates && !isinf(value) ? pack(t, t->max) : infinity);
	return sign | pack(t, a);
}

static double decode_narrow(const struct reference_type *t, uint32_t bits)
{
	int width = t->bytes * 8, stored = t->digits - 1;
	uint32_t top = (1u << (width - 1)) - 1, magnitude = bits & top, field = magnitude >> stored;
	uint32_t fraction = magnitude & ((1u << stored) - 1);
	double a;
	if (t->infinities && field == top >> stored)
		a = fraction ? NAN : INFINITY;
	else if (!t->infinities && magnitude == top)
		a = NAN;
	else if (field == 0)
		a = ldexp(fraction, t->min_exponent - stored);
	else
		a = ldexp(fraction + (1u << stored), t->min_exponent - stored + (int)field - 1);
	return bits >> (width - 1) ? -a : a;
}

void reference_encode(corale_type type, const double *values, size_t n, void *buf)
{
	const struct reference_type *t = &types[type];
	unsigned char *out = buf;
	if (type == CORALE_FLOAT64) {
		memcpy(buf, values, n * sizeof(*values));
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (type == CORALE_FLOAT32) {
			float f = (float)values[i];
			memcpy(out + 4 * i, &f, 4);
		} else {
			uint32_t bits = encode_narrow(t, values[i]);
			out[(size_t)t->bytes * i] = (unsigned char)bits;
			if (t->bytes == 2)
				out[2 * i + 1] = (unsigned char)(bits >> 8);
		}
	}
}

void reference_decode(corale_type type, const void *buf, size_t n, double *values)
{
	const struct reference_type *t = &types[type];
	const unsigned char *in = buf;
	if (type == CORALE_FLOAT64) {
		memcpy(values, buf, n * sizeof(*values));
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (type == CORALE_FLOAT32) {
			float f;
			memcpy(&f, in + 4 * i, 4);
			values[i] = f;
		} else {
			uint32_t bits = in[(size_t)t->bytes * i];
			bits |= t->bytes == 2 ? (uint32_t)in[2 * i + 1] << 8 : 0;
			values[i] = decode_narrow(t, bits);
		}
	}
}
