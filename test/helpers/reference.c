/* SPDX-License-Identifier: BSD-3-Clause */
/* Says what each rank must hold after each collective, without the library and without moving data. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference.h"
#include "reference_type.h"
#include "reference_wide.h"

/* Work goes in aligned blocks of indices, so that the upper half of an index is constant within one. */
enum { BLOCK = 512 };

struct block {
	union {
		double real[BLOCK];
		uint64_t whole[BLOCK]; /* integers, sign-extended */
	};
};

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void hash_block(const struct reference *ref, int rank, int salt, uint64_t first, size_t n,
		       uint32_t *out)
{
	uint64_t key = mix(mix(mix(ref->seed) + (uint64_t)rank * 2 + (uint64_t)salt) ^ first >> 32);
	uint32_t low = (uint32_t)first, add = (uint32_t)key, flip = (uint32_t)(key >> 32);
	for (size_t i = 0; i < n; i++) {
		uint32_t x = ((low + (uint32_t)i) * 0x9e3779b1u + add) ^ flip;
		x = (x ^ x >> 15) * 0x85ebca77u;
		x = (x ^ x >> 13) * 0xc2b2ae3du;
		out[i] = x ^ x >> 16;
	}
}

static uint64_t extend(const struct reference_type *t, uint64_t x)
{
	int drop = 64 - 8 * t->bytes;
	return t->is_signed ? (uint64_t)((int64_t)(x << drop) >> drop) : x << drop >> drop;
}

/* Random bits; for averages small enough that the sum does not wrap, for what a wrapped sum's average is nobody asks. */
static void draw_whole(const struct reference *ref, int rank, uint64_t first, size_t n, uint64_t *out)
{
	const struct reference_type *t = reference_type(ref->type);
	uint32_t low[BLOCK], high[BLOCK];
	hash_block(ref, rank, 0, first, n, low);
	if (t->bytes == 8)
		hash_block(ref, rank, 1, first, n, high);
	else
		memset(high, 0, n * sizeof(*high));
	for (size_t i = 0; i < n; i++)
		out[i] = extend(t, low[i] | (uint64_t)high[i] << 32);
	if (ref->op >= CORALE_LOGICAL_AND && ref->op <= CORALE_LOGICAL_XOR)
		for (size_t i = 0; i < n; i++) /* both results occur with any number of ranks */
			out[i] = low[i] >> 8 & 1 || (low[i] >> 9) % (uint32_t)ref->ranks ? out[i] : 0;
	if (t->is_bool && ref->op != REFERENCE_COPY)
		for (size_t i = 0; i < n; i++)
			out[i] = ref->op >= CORALE_LOGICAL_AND ? out[i] != 0 : out[i] & 1;
	if (ref->op != CORALE_AVG)
		return;
	for (size_t i = 0; i < n; i++)
		out[i] =
		    t->is_signed ? (uint64_t)((int64_t)out[i] / ref->ranks) : out[i] / (uint64_t)ref->ranks;
}

static void draw_special(const struct reference *ref, const uint32_t *hash, size_t n, double *out)
{
	const struct reference_type *t = reference_type(ref->type);
	int ends = ref->op == CORALE_MIN || ref->op == CORALE_MAX;
	double infinity =
	    t->saturates ? 1 : INFINITY; /* what saturation makes of an infinity is not laid down */
	double least = ldexp(1, t->min_exponent - t->digits + 1);
	const double table[] = { 0,  -0.0, 1,    -1, infinity, -infinity, 0,       -0.0,  1,
				 -1, 0,    -0.0, 1,  -1,       t->max,    -t->max, least, -least };
	for (size_t i = 0; i < n; i++) {
		if (hash[i] % 32 == 0) /* rarely, or every result is a NaN */
			out[i] = hash[i] & 64 ? NAN : -NAN;
		else
			out[i] = table[(hash[i] >> 8) % (ends ? 18 : 14)];
	}
}

/* The largest integer that all may contribute so that every partial sum is exact. */
static int64_t exact_limit(const struct reference *ref, int digits)
{
	int64_t limit = (int64_t)1 << (digits < 31 ? digits : 31);
	if (ref->op == CORALE_MIN || ref->op == CORALE_MAX)
		return limit - 1;
	return limit / ref->ranks / (ref->op == CORALE_NUM_OPS ? 2 : 1); /* scalars are at most 2 */
}

static void draw_sum(const struct reference *ref, int rank, uint64_t first, const uint32_t *hash, size_t n,
		     double *out)
{
	int digits = reference_type(ref->type)->digits;
	int64_t limit = exact_limit(ref, digits);
	double scale = 1;
	if (ref->data == REFERENCE_RANDOM) {
		limit = (int64_t)1 << (digits < 31 ? digits : 31);
		scale = 1.0 / (double)limit;
	}
	uint64_t values = 2 * (uint64_t)limit + 1;
	for (size_t i = 0; i < n; i++)
		out[i] = scale * (double)((int64_t)(hash[i] * values >> 32) - limit);
	if (limit == 0) { /* more ranks than the type can count: some contribute 1 */
		uint64_t stride = (2 * (uint64_t)ref->ranks >> digits) + 1;
		for (size_t i = 0; i < n; i++)
			out[i] = ((uint64_t)rank + first + i) % stride == 0;
	}
	if (ref->data == REFERENCE_RANDOM && digits > 31) { /* the rest of the significand */
		uint32_t rest[BLOCK];
		hash_block(ref, rank, 1, first, n, rest);
		for (size_t i = 0; i < n; i++)
			out[i] += (double)(rest[i] >> 12) * 0x1p-53;
	}
}

static void draw_product(const struct reference *ref, int rank, uint64_t first, const uint32_t *hash,
			 size_t n, double *out)
{
	int digits = reference_type(ref->type)->digits < 31 ? reference_type(ref->type)->digits : 31;
	uint64_t values = ((uint64_t)1 << (digits - 1)) / (uint64_t)ref->ranks + 1;
	for (size_t i = 0; i < n; i++) {
		double a = 1;
		if (ref->data == REFERENCE_RANDOM) /* at most 1 + 1/ranks, so the product stays below e */
			a += ldexp((double)((hash[i] >> 1) * values >> 31), 1 - digits);
		else if (((uint64_t)rank + first + i) % (uint64_t)ref->ranks < 3)
			a = 2;
		out[i] = hash[i] & 1 ? -a : a;
	}
}

static void draw_real(const struct reference *ref, int rank, uint64_t first, size_t n, double *out)
{
	uint32_t hash[BLOCK];
	hash_block(ref, rank, 0, first, n, hash);
	if (ref->data == REFERENCE_SPECIAL)
		draw_special(ref, hash, n, out);
	else if (ref->op == CORALE_PROD)
		draw_product(ref, rank, first, hash, n, out);
	else
		draw_sum(ref, rank, first, hash, n, out);
}

static int is_whole(const struct reference *ref)
{
	return ref->op == REFERENCE_COPY || reference_type(ref->type)->digits == 0;
}

static void store(const struct reference *ref, const struct block *block, size_t n, void *buf)
{
	size_t bytes = (size_t)reference_type(ref->type)->bytes;
	if (!is_whole(ref)) {
		reference_encode(ref->type, block->real, n, buf);
		return;
	}
	for (size_t i = 0; i < n;
	     i++) /* the low bytes come first: this project runs on little-endian machines */
		memcpy((unsigned char *)buf + i * bytes, &block->whole[i], bytes);
}

static void draw(const struct reference *ref, int rank, uint64_t first, size_t n, struct block *block)
{
	if (is_whole(ref))
		draw_whole(ref, rank, first, n, block->whole);
	else
		draw_real(ref, rank, first, n, block->real);
}

static size_t block_length(size_t first, size_t left)
{
	size_t n = BLOCK - first % BLOCK;
	return n < left ? n : left;
}

/* Complex numbers are added as their parts, and what is only moved is integers: the reference of those, and in *parts how many are in an element.
 * 0: reference_wide.c has it. */
static int reference_of_parts(const struct reference *ref, struct reference *of, size_t *parts)
{
	*of = *ref;
	*parts = 1;
	if (!reference_is_wide(ref->type))
		return 1;
	if (ref->op == REFERENCE_COPY) {
		of->type = CORALE_UINT64;
		*parts = (size_t)reference_type(ref->type)->bytes / 8;
		return 1;
	}
	of->type = ref->type == CORALE_COMPLEX64 ? CORALE_FLOAT32 : CORALE_FLOAT64;
	*parts = 2;
	return ref->op == CORALE_SUM || ref->op == CORALE_AVG;
}

void reference_fill(const struct reference *whole, int rank, size_t first, size_t count, void *buf)
{
	struct reference part;
	const struct reference *ref = &part;
	size_t parts;
	if (!reference_of_parts(whole, &part, &parts)) {
		reference_wide_fill(whole, rank, first, count, buf);
		return;
	}
	first *= parts;
	count *= parts;
	size_t bytes = (size_t)reference_type(ref->type)->bytes;
	for (size_t done = 0, n; done < count; done += n) {
		struct block block;
		n = block_length(first + done, count - done);
		draw(ref, rank, first + done, n, &block);
		store(ref, &block, n, (unsigned char *)buf + done * bytes);
	}
}

static double real_scalar(const struct reference *ref, int rank)
{
	if (ref->data == REFERENCE_RANDOM)
		return rank % 2 ? 0.75 : -1.25;
	if (ref->data == REFERENCE_SPECIAL)
		return rank % 2 ? -1 : 1;
	return rank % 2 ? -1 : 2;
}

static uint64_t whole_scalar(const struct reference *ref, int rank)
{
	return extend(reference_type(ref->type), mix(ref->seed ^ (uint64_t)rank));
}

void reference_scalar(const struct reference *ref, int rank, void *scalar)
{
	struct block block;
	if (is_whole(ref))
		block.whole[0] = whole_scalar(ref, rank);
	else
		block.real[0] = real_scalar(ref, rank);
	store(ref, &block, 1, scalar);
}

static int below(const struct reference_type *t, uint64_t a, uint64_t b)
{
	return t->is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t fold_bits(corale_op op, uint64_t a, uint64_t b)
{
	const int is_logical = op >= CORALE_LOGICAL_AND;
	const uint64_t x = is_logical ? a != 0 : a, y = is_logical ? b != 0 : b;
	if (op == CORALE_BIT_AND || op == CORALE_LOGICAL_AND)
		return x & y;
	return op == CORALE_BIT_OR || op == CORALE_LOGICAL_OR ? x | y : x ^ y;
}

static void fold_whole(const struct reference *ref, int rank, const uint64_t *in, size_t n, uint64_t *sum)
{
	const struct reference_type *t = reference_type(ref->type);
	uint64_t scalar = ref->op == CORALE_NUM_OPS ? whole_scalar(ref, rank) : 1;
	for (size_t i = 0; i < n; i++) {
		uint64_t x = in[i] * scalar;
		if (rank == 0)
			sum[i] = x;
		else if (ref->op == CORALE_PROD)
			sum[i] *= x;
		else if (ref->op == CORALE_MIN)
			sum[i] = below(t, x, sum[i]) ? x : sum[i];
		else if (ref->op == CORALE_MAX)
			sum[i] = below(t, sum[i], x) ? x : sum[i];
		else if (ref->op >= CORALE_BIT_AND && ref->op <= CORALE_LOGICAL_XOR)
			sum[i] = fold_bits(ref->op, sum[i], x);
		else
			sum[i] += x;
	}
}

static double lesser(double a, double b)
{
	if (isnan(a) || isnan(b))
		return NAN;
	if (a == b)
		return signbit(a) ? a : b;
	return a < b ? a : b;
}

static void fold_real(const struct reference *ref, int rank, const double *in, size_t n, double *sum)
{
	double scalar = ref->op == CORALE_NUM_OPS ? real_scalar(ref, rank) : 1;
	for (size_t i = 0; i < n; i++) {
		double x = in[i] * scalar;
		if (rank == 0)
			sum[i] = x;
		else if (ref->op == CORALE_PROD)
			sum[i] *= x;
		else if (ref->op == CORALE_MIN)
			sum[i] = lesser(sum[i], x);
		else if (ref->op == CORALE_MAX)
			sum[i] = -lesser(-sum[i], -x);
		else
			sum[i] += x;
	}
}

static void finish(const struct reference *ref, size_t n, struct block *sum)
{
	const struct reference_type *t = reference_type(ref->type);
	if (ref->op != CORALE_AVG)
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t x = extend(t, sum->whole[i]);
		if (t->digits == 53)
			sum->real[i] /= ref->ranks;
		else if (t->digits)
			sum->real[i] = (float)sum->real[i] / (float)ref->ranks; /* one division in float32 */
		else if (t->is_signed)
			sum->whole[i] = (uint64_t)((int64_t)x / ref->ranks);
		else
			sum->whole[i] = x / (uint64_t)ref->ranks;
	}
}

/*
 * What rounding may do to one element. Sums: contributions are at most 1.25, partial sums at most 1.25 n, and each
 * of n additions, the scaling and the reference's own arithmetic err by half a unit in the last place of those.
 */
static double tolerance(const struct reference *ref, double expected)
{
	double unit = ldexp(1, -reference_type(ref->type)->digits), n = ref->ranks;
	if (ref->op == CORALE_PROD)
		return 2 * (n + 1) * unit * fabs(expected);
	if (ref->op == CORALE_AVG)
		return 2 * (n + 2) * unit;
	return 2 * (n + 1) * (n + 1) * unit;
}

static int differs(const struct reference *ref, const unsigned char *got, const unsigned char *expected)
{
	const struct reference_type *t = reference_type(ref->type);
	double g, e;
	if (memcmp(got, expected, (size_t)t->bytes) == 0)
		return 0;
	if (is_whole(ref))
		return 1;
	reference_decode(ref->type, got, 1, &g);
	reference_decode(ref->type, expected, 1, &e);
	if (isnan(g) && isnan(e))
		return 0;
	if (ref->data != REFERENCE_RANDOM || ref->op == CORALE_MIN || ref->op == CORALE_MAX)
		return 1;
	return !(fabs(g - e) <= tolerance(ref, e));
}

static void describe(const struct reference *ref, const unsigned char *element, char *text, size_t bytes)
{
	const struct reference_type *t = reference_type(ref->type);
	uint64_t raw = 0;
	double real;
	memcpy(&raw, element, (size_t)t->bytes);
	if (t->digits && ref->op != REFERENCE_COPY) {
		reference_decode(ref->type, element, 1, &real);
		snprintf(text, bytes, "%.17g (0x%llx)", real, (unsigned long long)raw);
	} else {
		snprintf(text, bytes, "0x%llx", (unsigned long long)raw);
	}
}

/* Wrong elements of one block; index: of its first element in the caller's buffer. */
static size_t compare(const struct reference *ref, const struct block *block, size_t n,
		      const unsigned char *got, size_t index, size_t wrong_before,
		      struct reference_fault *fault)
{
	unsigned char expected[BLOCK * 8];
	size_t bytes = (size_t)reference_type(ref->type)->bytes, wrong = 0;
	store(ref, block, n, expected);
	if (memcmp(got, expected, n * bytes) == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!differs(ref, got + i * bytes, expected + i * bytes))
			continue;
		if (fault && wrong_before + wrong == 0) {
			fault->index = index + i;
			describe(ref, got + i * bytes, fault->got, sizeof(fault->got));
			describe(ref, expected + i * bytes, fault->expected, sizeof(fault->expected));
		}
		wrong++;
	}
	return wrong;
}

size_t reference_check_copy(const struct reference *whole, int source, size_t first, size_t count,
			    const void *buf, struct reference_fault *fault)
{
	struct reference part;
	const struct reference *ref = &part;
	size_t parts;
	reference_of_parts(whole, &part, &parts);
	first *= parts;
	count *= parts;
	size_t bytes = (size_t)reference_type(ref->type)->bytes, wrong = 0;
	for (size_t done = 0, n; done < count; done += n) {
		struct block block;
		n = block_length(first + done, count - done);
		draw(ref, source, first + done, n, &block);
		wrong +=
		    compare(ref, &block, n, (const unsigned char *)buf + done * bytes, done, wrong, fault);
	}
	return wrong;
}

size_t reference_check_fold(const struct reference *whole, size_t first, size_t count, const void *buf,
			    struct reference_fault *fault)
{
	struct reference part;
	const struct reference *ref = &part;
	size_t parts;
	if (!reference_of_parts(whole, &part, &parts))
		return reference_wide_check(whole, first, count, buf, fault);
	first *= parts;
	count *= parts;
	size_t bytes = (size_t)reference_type(ref->type)->bytes, wrong = 0;
	for (size_t done = 0, n; done < count; done += n) {
		struct block in, sum;
		n = block_length(first + done, count - done);
		for (int rank = 0; rank < ref->ranks; rank++) {
			draw(ref, rank, first + done, n, &in);
			if (is_whole(ref))
				fold_whole(ref, rank, in.whole, n, sum.whole);
			else
				fold_real(ref, rank, in.real, n, sum.real);
		}
		finish(ref, n, &sum);
		wrong += compare(ref, &sum, n, (const unsigned char *)buf + done * bytes, done, wrong, fault);
	}
	return wrong;
}

uint64_t reference_digest(const void *buf, size_t bytes)
{
	const unsigned char *in = buf;
	uint64_t digest = mix(bytes), word = 0;
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		memcpy(&word, in + i, 8);
		digest = (digest ^ word) * 0x9fb21c651e98df25u;
		digest ^= digest >> 32;
	}
	word = 0;
	memcpy(&word, in + bytes / 8 * 8, bytes % 8);
	return mix(digest ^ word);
}
