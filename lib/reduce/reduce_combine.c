/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "reduce_block.h"

/* Left operands win ties and NaNs: the lesser zero is -0, and any NaN stays one. */

#define LESSER(a, b) ((a) < (b) || (a) != (a) || ((a) == (b) && signbit(a)) ? (a) : (b))
#define GREATER(a, b) ((a) > (b) || (a) != (a) || ((a) == (b) && !signbit(a)) ? (a) : (b))

/* A loop over two blocks: a of acc and b of block make a's new value. */
#define COMBINE(name, type, member, result)                                                                  \
	static void name(union reduce_block *acc, const union reduce_block *block, size_t n)                 \
	{                                                                                                    \
		_Pragma("omp simd") for (size_t i = 0; i < n; i++)                                           \
		{                                                                                            \
			const type a = (type)acc->member[i], b = (type)block->member[i];                     \
			acc->member[i] = result;                                                             \
		}                                                                                            \
	}
COMBINE(sum_float, float, f, a + b)
COMBINE(prod_float, float, f, (a * b))
COMBINE(min_float, float, f, LESSER(a, b))
COMBINE(max_float, float, f, GREATER(a, b))
COMBINE(sum_double, double, d, a + b)
COMBINE(prod_double, double, d, (a * b))
COMBINE(min_double, double, d, LESSER(a, b))
COMBINE(max_double, double, d, GREATER(a, b))
/* Unsigned arithmetic wraps where signed arithmetic would be undefined; the low bits are the same. */
COMBINE(sum_integer, uint64_t, u, a + b)
COMBINE(prod_integer, uint64_t, u, (a * b))
COMBINE(min_signed, int64_t, u, (uint64_t)(a < b ? a : b))
COMBINE(max_signed, int64_t, u, (uint64_t)(a > b ? a : b))
COMBINE(min_unsigned, uint64_t, u, a < b ? a : b)
COMBINE(max_unsigned, uint64_t, u, a > b ? a : b)
COMBINE(bit_and, uint64_t, u, (a & b))
COMBINE(bit_or, uint64_t, u, a | b)
COMBINE(bit_xor, uint64_t, u, a ^ b)
COMBINE(logical_and, uint64_t, u, (a != 0) & (b != 0))
COMBINE(logical_or, uint64_t, u, (a | b) != 0)
COMBINE(logical_xor, uint64_t, u, (a != 0) ^ (b != 0))

/* (a + bi)(c + di); each step is rounded by itself (-ffp-contract=off). */
#define COMPLEX_PROD(name, type, member)                                                                     \
	static void name(union reduce_block *acc, const union reduce_block *block, size_t n)                 \
	{                                                                                                    \
		_Pragma("omp simd") for (size_t i = 0; i < 2 * n; i += 2)                                    \
		{                                                                                            \
			const type a = acc->member[i], b = acc->member[i + 1], c = block->member[i],         \
				   d = block->member[i + 1];                                                 \
			acc->member[i] = a * c - b * d;                                                      \
			acc->member[i + 1] = a * d + b * c;                                                  \
		}                                                                                            \
	}
COMPLEX_PROD(prod_complex_float, float, f)
COMPLEX_PROD(prod_complex_double, double, d)

/* Whether b wins over a: its value does, or its index is less and the values are equal. Zeros of two signs are equal; where their indices are, too, the sign
 * decides, so that the order of ranks changes no bit. */
static int double_wins(double a, int32_t a_index, double b, int32_t b_index, int largest)
{
	const int a_nan = a != a, b_nan = b != b;
	if (a_nan || b_nan)
		return a_nan && b_nan ? b_index < a_index : b_nan;
	if (a != b)
		return largest ? b > a : b < a;
	if (a_index != b_index)
		return b_index < a_index;
	return largest ? !signbit(b) : signbit(b) != 0;
}

static int integer_wins(int64_t a, int32_t a_index, int64_t b, int32_t b_index, int largest)
{
	return a == b ? b_index < a_index : largest ? b > a : b < a;
}

#define PAIR_OP(name, member, wins, largest)                                                                 \
	static void name(union reduce_block *acc, const union reduce_block *block, size_t n)                 \
	{                                                                                                    \
		struct reduce_pairs *a = &acc->pairs;                                                        \
		const struct reduce_pairs *b = &block->pairs;                                                \
		for (size_t i = 0; i < n; i++)                                                               \
			if (wins(a->value.member[i], a->index[i], b->value.member[i], b->index[i],           \
				 largest)) {                                                                 \
				a->value.member[i] = b->value.member[i];                                     \
				a->index[i] = b->index[i];                                                   \
			}                                                                                    \
	}
PAIR_OP(min_loc_double, d, double_wins, 0)
PAIR_OP(max_loc_double, d, double_wins, 1)
PAIR_OP(min_loc_integer, i, integer_wins, 0)
PAIR_OP(max_loc_integer, i, integer_wins, 1)

#define BITS                                                                                                 \
	[CORALE_BIT_AND] = bit_and, [CORALE_BIT_OR] = bit_or, [CORALE_BIT_XOR] = bit_xor,                    \
	[CORALE_LOGICAL_AND] = logical_and, [CORALE_LOGICAL_OR] = logical_or,                                \
	[CORALE_LOGICAL_XOR] = logical_xor

void reduce_combine(enum reduce_arithmetic a, corale_op op, union reduce_block *acc,
		    const union reduce_block *block, size_t n)
{
	static void (*const table[REDUCE_ARITHMETICS][CORALE_NUM_OPS])(union reduce_block *,
								       const union reduce_block *, size_t) = {
		[REDUCE_FLOAT] = { sum_float, prod_float, min_float, max_float },
		[REDUCE_DOUBLE] = { sum_double, prod_double, min_double, max_double },
		[REDUCE_SIGNED] = { sum_integer, prod_integer, min_signed, max_signed, BITS },
		[REDUCE_COMPLEX_FLOAT] = { [CORALE_PROD] = prod_complex_float },
		[REDUCE_COMPLEX_DOUBLE] = { [CORALE_PROD] = prod_complex_double },
		[REDUCE_PAIR_DOUBLE] = { [CORALE_MIN_LOC] = min_loc_double,
					 [CORALE_MAX_LOC] = max_loc_double },
		[REDUCE_PAIR_INTEGER] = { [CORALE_MIN_LOC] = min_loc_integer,
					  [CORALE_MAX_LOC] = max_loc_integer },
		[REDUCE_UNSIGNED] = { sum_integer, prod_integer, min_unsigned, max_unsigned, BITS },
	};
	table[a][op](acc, block, n);
}

void reduce_divide(enum reduce_arithmetic a, union reduce_block *acc, int divisor, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a == REDUCE_FLOAT)
			acc->f[i] /= (float)divisor;
		else if (a == REDUCE_DOUBLE)
			acc->d[i] /= divisor;
		else if (a == REDUCE_SIGNED)
			acc->u[i] = (uint64_t)((int64_t)acc->u[i] / divisor);
		else
			acc->u[i] /= (uint64_t)divisor;
	}
}
