/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The narrow floating-point formats to float32 and back, without branches so that loops over them vectorize, and
 * without arithmetic on subnormal float32 numbers so that a caller's flush-to-zero mode changes nothing here.
 * To narrow: nearest, ties to even; NaN becomes the format's canonical NaN; float8 saturates, infinities included.
 */
#ifndef FLOAT_CONVERT_H
#define FLOAT_CONVERT_H

#include <stdint.h>
#include <string.h>

/* Kernels use these too, where a GPU has no such conversion. */
#ifdef __CUDACC__
#define FLOAT_FN __host__ __device__ static inline
#else
#define FLOAT_FN static inline
#endif

#define FLOAT32_NAN UINT32_C(0x7fffffff)
#define FLOAT64_NAN UINT64_C(0x7fffffffffffffff)
#define FLOAT16_NAN 0x7fffu
#define BFLOAT16_NAN 0x7fffu
#define FLOAT8_NAN 0x7fu

FLOAT_FN uint32_t float_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

FLOAT_FN float float_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

FLOAT_FN float float_canonical(float value)
{
	return float_of_bits(value == value ? float_bits(value) : FLOAT32_NAN);
}

FLOAT_FN double double_canonical(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	bits = value == value ? bits : FLOAT64_NAN;
	memcpy(&value, &bits, sizeof(bits));
	return value;
}

/*
 * a if less is less than limit (both below 2^31), else b. By masks: a conditional would be made a branch around the
 * arithmetic that might raise a floating-point flag, and branches keep loops from being vectorized.
 */
FLOAT_FN uint32_t float_select(uint32_t less, uint32_t limit, uint32_t a, uint32_t b)
{
	uint32_t mask = -(uint32_t)((int32_t)less < (int32_t)limit);
	return (a & mask) | (b & ~mask);
}

/*
 * Rounds to a format of 5 or fewer exponent bits with the given fraction bits and exponent bias. Results from
 * `top` on become top: infinity, or the largest finite number.
 */
FLOAT_FN uint32_t float_narrow(float value, int fraction, int bias, uint32_t top, uint32_t nan)
{
	uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff;
	int drop = 23 - fraction;
	/* Adding 2^23 units of the narrow format's last subnormal place makes the adder do the rounding. */
	uint32_t magic = (uint32_t)(127 + 24 - bias - fraction) << 23;
	uint32_t subnormal = float_bits(float_of_bits(magnitude) + float_of_bits(magic)) - magic;
	uint32_t normal = magnitude - ((uint32_t)(127 - bias) << 23);
	normal = (normal + ((1u << (drop - 1)) - 1) + (normal >> drop & 1)) >> drop;
	uint32_t result = float_select(magnitude, (uint32_t)(128 - bias) << 23, subnormal, normal);
	result = float_select(result, top, result, top);
	uint32_t sign = bits >> 31 << (fraction == 10 ? 15 : 7);
	return float_select(0x7f800000, magnitude, nan, result | sign);
}

FLOAT_FN float float_from_float16(uint16_t half)
{
	uint32_t magnitude = half & 0x7fffu, bits = (magnitude << 13) + (112u << 23);
	bits += float_select(magnitude, 0x7c00, 0, 112u << 23);
	uint32_t subnormal = float_bits((float)(int32_t)magnitude * 0x1p-24f);
	bits = float_select(magnitude, 0x400, subnormal, bits);
	return float_of_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

FLOAT_FN uint16_t float_to_float16(float value)
{
	return (uint16_t)float_narrow(value, 10, 15, 0x7c00, FLOAT16_NAN);
}

FLOAT_FN float float_from_bfloat16(uint16_t brain)
{
	return float_of_bits((uint32_t)brain << 16);
}

FLOAT_FN uint16_t float_to_bfloat16(float value)
{
	uint32_t bits = float_bits(value), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	return (uint16_t)(value == value ? rounded : BFLOAT16_NAN);
}

FLOAT_FN float float_from_e5m2(uint8_t byte)
{
	return float_from_float16((uint16_t)(byte << 8));
}

FLOAT_FN uint8_t float_to_e5m2(float value)
{
	return (uint8_t)float_narrow(value, 2, 15, 0x7b, FLOAT8_NAN);
}

FLOAT_FN float float_from_e4m3(uint8_t byte)
{
	uint32_t magnitude = byte & 0x7fu, bits = (magnitude << 20) + (120u << 23);
	bits = float_select(magnitude, 0x7f, bits, FLOAT32_NAN);
	uint32_t subnormal = float_bits((float)(int32_t)magnitude * 0x1p-9f);
	bits = float_select(magnitude, 8, subnormal, bits);
	return float_of_bits(bits | (uint32_t)(byte & 0x80u) << 24);
}

FLOAT_FN uint8_t float_to_e4m3(float value)
{
	return (uint8_t)float_narrow(value, 3, 7, 0x7e, FLOAT8_NAN);
}

#endif
