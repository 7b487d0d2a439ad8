/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of kernels on vectors of 16 bytes: what reduce_fold does on the host, bit for bit, for every type
 * and operator. The inputs are folded in the order in which they are given. float32 and narrower floats are held as
 * float32 from the first input to finish, which rounds once; integers are held as they are stored.
 *
 * A fold of one input alone is a copy, which keeps all bits: no vector_sum.
 */
#ifndef VECTOR_CUH
#define VECTOR_CUH

#include <array>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "base/types.h"
#include "codelets.h"
#include "reduce/float_convert.h"

#define VECTOR_FN __host__ __device__ __forceinline__

typedef uint4 vector;

template <class To> VECTOR_FN To vector_as(vector v)
{
	static_assert(sizeof(To) == sizeof(v), "a vector's bits");
	To to;
	memcpy(&to, &v, sizeof(to));
	return to;
}

template <class From> VECTOR_FN vector vector_of(const From &from)
{
	static_assert(sizeof(From) == sizeof(vector), "a vector's bits");
	vector v;
	memcpy(&v, &from, sizeof(v));
	return v;
}

template <class T> struct vector_elements {
	T e[sizeof(vector) / sizeof(T)];
};

typedef vector_elements<uint32_t> vector_words;

/* ---- Operators on one element: on a GPU by instructions that are never contracted -------------------------- */

/* min and max keep NaN and hold -0 < +0, as PTX's min.NaN and max.NaN do. */
template <class F> VECTOR_FN F vector_lesser(F a, F b, bool a_is_negative)
{
	return a < b || a != a || (a == b && a_is_negative) ? a : b;
}

template <class F> VECTOR_FN F vector_greater(F a, F b, bool a_is_negative)
{
	return a > b || a != a || (a == b && !a_is_negative) ? a : b;
}

template <int OP> VECTOR_FN float vector_op(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	float result;
	if (OP == CORALE_MIN)
		asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
	else if (OP == CORALE_MAX)
		asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
	else
		result = OP == CORALE_PROD ? __fmul_rn(a, b) : __fadd_rn(a, b);
	return result;
#else
	bool negative = float_bits(a) >> 31;
	return OP == CORALE_MIN  ? vector_lesser(a, b, negative) :
	       OP == CORALE_MAX  ? vector_greater(a, b, negative) :
	       OP == CORALE_PROD ? a * b :
				   a + b;
#endif
}

template <int OP> VECTOR_FN double vector_op(double a, double b)
{
	uint64_t bits;
	memcpy(&bits, &a, sizeof(bits));
	if (OP == CORALE_MIN)
		return vector_lesser(a, b, bits >> 63);
	if (OP == CORALE_MAX)
		return vector_greater(a, b, bits >> 63);
#ifdef __CUDA_ARCH__
	return OP == CORALE_PROD ? __dmul_rn(a, b) : __dadd_rn(a, b);
#else
	return OP == CORALE_PROD ? a * b : a + b;
#endif
}

VECTOR_FN float vector_quotient(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fdiv_rn(a, b);
#else
	return a / b;
#endif
}

VECTOR_FN double vector_quotient(double a, double b)
{
#ifdef __CUDA_ARCH__
	return __ddiv_rn(a, b);
#else
	return a / b;
#endif
}

/* ---- Four bytes of elements as float32 and back: the GPU's conversions give the same bits ------------------- */

template <int TYPE> struct vector_word;

template <> struct vector_word<CORALE_FLOAT32> {
	static constexpr int N = 1;
	VECTOR_FN static void widen(uint32_t word, float *f)
	{
		f[0] = float_of_bits(word);
	}
	VECTOR_FN static uint32_t narrow(const float *f)
	{
		return float_bits(float_canonical(f[0]));
	}
};

template <> struct vector_word<CORALE_FLOAT16> {
	static constexpr int N = 2;
	VECTOR_FN static void widen(uint32_t word, float *f)
	{
#ifdef __CUDA_ARCH__
		asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
		    : "=f"(f[0]), "=f"(f[1])
		    : "r"(word));
#else
		f[0] = float_from_float16((uint16_t)word);
		f[1] = float_from_float16((uint16_t)(word >> 16));
#endif
	}
	VECTOR_FN static uint32_t narrow(const float *f)
	{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
		uint32_t word;
		asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(f[0]), "f"(f[1]));
		return word;
#else
		return float_to_float16(f[0]) | (uint32_t)float_to_float16(f[1]) << 16;
#endif
	}
};

template <> struct vector_word<CORALE_BFLOAT16> {
	static constexpr int N = 2;
	VECTOR_FN static void widen(uint32_t word, float *f)
	{
		f[0] = float_of_bits(word << 16);
		f[1] = float_of_bits(word & 0xffff0000);
	}
	VECTOR_FN static uint32_t narrow(const float *f)
	{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
		uint32_t word;
		asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(f[0]), "f"(f[1]));
		return word;
#else
		return float_to_bfloat16(f[0]) | (uint32_t)float_to_bfloat16(f[1]) << 16;
#endif
	}
};

template <> struct vector_word<CORALE_FLOAT8_E4M3> {
	static constexpr int N = 4;
	VECTOR_FN static void widen(uint32_t word, float *f)
	{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
		uint32_t low, high; /* two float16 each */
		asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h; }"
		    : "=r"(low), "=r"(high)
		    : "r"(word));
		vector_word<CORALE_FLOAT16>::widen(low, f);
		vector_word<CORALE_FLOAT16>::widen(high, f + 2);
#else
		for (int i = 0; i < N; i++)
			f[i] = float_from_e4m3((uint8_t)(word >> 8 * i));
#endif
	}
	VECTOR_FN static uint32_t narrow(const float *f)
	{
		uint32_t word;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
		asm("{ .reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, %4, %3; "
		    "mov.b32 %0, {l, h}; }"
		    : "=r"(word)
		    : "f"(f[0]), "f"(f[1]), "f"(f[2]), "f"(f[3]));
#else
		word = 0;
		for (int i = 0; i < N; i++)
			word |= (uint32_t)float_to_e4m3(f[i]) << 8 * i;
#endif
		return word;
	}
};

template <> struct vector_word<CORALE_FLOAT8_E5M2> {
	static constexpr int N = 4;
	VECTOR_FN static void widen(uint32_t word, float *f)
	{
		/* such a byte is the upper one of the same float16 */
#ifdef __CUDA_ARCH__
		uint32_t low = __byte_perm(word, 0, 0x1404), high = __byte_perm(word, 0, 0x3424);
#else
		uint32_t low = (word << 8 & 0xff00) | (word << 16 & 0xff000000);
		uint32_t high = (word >> 8 & 0xff00) | (word & 0xff000000);
#endif
		vector_word<CORALE_FLOAT16>::widen(low, f);
		vector_word<CORALE_FLOAT16>::widen(high, f + 2);
	}
	VECTOR_FN static uint32_t narrow(const float *f)
	{
		uint32_t word;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
		asm("{ .reg .b16 l, h; cvt.rn.satfinite.e5m2x2.f32 l, %2, %1; cvt.rn.satfinite.e5m2x2.f32 h, %4, %3; "
		    "mov.b32 %0, {l, h}; }"
		    : "=r"(word)
		    : "f"(f[0]), "f"(f[1]), "f"(f[2]), "f"(f[3]));
#else
		word = 0;
		for (int i = 0; i < N; i++)
			word |= (uint32_t)float_to_e5m2(f[i]) << 8 * i;
#endif
		return word;
	}
};

/* ---- Folds by kind of type ------------------------------------------------------------------------------------ */

/*
 * Each operator has a path of its own from the stored bits on, so that few registers are alive at a time. op is the
 * same for all threads. The interface of all folds:
 *   start(v)           the first input
 *   add(v, op)         the next one; avg and premultiplied sums (CORALE_NUM_OPS and above) add
 *   finish(op, ranks)  the result; ranks: divisor of avg, at least 1
 */
template <int TYPE> struct vector_floats {
	static constexpr int N = vector_word<TYPE>::N;
	float f[4 * N];

	VECTOR_FN void start(vector v)
	{
		vector_words words = vector_as<vector_words>(v);
#pragma unroll
		for (int i = 0; i < 4; i++)
			vector_word<TYPE>::widen(words.e[i], f + i * N);
	}
	VECTOR_FN void add(vector v, int op)
	{
		if (op == CORALE_PROD)
			combine<CORALE_PROD>(v);
		else if (op == CORALE_MIN)
			combine<CORALE_MIN>(v);
		else if (op == CORALE_MAX)
			combine<CORALE_MAX>(v);
		else
			combine<CORALE_SUM>(v);
	}
	VECTOR_FN vector finish(int op, int ranks)
	{
		if (op == CORALE_AVG)
			divide(ranks);
		vector_words words;
#pragma unroll
		for (int i = 0; i < 4; i++)
			words.e[i] = vector_word<TYPE>::narrow(f + i * N);
		return vector_of(words);
	}

private:
	template <int OP> VECTOR_FN void combine(vector v)
	{
		vector_words words = vector_as<vector_words>(v);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float g[N];
			vector_word<TYPE>::widen(words.e[i], g);
#pragma unroll
			for (int j = 0; j < N; j++)
				f[i * N + j] = vector_op<OP>(f[i * N + j], g[j]);
		}
	}
	VECTOR_FN void divide(int ranks)
	{
		if (ranks & (ranks - 1)) {
#pragma unroll
			for (int i = 0; i < 4 * N; i++)
				f[i] = vector_quotient(f[i], (float)ranks);
		} else { /* times the inverse of a power of two: the same number, rounded in the same way */
			float inverse = float_of_bits((254u << 23) - float_bits((float)ranks));
#pragma unroll
			for (int i = 0; i < 4 * N; i++)
				f[i] = vector_op<CORALE_PROD>(f[i], inverse);
		}
	}
};

struct vector_doubles {
	vector_elements<double> sum;

	VECTOR_FN void start(vector v)
	{
		sum = vector_as<vector_elements<double>>(v);
	}
	VECTOR_FN void add(vector v, int op)
	{
		if (op == CORALE_PROD)
			combine<CORALE_PROD>(v);
		else if (op == CORALE_MIN)
			combine<CORALE_MIN>(v);
		else if (op == CORALE_MAX)
			combine<CORALE_MAX>(v);
		else
			combine<CORALE_SUM>(v);
	}
	VECTOR_FN vector finish(int op, int ranks)
	{
		vector_elements<double> result;
#pragma unroll
		for (int i = 0; i < 2; i++)
			result.e[i] = double_canonical(op == CORALE_AVG ? vector_quotient(sum.e[i], (double)ranks) :
									  sum.e[i]);
		return vector_of(result);
	}

private:
	template <int OP> VECTOR_FN void combine(vector v)
	{
		vector_elements<double> next = vector_as<vector_elements<double>>(v);
#pragma unroll
		for (int i = 0; i < 2; i++)
			sum.e[i] = vector_op<OP>(sum.e[i], next.e[i]);
	}
};

/*
 * Signed and unsigned integers of a width share what follows: the operator says which of them are compared and divided (codelet_op). The lesser one is
 * found of signed elements; turned over by a mask, unsigned ones are in the order of signed ones, and the greater is the lesser.
 */
VECTOR_FN constexpr int vector_without_sign(int op)
{
	return op & ~CODELET_UNSIGNED;
}

template <class U> VECTOR_FN constexpr U vector_turned(int op, U tops)
{
	return (vector_without_sign(op) == CORALE_MAX ? ~(U)0 : 0) ^ (op & CODELET_UNSIGNED ? tops : 0);
}

/* Integers of 32 and 64 bits: U, compared as S. */
template <class U, class S> struct vector_integers {
	static_assert(sizeof(U) >= sizeof(int), "narrower ones would be multiplied as int, whose overflow is undefined");
	static constexpr U TOP = (U)1 << (8 * sizeof(U) - 1);
	vector_elements<U> sum;

	VECTOR_FN void start(vector v)
	{
		sum = vector_as<vector_elements<U>>(v);
	}
	VECTOR_FN void add(vector v, int op)
	{
		const vector_elements<U> next = vector_as<vector_elements<U>>(v);
		const U mask = vector_turned(op, TOP);
		const int kind = vector_without_sign(op);
#pragma unroll
		for (int i = 0; i < (int)(sizeof(v) / sizeof(U)); i++) {
			const U a = sum.e[i], b = next.e[i];
			sum.e[i] = kind == CORALE_PROD				     ? a * b :
				   kind == CORALE_MIN || kind == CORALE_MAX ? ((S)(a ^ mask) < (S)(b ^ mask) ? a : b) :
										     a + b;
		}
	}
	VECTOR_FN vector finish(int op, int ranks)
	{
		if (vector_without_sign(op) == CORALE_AVG) {
#pragma unroll
			for (int i = 0; i < (int)(sizeof(vector) / sizeof(U)); i++)
				sum.e[i] = quotient(sum.e[i], op & CODELET_UNSIGNED ? 0 : TOP, (U)ranks);
		}
		return vector_of(sum);
	}

private:
	/* Towards zero. */
	VECTOR_FN static U quotient(U element, U sign, U ranks)
	{
		const bool negative = element & sign;
		const U result = (negative ? (U)0 - element : element) / ranks;
		return negative ? (U)0 - result : result;
	}
};

/* Integers of 8 or 16 bits: a word's four or two elements at a time. */
template <int BITS> struct vector_small_integers {
	static constexpr uint32_t MASK = (1u << BITS) - 1, TOP = 0xffffffff / MASK << (BITS - 1);
	vector_words sum;

	VECTOR_FN void start(vector v)
	{
		sum = vector_as<vector_words>(v);
	}
	VECTOR_FN void add(vector v, int op)
	{
		const vector_words next = vector_as<vector_words>(v);
		const uint32_t mask = vector_turned(op, TOP);
		const int kind = vector_without_sign(op);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t a = sum.e[i], b = next.e[i];
			sum.e[i] = kind == CORALE_PROD				     ? product(a, b) :
				   kind == CORALE_MIN || kind == CORALE_MAX ? choose(a, b, not_less(b ^ mask, a ^ mask)) :
										     plus(a, b);
		}
	}
	VECTOR_FN vector finish(int op, int ranks)
	{
		if (vector_without_sign(op) == CORALE_AVG) {
#pragma unroll
			for (int i = 0; i < 4; i++)
				sum.e[i] = quotient(sum.e[i], op & CODELET_UNSIGNED ? 0 : TOP & MASK, ranks);
		}
		return vector_of(sum);
	}

private:
	VECTOR_FN static uint32_t plus(uint32_t a, uint32_t b)
	{
		return ((a & ~TOP) + (b & ~TOP)) ^ ((a ^ b) & TOP);
	}
	VECTOR_FN static uint32_t product(uint32_t a, uint32_t b)
	{
		uint32_t result = 0;
#pragma unroll
		for (int shift = 0; shift < 32; shift += BITS)
			result |= (a & MASK << shift) * (b >> shift & MASK) & MASK << shift;
		return result;
	}
	/* All bits of every element that is not less in a than in b, as signed ones. */
	VECTOR_FN static uint32_t not_less(uint32_t a, uint32_t b)
	{
		uint32_t low = (a | TOP) - (b & ~TOP); /* the top bit: so it is without the top bits */
		uint32_t top = ~a & b;
		uint32_t bit = (top | (~(a ^ b) & low)) & TOP;
		return bit | (bit - (bit >> (BITS - 1)));
	}
	VECTOR_FN static uint32_t choose(uint32_t a, uint32_t b, uint32_t mask)
	{
		return (a & mask) | (b & ~mask);
	}
	VECTOR_FN static uint32_t quotient(uint32_t word, uint32_t sign, int ranks)
	{
		uint32_t result = 0;
		for (int shift = 0; shift < 32; shift += BITS) {
			const int element = (int)((word >> shift & MASK) ^ sign) - (int)sign;
			result |= ((uint32_t)(element / ranks) & MASK) << shift;
		}
		return result;
	}
};

/* ---- What kernels call ------------------------------------------------------------------------------------ */

template <int TYPE> static constexpr int vector_element_bytes = type_rows[TYPE].bytes;
template <int TYPE> static constexpr bool vector_is_float = type_rows[TYPE].kind == TYPE_FLOAT;
template <int TYPE> static constexpr bool vector_shares_kernels = type_shares_kernels(TYPE);

/* What folds a type. Where none is for its kind and bytes, the first one asks for a vector_word that there isn't. */
template <int TYPE, bool FLOAT, int BYTES> struct vector_fold : vector_floats<TYPE> {};
template <int TYPE> struct vector_fold<TYPE, true, 8> : vector_doubles {};
template <int TYPE> struct vector_fold<TYPE, false, 1> : vector_small_integers<8> {};
template <int TYPE> struct vector_fold<TYPE, false, 2> : vector_small_integers<16> {};
template <int TYPE> struct vector_fold<TYPE, false, 4> : vector_integers<uint32_t, int32_t> {};
template <int TYPE> struct vector_fold<TYPE, false, 8> : vector_integers<uint64_t, int64_t> {};

/* The running fold of one vector. */
template <int TYPE> struct vector_sum : vector_fold<TYPE, vector_is_float<TYPE>, vector_element_bytes<TYPE>> {};

/* Every element times the scalar, whose bits are the low ones, rounded to TYPE: an input of a premultiplied sum. */
template <int TYPE> VECTOR_FN vector vector_premultiply(vector v, uint64_t scalar)
{
	constexpr int bytes = vector_element_bytes<TYPE>;
	uint32_t low = (uint32_t)scalar, high = bytes == 8 ? (uint32_t)(scalar >> 32) : 0;
	if (bytes == 1)
		low = (low & 0xff) * 0x01010101;
	if (bytes == 2)
		low = (low & 0xffff) * 0x00010001;
	if (bytes < 8)
		high = low;
	vector_sum<TYPE> product;
	product.start(v);
	product.add(make_uint4(low, high, low, high), CORALE_PROD);
	return product.finish(CORALE_PROD, 1);
}

/* True for the types in which a word of ones is nothing but NaNs: a slot that holds one can mean "nothing yet". */
template <int TYPE> static constexpr bool vector_hides = type_in_words(TYPE);

/*
 * An operator's input without such words: their NaNs become positive ones, and all other words stay. No result
 * changes by it: every operator of every such type gives NaN if an input is NaN, and all NaNs come out of finish
 * and of vector_premultiply as the canonical one, whatever bits went in. Canonical NaNs are positive, so results of
 * these two hold no such word, and hiding them changes nothing. A copy must keep the bits of NaNs: it hides nothing.
 */
template <int TYPE> VECTOR_FN vector vector_hide(vector v)
{
	constexpr int bytes = vector_element_bytes<TYPE>;
	constexpr uint32_t positive = bytes == 1 ? 0x7f7f7f7f : bytes == 2 ? 0x7fff7fff : 0x7fffffff;
	if (vector_hides<TYPE>) {
		v.x = v.x == 0xffffffff ? positive : v.x;
		v.y = v.y == 0xffffffff ? positive : v.y;
		v.z = v.z == 0xffffffff ? positive : v.z;
		v.w = v.w == 0xffffffff ? positive : v.w;
	}
	return v;
}

/* ---- Tables by type -------------------------------------------------------------------------------------------- */

/* The type whose kernels run a type: another one where types share them. Of 16 bytes an element is two of it. */
constexpr int vector_kernel_type(int type)
{
	if (type_rows[type].kind == TYPE_COMPLEX)
		return type_rows[type].part;
	const int bytes = type_rows[type].bytes < 8 ? type_rows[type].bytes : 8;
	int first = type_rows[type].kind == TYPE_FLOAT ? type : 0;
	while (type_rows[type].kind != TYPE_FLOAT && !(type_shares_kernels(first) && type_rows[first].bytes == bytes))
		first++;
	return first;
}

template <class Row, class Make, int... TYPE>
constexpr std::array<Row, CORALE_NUM_TYPES> vector_table_of(Make make, std::integer_sequence<int, TYPE...>)
{
	static_assert(((type_rows[TYPE].type == TYPE) && ...), "rows are in the order of corale_type");
	return { { make(std::integral_constant<int, vector_kernel_type(TYPE)>())... } };
}

/* A row for each type. make(type) returns the one of kernels for type.value. */
template <class Row, class Make> constexpr std::array<Row, CORALE_NUM_TYPES> vector_table_of(Make make)
{
	return vector_table_of<Row>(make, std::make_integer_sequence<int, CORALE_NUM_TYPES>());
}

#endif
