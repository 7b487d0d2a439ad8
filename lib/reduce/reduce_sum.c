/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce.h"

#include "float_convert.h"

/*
 * The loops are written once, inlined into one function per type and level, and vectorized there: constant
 * arguments (type, k) vanish. -ffp-contract=off keeps every level's arithmetic the same.
 */
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#ifdef __FAST_MATH__
#error "Corale's results are defined bit by bit: build without -ffast-math"
#endif

enum { BLOCK = 1024 }; /* elements: an accumulator block of 4 KB stays in the first-level cache */

/* Elements at any address. */
struct any32 {
	uint32_t bits;
} __attribute__((packed, may_alias));

struct any16 {
	uint16_t bits;
} __attribute__((packed, may_alias));

INLINE float load(corale_type type, const void *data, size_t i)
{
	if (type == CORALE_FLOAT32)
		return float_of_bits(((const struct any32 *)data)[i].bits);
	uint16_t bits = ((const struct any16 *)data)[i].bits;
	return type == CORALE_FLOAT16 ? float_from_float16(bits) : float_from_bfloat16(bits);
}

INLINE void store(corale_type type, void *data, size_t i, float value)
{
	if (type == CORALE_FLOAT32)
		((struct any32 *)data)[i].bits = float_bits(float_canonical(value));
	else
		((struct any16 *)data)[i].bits =
		    type == CORALE_FLOAT16 ? float_to_float16(value) : float_to_bfloat16(value);
}

/* k: 2 to 4, a constant. */
INLINE void sum_few(corale_type type, int k, void *dst, const struct reduce_input *in, size_t count)
{
	const void *a = in[0].data, *b = in[1].data;
	const void *c = k > 2 ? in[2].data : NULL, *d = k > 3 ? in[3].data : NULL;
#pragma omp simd
	for (size_t i = 0; i < count; i++) {
		float sum = load(type, a, i) + load(type, b, i);
		if (k > 2)
			sum += load(type, c, i);
		if (k > 3)
			sum += load(type, d, i);
		store(type, dst, i, sum);
	}
}

/* acc = inputs[0] + ..., in their order, for BLOCK elements at most. */
INLINE void accumulate(corale_type type, float *acc, const struct reduce_input *inputs, int k, size_t first,
		       size_t count)
{
	const void *a = inputs[0].data;
#pragma omp simd
	for (size_t i = 0; i < count; i++)
		acc[i] = load(type, a, first + i);
	int j = 1;
	for (; j + 1 < k; j += 2) {
		const void *b = inputs[j].data, *c = inputs[j + 1].data;
#pragma omp simd
		for (size_t i = 0; i < count; i++)
			acc[i] = acc[i] + load(type, b, first + i) + load(type, c, first + i);
	}
	if (j < k) {
		const void *b = inputs[j].data;
#pragma omp simd
		for (size_t i = 0; i < count; i++)
			acc[i] += load(type, b, first + i);
	}
}

INLINE void finish(corale_type type, void *dst, const float *acc, size_t count, float divisor)
{
	if (divisor != 0) {
#pragma omp simd
		for (size_t i = 0; i < count; i++)
			store(type, dst, i, acc[i] / divisor);
	} else {
#pragma omp simd
		for (size_t i = 0; i < count; i++)
			store(type, dst, i, acc[i]);
	}
}

INLINE void sum(corale_type type, void *dst, const struct reduce_input *in, int k, size_t count,
		float divisor)
{
	float acc[BLOCK];
	size_t bytes = type == CORALE_FLOAT32 ? 4 : 2;

	if (divisor == 0 && k == 2) {
		sum_few(type, 2, dst, in, count);
	} else if (divisor == 0 && k == 3) {
		sum_few(type, 3, dst, in, count);
	} else if (divisor == 0 && k == 4) {
		sum_few(type, 4, dst, in, count);
	} else {
		for (size_t first = 0; first < count; first += BLOCK) {
			size_t n = count - first < BLOCK ? count - first : BLOCK;
			accumulate(type, acc, in, k, first, n);
			finish(type, (unsigned char *)dst + first * bytes, acc, n, divisor);
		}
	}
}

typedef void sum_function(void *dst, const struct reduce_input *in, int k, size_t count, float divisor);

#define SUM(name, target, type)                                                                              \
	target static void name(void *dst, const struct reduce_input *in, int k, size_t count,               \
				float divisor)                                                               \
	{                                                                                                    \
		sum(type, dst, in, k, count, divisor);                                                       \
	}
SUM(float32_baseline, , CORALE_FLOAT32)
SUM(float16_baseline, , CORALE_FLOAT16)
SUM(bfloat16_baseline, , CORALE_BFLOAT16)

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

SUM(float32_avx2, AVX2, CORALE_FLOAT32)
SUM(bfloat16_avx2, AVX2, CORALE_BFLOAT16)
SUM(float32_avx512, AVX512, CORALE_FLOAT32)
SUM(bfloat16_avx512, AVX512, CORALE_BFLOAT16)

/* Up to eight elements. */
AVX2 static inline __m128i load_float16(const void *data, size_t i, size_t n)
{
	uint16_t eight[8] = { 0 };
	const struct any16 *at = (const struct any16 *)data + i;
	if (n == 8)
		return _mm_loadu_si128((const void *)at);
	memcpy(eight, at, n * sizeof(*eight));
	return _mm_loadu_si128((const void *)eight);
}

/* The sums of eight float16 elements, or of n; the processor converts them, which loops in plain C do five times slower. */
AVX2 static inline __m128i float16_eight(const struct reduce_input *in, int k, size_t i, size_t n,
					 __m256 divisor, int divides)
{
	__m256 acc = _mm256_cvtph_ps(load_float16(in[0].data, i, n));
	for (int j = 1; j < k; j++)
		acc = _mm256_add_ps(acc, _mm256_cvtph_ps(load_float16(in[j].data, i, n)));
	if (divides)
		acc = _mm256_div_ps(acc, divisor);
	__m128i sums = _mm256_cvtps_ph(acc, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	__m128i magnitudes = _mm_and_si128(sums, _mm_set1_epi16(0x7fff));
	__m128i nans = _mm_cmpgt_epi16(magnitudes, _mm_set1_epi16(0x7c00));
	return _mm_blendv_epi8(sums, _mm_set1_epi16(FLOAT16_NAN), nans);
}

AVX2 static void float16_avx2(void *dst, const struct reduce_input *in, int k, size_t count, float divisor)
{
	__m256 divisors = _mm256_set1_ps(divisor);
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm_storeu_si128((void *)((struct any16 *)dst + i),
				 float16_eight(in, k, i, 8, divisors, divisor != 0));
	if (i == count)
		return;
	const __m128i rest = float16_eight(in, k, i, count - i, divisors, divisor != 0);
	memcpy((struct any16 *)dst + i, &rest, (count - i) * sizeof(struct any16));
}

enum reduce_level reduce_level(void)
{
	/* F16C comes with the rest of x86-64-v3; not every compiler can ask for it by name. */
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
	    !__builtin_cpu_supports("bmi2"))
		return REDUCE_BASELINE;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return REDUCE_AVX512;
	return REDUCE_AVX2;
}

static sum_function *const functions[][3] = {
	[REDUCE_BASELINE] = { float32_baseline, float16_baseline, bfloat16_baseline },
	[REDUCE_AVX2] = { float32_avx2, float16_avx2, bfloat16_avx2 },
	[REDUCE_AVX512] = { float32_avx512, float16_avx2, bfloat16_avx512 },
};
#else
enum reduce_level reduce_level(void)
{
	return REDUCE_BASELINE;
}

static sum_function *const functions[][3] = { { float32_baseline, float16_baseline, bfloat16_baseline } };
#endif

int reduce_sum_has(corale_type type)
{
	return type == CORALE_FLOAT32 || type == CORALE_FLOAT16 || type == CORALE_BFLOAT16;
}

void reduce_sum(enum reduce_level level, corale_type type, void *dst, const struct reduce_input *inputs,
		int k, size_t count, float divisor)
{
	int column = type == CORALE_FLOAT32 ? 0 : type == CORALE_FLOAT16 ? 1 : 2;
	functions[level][column](dst, inputs, k, count, divisor);
}
