/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds to the narrow float formats by a search through all their values. */
#include "slow_float.h"

#include <math.h>

struct format {
	int width, fraction, bias;
	uint32_t largest, nan; /* bits */
	uint32_t overflow; /* bits of what is beyond the largest */
};

static const struct format formats[CORALE_NUM_TYPES] = {
	[CORALE_FLOAT16] = { 16, 10, 15, 0x7bff, 0x7fff, 0x7c00 },
	[CORALE_BFLOAT16] = { 16, 7, 127, 0x7f7f, 0x7fff, 0x7f80 },
	[CORALE_FLOAT8_E4M3] = { 8, 3, 7, 0x7e, 0x7f, 0x7e },
	[CORALE_FLOAT8_E5M2] = { 8, 2, 15, 0x7b, 0x7f, 0x7b },
};

int slow_is_narrow(corale_type type)
{
	return formats[type].width != 0;
}

uint32_t slow_largest(corale_type type)
{
	return formats[type].largest;
}

uint32_t slow_nan(corale_type type)
{
	return formats[type].nan;
}

/* Of bits without sign, at most one step beyond the largest. */
static double magnitude_of(const struct format *f, uint32_t bits)
{
	uint32_t exponent = bits >> f->fraction, fraction = bits & ((1u << f->fraction) - 1);
	if (!exponent)
		return ldexp(fraction, 1 - f->bias - f->fraction);
	return ldexp(fraction + (1u << f->fraction), (int)exponent - f->bias - f->fraction);
}

double slow_widen(corale_type type, uint32_t bits)
{
	const struct format *f = &formats[type];
	uint32_t sign = 1u << (f->width - 1), magnitude = bits & (sign - 1);
	double value = magnitude_of(f, magnitude);
	if (magnitude > f->largest)
		value = type != CORALE_FLOAT8_E4M3 && magnitude == f->largest + 1 ? INFINITY : NAN;
	return bits & sign ? -value : value;
}

uint32_t slow_narrow(corale_type type, double value)
{
	const struct format *f = &formats[type];
	uint32_t sign = signbit(value) ? 1u << (f->width - 1) : 0, low = 0, high = f->largest + 1;
	double wanted = fabs(value);
	if (isnan(value))
		return f->nan;
	if (wanted >= magnitude_of(f, high))
		return sign | f->overflow;
	while (high - low > 1) { /* low <= wanted < high */
		uint32_t middle = (low + high) / 2;
		if (magnitude_of(f, middle) <= wanted)
			low = middle;
		else
			high = middle;
	}
	double below = wanted - magnitude_of(f, low), above = magnitude_of(f, high) - wanted;
	uint32_t nearest = below < above || (below == above && !(low & 1)) ? low : high;
	return sign | (nearest > f->largest ? f->overflow : nearest);
}
