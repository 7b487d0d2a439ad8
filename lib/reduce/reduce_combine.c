#include <math.h>

#include "reduce_block.h"

/* Left operands win ties and NaNs: the lesser zero is -0, and any NaN stays one. */

static void sum_float(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->f[i] += block->f[i];
}

static void prod_float(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->f[i] *= block->f[i];
}

static inline float lesser_float(float a, float b)
{
	return a < b || a != a || (a == b && signbit(a)) ? a : b;
}

static inline float greater_float(float a, float b)
{
	return a > b || a != a || (a == b && !signbit(a)) ? a : b;
}

static void min_float(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->f[i] = lesser_float(acc->f[i], block->f[i]);
}

static void max_float(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->f[i] = greater_float(acc->f[i], block->f[i]);
}

static void sum_double(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->d[i] += block->d[i];
}

static void prod_double(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->d[i] *= block->d[i];
}

static inline double lesser_double(double a, double b)
{
	return a < b || a != a || (a == b && signbit(a)) ? a : b;
}

static inline double greater_double(double a, double b)
{
	return a > b || a != a || (a == b && !signbit(a)) ? a : b;
}

static void min_double(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->d[i] = lesser_double(acc->d[i], block->d[i]);
}

static void max_double(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->d[i] = greater_double(acc->d[i], block->d[i]);
}

/* Unsigned arithmetic wraps where signed arithmetic would be undefined; the low bits are the same. */
static void sum_integer(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->u[i] += block->u[i];
}

static void prod_integer(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->u[i] *= block->u[i];
}

static void min_signed(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->u[i] = (int64_t)acc->u[i] < (int64_t)block->u[i] ? acc->u[i] : block->u[i];
}

static void max_signed(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->u[i] = (int64_t)acc->u[i] > (int64_t)block->u[i] ? acc->u[i] : block->u[i];
}

static void min_unsigned(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->u[i] = acc->u[i] < block->u[i] ? acc->u[i] : block->u[i];
}

static void max_unsigned(union reduce_block *acc, const union reduce_block *block, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		acc->u[i] = acc->u[i] > block->u[i] ? acc->u[i] : block->u[i];
}

void reduce_combine(enum reduce_arithmetic a, corale_op op, union reduce_block *acc,
		    const union reduce_block *block, size_t n)
{
	static void (*const table[REDUCE_ARITHMETICS][CORALE_AVG])(union reduce_block *,
								   const union reduce_block *, size_t) = {
		[REDUCE_FLOAT] = { sum_float, prod_float, min_float, max_float },
		[REDUCE_DOUBLE] = { sum_double, prod_double, min_double, max_double },
		[REDUCE_SIGNED] = { sum_integer, prod_integer, min_signed, max_signed },
		[REDUCE_UNSIGNED] = { sum_integer, prod_integer, min_unsigned, max_unsigned },
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
