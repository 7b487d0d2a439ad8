/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of narrow floats against a search in the table of all their values. */
#include <math.h>

#include "test/helpers/unit.h"
#include "reduce/float_convert.h"
#include "test/helpers/slow_float.h"

static const corale_type narrow_types[] = { CORALE_FLOAT16, CORALE_BFLOAT16, CORALE_FLOAT8_E4M3,
					    CORALE_FLOAT8_E5M2 };
enum { TYPES = sizeof(narrow_types) / sizeof(*narrow_types) };

static float widen(corale_type type, uint32_t bits)
{
	switch (type) {
	case CORALE_FLOAT16:
		return float_from_float16((uint16_t)bits);
	case CORALE_BFLOAT16:
		return float_from_bfloat16((uint16_t)bits);
	case CORALE_FLOAT8_E4M3:
		return float_from_e4m3((uint8_t)bits);
	default:
		return float_from_e5m2((uint8_t)bits);
	}
}

static uint32_t narrow(corale_type type, float value)
{
	switch (type) {
	case CORALE_FLOAT16:
		return float_to_float16(value);
	case CORALE_BFLOAT16:
		return float_to_bfloat16(value);
	case CORALE_FLOAT8_E4M3:
		return float_to_e4m3(value);
	default:
		return float_to_e5m2(value);
	}
}

static void expect_narrow(corale_type type, float value)
{
	uint32_t got = narrow(type, value), expected = slow_narrow(type, value);
	if (got != expected)
		fail_msg("%s of %a (%08x): got %x, expected %x", corale_type_name(type), (double)value,
			 (unsigned)float_bits(value), (unsigned)got, (unsigned)expected);
}

UNIT_TEST(test_widening_all_values)
{
	for (int t = 0; t < TYPES; t++) {
		corale_type type = narrow_types[t];
		for (uint32_t bits = 0; bits < 1u << 8 * corale_type_bytes(type); bits++) {
			float got = widen(type, bits), expected = (float)slow_widen(type, bits);
			if (isnan(expected) ? !isnan(got) : float_bits(got) != float_bits(expected))
				fail_msg("%s %x: got %a, expected %a", corale_type_name(type), (unsigned)bits,
					 (double)got, (double)expected);
		}
	}
}

/* Each value, the middle to its successor, and the float32 numbers next to both. */
UNIT_TEST(test_rounding_around_all_values)
{
	for (int t = 0; t < TYPES; t++) {
		corale_type type = narrow_types[t];
		uint32_t sign = 1u << (8 * corale_type_bytes(type) - 1);
		for (uint32_t bits = 0; bits <= slow_largest(type) + 1; bits++) {
			double a = slow_widen(type, bits - (bits > slow_largest(type)));
			double b = bits < slow_largest(type)
				       ? slow_widen(type, bits + 1)
				       : 2 * a - slow_widen(type, slow_largest(type) - 1);
			float points[] = { (float)a, (float)((a + b) / 2), (float)b };
			for (int i = 0; i < 9; i++) {
				float value = points[i / 3];
				value = i % 3 == 1 ? nextafterf(value, -INFINITY) : value;
				value = i % 3 == 2 ? nextafterf(value, INFINITY) : value;
				expect_narrow(type, value);
				expect_narrow(type, -value);
			}
			if (bits <= slow_largest(type)) {
				assert_int_equal(narrow(type, widen(type, bits)), bits);
				assert_int_equal(narrow(type, widen(type, bits | sign)), bits | sign);
			}
		}
	}
}

UNIT_TEST(test_rounding_random_and_special)
{
	static const uint32_t special[] = { 0,          0x80000000, 1,          0x807fffff, 0x00800000,
					    0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000,
					    0x7fffffff, 0x33000000, 0x33000001, 0x38800000, 0x387fffff,
					    0x477fe000, 0x477fefff, 0x477ff000 };
	uint64_t random = 12345;

	for (int t = 0; t < TYPES; t++) {
		for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++)
			expect_narrow(narrow_types[t], float_of_bits(special[i]));
		for (int i = 0; i < 1000000; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			expect_narrow(narrow_types[t], float_of_bits((uint32_t)(random >> 32)));
		}
	}
}

UNIT_TEST(test_canonical_nans)
{
	for (int t = 0; t < TYPES; t++) {
		assert_int_equal(narrow(narrow_types[t], NAN), slow_nan(narrow_types[t]));
		assert_int_equal(narrow(narrow_types[t], -NAN), slow_nan(narrow_types[t]));
	}
	assert_int_equal(float_bits(float_canonical(float_of_bits(0xff800001))), FLOAT32_NAN);
	assert_int_equal(float_bits(float_canonical(float_of_bits(0xff800000))), 0xff800000);
}
