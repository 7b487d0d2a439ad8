/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds one element at a time in double and in 128-bit integers. */
#include "slow_fold.h"

#include <math.h>
#include <string.h>

#include "slow_float.h"
#include "base/status.h"
#include "base/types.h"

struct value {
	double f; /* floats */
	__int128 whole; /* integers, exact */
};

/* Wraps to the type's width, by arithmetic. */
static __int128 wrap(corale_type type, __int128 whole)
{
	__int128 span = (__int128)1 << 8 * corale_type_bytes(type);
	int is_signed = type_rows[type].kind == TYPE_SIGNED;
	whole %= span;
	whole += whole < 0 ? span : 0;
	return is_signed && whole >= span / 2 ? whole - span : whole;
}

static struct value read_element(corale_type type, const void *data, size_t i)
{
	size_t bytes = corale_type_bytes(type);
	struct value v = { 0, 0 };
	uint64_t bits = 0;
	float f;

	memcpy(&bits, (const char *)data + i * bytes, bytes);
	if (slow_is_narrow(type)) {
		v.f = slow_widen(type, (uint32_t)bits);
	} else if (type == CORALE_FLOAT32) {
		memcpy(&f, &bits, sizeof(f));
		v.f = f;
	} else if (type == CORALE_FLOAT64) {
		memcpy(&v.f, &bits, sizeof(v.f));
	} else {
		v.whole = wrap(type, bits);
	}
	return v;
}

static void write_element(corale_type type, struct value v, void *result)
{
	uint64_t bits;
	float f = (float)v.f;
	uint32_t narrow;

	if (slow_is_narrow(type)) {
		bits = slow_narrow(type, v.f);
	} else if (type == CORALE_FLOAT32) {
		memcpy(&narrow, &f, sizeof(narrow));
		bits = isnan(f) ? 0x7fffffff : narrow;
	} else if (type == CORALE_FLOAT64) {
		memcpy(&bits, &v.f, sizeof(bits));
		bits = isnan(v.f) ? 0x7fffffffffffffff : bits;
	} else {
		bits = (uint64_t)v.whole;
	}
	memcpy(result, &bits, corale_type_bytes(type));
}

/* One rounding to float32, or none for float64: a double holds any sum, product or quotient of two floats well
 * enough that rounding it again gives what one rounding would have given. */
static double computed(corale_type type, double f)
{
	return type == CORALE_FLOAT64 ? f : (double)(float)f;
}

static int precedes(struct value a, struct value b, int is_float)
{
	if (!is_float)
		return a.whole < b.whole;
	return a.f < b.f || (a.f == b.f && signbit(a.f) && !signbit(b.f));
}

static struct value extreme(struct value a, struct value b, int is_float, int largest)
{
	if (is_float && (isnan(a.f) || isnan(b.f)))
		return (struct value){ NAN, 0 };
	return precedes(a, b, is_float) == largest ? b : a;
}

static __int128 bits_of(corale_op op, __int128 a, __int128 b)
{
	switch (op) {
	case CORALE_BIT_AND:
		return a & b;
	case CORALE_BIT_OR:
		return a | b;
	case CORALE_BIT_XOR:
		return a ^ b;
	case CORALE_LOGICAL_AND:
		return a && b;
	case CORALE_LOGICAL_OR:
		return a || b;
	default:
		return !a != !b;
	}
}

static struct value combine(corale_type type, corale_op op, struct value a, struct value b)
{
	struct value r = { 0, 0 };

	if (op == CORALE_MIN || op == CORALE_MAX)
		return extreme(a, b, type_is_float(type), op == CORALE_MAX);
	if (op >= CORALE_BIT_AND && op <= CORALE_LOGICAL_XOR) {
		r.whole = wrap(type, bits_of(op, a.whole, b.whole));
		return r;
	}
	if (op == CORALE_PROD) {
		r.f = computed(type, a.f * b.f);
		r.whole = (__int128)((unsigned __int128)a.whole * (unsigned __int128)b.whole);
	} else {
		r.f = computed(type, a.f + b.f);
		r.whole = a.whole + b.whole;
	}
	r.whole = wrap(type, r.whole);
	return r;
}

static struct value read_input(const struct reduce_spec *spec, const struct reduce_input *input, size_t i)
{
	unsigned char rounded[8];
	corale_type type = spec->type;
	struct value v = read_element(type, input->data, i);

	if (spec->op != CORALE_NUM_OPS || input->kind != REDUCE_SEND)
		return v;
	write_element(type, combine(type, CORALE_PROD, v, read_element(type, spec->scalar, 0)), rounded);
	return read_element(type, rounded, 0);
}

/* ---- Complex numbers and pairs ---- */

static void fold_complex(const struct reduce_spec *spec, const struct reduce_input *inputs, int k, size_t i,
			 int final, void *result)
{
	struct reduce_spec part = *spec;
	part.type = (corale_type)type_rows[spec->type].part;
	const size_t bytes = corale_type_bytes(part.type);
	struct value a, b, c, d, real, imaginary;
	if (spec->op != CORALE_PROD) {
		for (size_t j = 0; j < 2; j++)
			slow_fold(&part, inputs, k, 2 * i + j, final, (char *)result + j * bytes);
		return;
	}
	a = read_element(part.type, inputs[0].data, 2 * i);
	b = read_element(part.type, inputs[0].data, 2 * i + 1);
	for (int j = 1; j < k; j++) {
		c = read_element(part.type, inputs[j].data, 2 * i);
		d = read_element(part.type, inputs[j].data, 2 * i + 1);
		real.f = computed(part.type, computed(part.type, a.f * c.f) - computed(part.type, b.f * d.f));
		imaginary.f =
		    computed(part.type, computed(part.type, a.f * d.f) + computed(part.type, b.f * c.f));
		a = real;
		b = imaginary;
	}
	write_element(part.type, a, result);
	write_element(part.type, b, (char *)result + bytes);
}

/* How a pair compares: negative if a is the result, positive if b is. */
static int rank_pairs(struct value a, int32_t a_index, struct value b, int32_t b_index, int is_float,
		      int largest)
{
	const int a_nan = is_float && isnan(a.f), b_nan = is_float && isnan(b.f);
	if (a_nan != b_nan)
		return a_nan ? -1 : 1;
	if (!a_nan && (is_float ? a.f != b.f : a.whole != b.whole))
		return (is_float ? a.f < b.f : a.whole < b.whole) != largest ? -1 : 1;
	if (a_index != b_index)
		return a_index < b_index ? -1 : 1;
	if (!is_float || a_nan || !signbit(a.f) == !signbit(b.f))
		return 0;
	return !!signbit(a.f) != largest ? -1 : 1;
}

static void fold_pair(const struct reduce_spec *spec, const struct reduce_input *inputs, int k, size_t i,
		      void *result)
{
	const corale_type part = (corale_type)type_rows[spec->type].part;
	const size_t bytes = corale_type_bytes(spec->type), at = bytes == 16 ? 8 : 4;
	struct value best = { 0, 0 };
	int32_t best_index = 0;
	for (int j = 0; j < k; j++) {
		const char *in = (const char *)inputs[j].data + i * bytes;
		const struct value v = read_element(part, in, 0);
		int32_t index;
		memcpy(&index, in + at, sizeof index);
		if (j && rank_pairs(best, best_index, v, index, type_is_float(part),
				    spec->op == CORALE_MAX_LOC) <= 0)
			continue;
		best = v;
		best_index = index;
	}
	memset(result, 0, bytes);
	write_element(part, best, result);
	memcpy((char *)result + at, &best_index, sizeof best_index);
}

void slow_fold(const struct reduce_spec *spec, const struct reduce_input *inputs, int k, size_t i, int final,
	       void *result)
{
	const int kind = type_rows[spec->type].kind;
	if (k > 1 && kind == TYPE_PAIR) {
		fold_pair(spec, inputs, k, i, result);
		return;
	}
	if (kind == TYPE_COMPLEX && (k > 1 || spec->op == CORALE_AVG)) {
		fold_complex(spec, inputs, k, i, final, result);
		return;
	}
	if (kind == TYPE_COMPLEX || kind == TYPE_PAIR) {
		const size_t bytes = corale_type_bytes(spec->type);
		memcpy(result, (const char *)inputs[0].data + i * bytes, bytes);
		return;
	}
	int divides = final && spec->op == CORALE_AVG && spec->ranks > 1;
	int scales = spec->op == CORALE_NUM_OPS && inputs[0].kind == REDUCE_SEND;
	size_t bytes = corale_type_bytes(spec->type);
	struct value v = read_input(spec, &inputs[0], i);

	if (k == 1 && !divides && !scales) {
		memcpy(result, (const char *)inputs[0].data + i * bytes, bytes);
		return;
	}
	for (int j = 1; j < k; j++)
		v = combine(spec->type, spec->op, v, read_input(spec, &inputs[j], i));
	if (divides) {
		v.f = computed(spec->type, v.f / spec->ranks);
		v.whole /= spec->ranks;
	}
	write_element(spec->type, v, result);
}
