/* SPDX-License-Identifier: BSD-3-Clause */
/* Complex products and pairs: what they contribute, and what comes of it. All else of these types reference.c has as their parts, or as integers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference_wide.h"

enum { MOST = 16 }; /* bytes of an element */

static const struct wide {
	uint8_t bytes, value_bytes, is_float, index_at; /* index_at: of pairs; 0: a complex number */
} rows[CORALE_NUM_TYPES] = {
	[CORALE_COMPLEX64] = { 8, 4, 1, 0 },    [CORALE_COMPLEX128] = { 16, 8, 1, 0 },
	[CORALE_PAIR_FLOAT32] = { 8, 4, 1, 4 }, [CORALE_PAIR_FLOAT64] = { 16, 8, 1, 8 },
	[CORALE_PAIR_INT64] = { 16, 8, 0, 8 },  [CORALE_PAIR_INT32] = { 8, 4, 0, 4 },
	[CORALE_PAIR_INT16] = { 8, 2, 0, 4 },
};

int reference_is_wide(corale_type type)
{
	return rows[type].bytes != 0;
}

static uint64_t hash(const struct reference *ref, int rank, uint64_t index)
{
	uint64_t x = ref->seed * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xbf58476d1ce4e5b9u + index;
	for (int i = 0; i < 3; i++)
		x = (x ^ x >> 29) * 0x94d049bb133111ebu;
	return x ^ x >> 32;
}

static void put(const struct wide *w, unsigned char *at, double value)
{
	const float f = (float)value;
	if (w->is_float)
		memcpy(at, w->value_bytes == 4 ? (const void *)&f : &value, w->value_bytes);
	else
		memcpy(at, &(int64_t){ (int64_t)value }, w->value_bytes);
}

/* A unit, and of few ranks twice that, so that products of any grouping are exact. */
static void complex_of(const struct reference *ref, int rank, uint64_t index, double out[2])
{
	const uint64_t h = hash(ref, rank, index);
	const double length = ((uint64_t)rank + index) % (uint64_t)ref->ranks < 3 ? 2 : 1;
	out[0] = h & 1 ? 0 : h & 2 ? -length : length;
	out[1] = h & 1 ? (h & 2 ? -length : length) : 0;
}

struct pair {
	double value;
	int32_t index;
};

/* Few values and indices, so that ties are common; of floats NaNs and zeros of both signs, too. */
static struct pair pair_of(const struct reference *ref, int rank, uint64_t index)
{
	const uint64_t h = hash(ref, rank, index);
	const int is_float = rows[ref->type].is_float;
	struct pair p = { (double)(h % 5) - 2, (int32_t)(h >> 8 & 7) - 3 };
	if (is_float && p.value == 0 && h >> 16 & 1)
		p.value = -0.0;
	if (is_float && ref->data == REFERENCE_SPECIAL && (h >> 20) % 16 == 0)
		p.value = h >> 17 & 1 ? -NAN : NAN;
	return p;
}

void reference_wide_fill(const struct reference *ref, int rank, size_t first, size_t count, void *buf)
{
	const struct wide *w = &rows[ref->type];
	unsigned char *at = buf;
	for (size_t i = 0; i < count; i++, at += w->bytes) {
		double parts[2];
		memset(at, 0xee, w->bytes); /* gaps are no zeros */
		if (!w->index_at) {
			complex_of(ref, rank, first + i, parts);
			put(w, at, parts[0]);
			put(w, at + w->value_bytes, parts[1]);
			continue;
		}
		const struct pair p = pair_of(ref, rank, first + i);
		put(w, at, p.value);
		memcpy(at + w->index_at, &p.index, sizeof p.index);
	}
}

/* In how far a comes before b: the key of its value, then the index. */
static int precedes(const struct pair *a, const struct pair *b, int largest)
{
	if (isnan(a->value) != isnan(b->value))
		return isnan(a->value);
	if (!isnan(a->value) && a->value != b->value)
		return (a->value > b->value) == largest;
	if (a->index != b->index)
		return a->index < b->index;
	return (signbit(a->value) != 0) != largest && (signbit(b->value) != 0) == largest;
}

static void expected_pair(const struct reference *ref, uint64_t index, unsigned char *out)
{
	const struct wide *w = &rows[ref->type];
	struct pair best = pair_of(ref, 0, index);
	const uint64_t nan64 = 0x7fffffffffffffff;
	for (int r = 1; r < ref->ranks; r++) {
		const struct pair p = pair_of(ref, r, index);
		best = precedes(&p, &best, ref->op == CORALE_MAX_LOC) ? p : best;
	}
	memset(out, ref->ranks > 1 ? 0 : 0xee, w->bytes);
	put(w, out, best.value);
	if (ref->ranks > 1 && isnan(best.value)) /* canonical */
		memcpy(out, w->value_bytes == 4 ? (const void *)&(uint32_t){ 0x7fffffff } : &nan64,
		       w->value_bytes);
	memcpy(out + w->index_at, &best.index, sizeof best.index);
}

static void expected_complex(const struct reference *ref, uint64_t index, unsigned char *out)
{
	const struct wide *w = &rows[ref->type];
	double a[2], b[2];
	complex_of(ref, 0, index, a);
	for (int r = 1; r < ref->ranks; r++) {
		complex_of(ref, r, index, b);
		const double real = a[0] * b[0] - a[1] * b[1];
		a[1] = a[0] * b[1] + a[1] * b[0];
		a[0] = real;
	}
	put(w, out, a[0]);
	put(w, out + w->value_bytes, a[1]);
}

/* Zeros of both signs are equal in products, as grouping changes them. */
static int part_differs(const struct wide *w, const unsigned char *got, const unsigned char *expected)
{
	float f[2];
	double d[2];
	if (w->value_bytes == 4) {
		memcpy(&f[0], got, 4);
		memcpy(&f[1], expected, 4);
		return f[0] != f[1];
	}
	memcpy(&d[0], got, 8);
	memcpy(&d[1], expected, 8);
	return d[0] != d[1];
}

static int differs(const struct wide *w, const unsigned char *got, const unsigned char *expected)
{
	if (w->index_at)
		return memcmp(got, expected, w->bytes) != 0;
	return part_differs(w, got, expected) ||
	       part_differs(w, got + w->value_bytes, expected + w->value_bytes);
}

static void describe(const unsigned char *element, size_t bytes, char *text, size_t room)
{
	uint64_t words[2] = { 0 };
	memcpy(words, element, bytes);
	snprintf(text, room, "0x%llx 0x%llx", (unsigned long long)words[0], (unsigned long long)words[1]);
}

size_t reference_wide_check(const struct reference *ref, size_t first, size_t count, const void *buf,
			    struct reference_fault *fault)
{
	const struct wide *w = &rows[ref->type];
	const unsigned char *got = buf;
	size_t wrong = 0;
	for (size_t i = 0; i < count; i++, got += w->bytes) {
		unsigned char expected[MOST];
		if (w->index_at)
			expected_pair(ref, first + i, expected);
		else
			expected_complex(ref, first + i, expected);
		if (!differs(w, got, expected))
			continue;
		if (fault && !wrong) {
			fault->index = i;
			describe(got, w->bytes, fault->got, sizeof fault->got);
			describe(expected, w->bytes, fault->expected, sizeof fault->expected);
		}
		wrong++;
	}
	return wrong;
}
