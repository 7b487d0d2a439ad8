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
