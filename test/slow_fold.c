#include "slow_fold.h"

#include <math.h>
#include <string.h>

#include "slow_float.h"
#include "base/status.h"

struct value {
	double f; /* floats */
	__int128 whole; /* integers, exact */
};

/* Wraps to the type's width, by arithmetic. */
static __int128 wrap(corale_type type, __int128 whole)
{
	__int128 span = (__int128)1 << 8 * corale_type_bytes(type);
	int is_signed = corale_type_name(type)[0] == 'i';
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
	corale_type type = input->kind == REDUCE_WIRE ? spec->wire : spec->type;
	struct value v = read_element(type, input->data, i);

	if (spec->op != CORALE_NUM_OPS || input->kind != REDUCE_SEND)
		return v;
	write_element(type, combine(type, CORALE_PROD, v, read_element(type, spec->scalar, 0)), rounded);
	return read_element(type, rounded, 0);
}

void slow_fold(const struct reduce_spec *spec, const struct reduce_input *inputs, int k, size_t i,
	       int dst_wire, int final, void *result)
{
	corale_type out = dst_wire ? spec->wire : spec->type,
		    in = inputs[0].kind == REDUCE_WIRE ? spec->wire : spec->type;
	int divides = final && spec->op == CORALE_AVG && spec->ranks > 1;
	int scales = spec->op == CORALE_NUM_OPS && inputs[0].kind == REDUCE_SEND;
	size_t bytes = corale_type_bytes(out);
	struct value v = read_input(spec, &inputs[0], i);

	if (k == 1 && in == out && !divides && !scales) {
		memcpy(result, (const char *)inputs[0].data + i * bytes, bytes);
		return;
	}
	for (int j = 1; j < k; j++)
		v = combine(spec->type, spec->op, v, read_input(spec, &inputs[j], i));
	if (divides) {
		v.f = computed(spec->type, v.f / spec->ranks);
		v.whole /= spec->ranks;
	}
	write_element(out, v, result);
}
