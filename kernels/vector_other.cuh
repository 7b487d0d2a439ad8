/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operators for which no codelet has kernels (type_folds_lowered): bitwise and logical ones of integers and bools, products of complex numbers, and
 * pairs. One kernel folds them all, so type and operator are told apart when it runs. What reduce_fold does on the host, bit for bit.
 */
#ifndef VECTOR_OTHER_CUH
#define VECTOR_OTHER_CUH

#include "vector.cuh"

/* In place of a type. */
enum { VECTOR_OTHER = CORALE_NUM_TYPES };

template <> constexpr bool vector_shares_kernels<VECTOR_OTHER> = false;

/* ---- Bits --------------------------------------------------------------------------------------------------- */

/* 1 for each element that is not 0, whose bytes divide a word's. */
template <int BITS> VECTOR_FN uint32_t vector_not_zero(uint32_t word)
{
	constexpr uint32_t ones = BITS < 32 ? 0xffffffffu / ((1ull << BITS) - 1) : 1, low = (ones << (BITS - 1)) - ones;
	return (((word & low) + low) | word) >> (BITS - 1) & ones;
}

VECTOR_FN vector_words vector_truth(int type, vector_words v)
{
	if (type == CORALE_INT64 || type == CORALE_UINT64)
		return { { (v.e[0] | v.e[1]) != 0, 0, (v.e[2] | v.e[3]) != 0, 0 } };
#pragma unroll
	for (int i = 0; i < 4; i++)
		v.e[i] = type == CORALE_INT32 || type == CORALE_UINT32 ? vector_not_zero<32>(v.e[i]) :
			 type == CORALE_INT16 || type == CORALE_UINT16 ? vector_not_zero<16>(v.e[i]) :
									 vector_not_zero<8>(v.e[i]);
	return v;
}

VECTOR_FN vector_words vector_bits(int type, int op, vector_words a, vector_words b)
{
	if (op == CORALE_LOGICAL_AND || op == CORALE_LOGICAL_OR || op == CORALE_LOGICAL_XOR) {
		a = vector_truth(type, a);
		b = vector_truth(type, b);
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
		a.e[i] = op == CORALE_BIT_AND || op == CORALE_LOGICAL_AND ? a.e[i] & b.e[i] :
			 op == CORALE_BIT_OR || op == CORALE_LOGICAL_OR   ? a.e[i] | b.e[i] :
									    a.e[i] ^ b.e[i];
	return a;
}

/* ---- Products of complex numbers ------------------------------------------------------------------------------ */

/* (a + bi)(c + di); each step is rounded by itself. */
template <class F> VECTOR_FN vector_words vector_complex_product(vector_words x, vector_words y)
{
	typedef vector_elements<F> parts;
	const parts v = vector_as<parts>(vector_of(x)), w = vector_as<parts>(vector_of(y));
	parts result;
#pragma unroll
	for (int i = 0; i < (int)(sizeof(vector) / sizeof(F)); i += 2) {
		const F a = v.e[i], b = v.e[i + 1], c = w.e[i], d = w.e[i + 1];
		result.e[i] = vector_op<CORALE_SUM>(vector_op<CORALE_PROD>(a, c), -vector_op<CORALE_PROD>(b, d));
		result.e[i + 1] = vector_op<CORALE_SUM>(vector_op<CORALE_PROD>(a, d), vector_op<CORALE_PROD>(b, c));
	}
	return vector_as<vector_words>(vector_of(result));
}

/* ---- Pairs ---------------------------------------------------------------------------------------------------- */

/* Whether the sign of a float is set, which decides between zeros; of an integer it decides nothing. */
VECTOR_FN bool vector_sign(float value)
{
	return float_bits(value) >> 31;
}

VECTOR_FN bool vector_sign(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits >> 63;
}

template <class I> VECTOR_FN bool vector_sign(I value)
{
	return false;
}

/* A pair of a value and an index, in words of a vector. */
template <class V> struct vector_pair {
	static constexpr int WORDS = sizeof(V) > 4 ? 4 : 2, INDEX = sizeof(V) > 4 ? 2 : 1;
	V value;
	int32_t index;

	VECTOR_FN vector_pair(const uint32_t *words) : index((int32_t)words[INDEX])
	{
		memcpy(&value, words, sizeof(value));
	}
	/* As in lib/reduce/reduce_combine.c: whether b, equal in all else, or its index, is taken instead of this one. */
	VECTOR_FN bool loses_to(const vector_pair &b, bool largest) const
	{
		const bool nan = value != value, b_nan = b.value != b.value;
		if (nan || b_nan)
			return nan && b_nan ? b.index < index : b_nan;
		if (value != b.value)
			return largest ? b.value > value : b.value < value;
		return index != b.index ? b.index < index : vector_sign(b.value) != largest;
	}
};

template <class V> VECTOR_FN vector_words vector_choose_pairs(vector_words a, vector_words b, bool largest)
{
	constexpr int n = vector_pair<V>::WORDS;
#pragma unroll
	for (int i = 0; i < 4; i += n)
		if (vector_pair<V>(a.e + i).loses_to(vector_pair<V>(b.e + i), largest)) {
#pragma unroll
			for (int k = 0; k < n; k++)
				a.e[i + k] = b.e[i + k];
		}
	return a;
}

/* ---- Any of them ------------------------------------------------------------------------------------------------ */

VECTOR_FN vector_words vector_other_op(int type, int op, vector_words a, vector_words b)
{
	switch (type) {
	case CORALE_COMPLEX64:
		return vector_complex_product<float>(a, b);
	case CORALE_COMPLEX128:
		return vector_complex_product<double>(a, b);
	case CORALE_PAIR_FLOAT32:
		return vector_choose_pairs<float>(a, b, op == CORALE_MAX_LOC);
	case CORALE_PAIR_FLOAT64:
		return vector_choose_pairs<double>(a, b, op == CORALE_MAX_LOC);
	case CORALE_PAIR_INT64:
		return vector_choose_pairs<int64_t>(a, b, op == CORALE_MAX_LOC);
	case CORALE_PAIR_INT32:
		return vector_choose_pairs<int32_t>(a, b, op == CORALE_MAX_LOC);
	case CORALE_PAIR_INT16:
		return vector_choose_pairs<int16_t>(a, b, op == CORALE_MAX_LOC);
	default:
		return vector_bits(type, op, a, b);
	}
}

/* NaNs become canonical: every part of a complex number, or only the first one of each two. */
template <class F> VECTOR_FN vector_words vector_finish_floats(vector_words v, int step, F canonical(F))
{
	vector_elements<F> parts = vector_as<vector_elements<F>>(vector_of(v));
#pragma unroll
	for (int i = 0; i < (int)(sizeof(vector) / sizeof(F)); i++)
		if (i % step == 0)
			parts.e[i] = canonical(parts.e[i]);
	return vector_as<vector_words>(vector_of(parts));
}

/* As it is stored: the gaps of pairs are 0. */
VECTOR_FN vector_words vector_other_finish(int type, vector_words v)
{
	if (type == CORALE_COMPLEX64 || type == CORALE_PAIR_FLOAT32)
		v = vector_finish_floats(v, type == CORALE_COMPLEX64 ? 1 : 2, float_canonical);
	if (type == CORALE_COMPLEX128 || type == CORALE_PAIR_FLOAT64)
		v = vector_finish_floats(v, type == CORALE_COMPLEX128 ? 1 : 2, double_canonical);
	if (type == CORALE_PAIR_FLOAT64 || type == CORALE_PAIR_INT64)
		v.e[3] = 0;
	if (type == CORALE_PAIR_INT16) {
		v.e[0] &= 0xffff;
		v.e[2] &= 0xffff;
	}
	return v;
}

/* The running fold of one vector; op: codelet_op. */
template <> struct vector_sum<VECTOR_OTHER> {
	vector_words sum = {}; /* so that compilers see it set */

	VECTOR_FN void start(vector v)
	{
		sum = vector_as<vector_words>(v);
	}
	VECTOR_FN void add(vector v, int op)
	{
		sum = vector_other_op(codelet_op_type(op), codelet_op_kind(op), sum, vector_as<vector_words>(v));
	}
	VECTOR_FN vector finish(int op, int ranks)
	{
		return vector_of(vector_other_finish(codelet_op_type(op), sum));
	}
};

#endif
