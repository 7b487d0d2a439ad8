/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_fold, all types and operators and every vector level of its sums, bit for bit against slow_fold. */
#include <fenv.h>

#include "test/helpers/unit.h"
#include "base/float_env.h"
#include "reduce/reduce.h"
#include "test/helpers/op_sets.h"
#include "test/helpers/slow_float.h"
#include "test/helpers/slow_fold.h"

enum { MAX_K = 9, MAX_COUNT = 5000, MARGIN = 64, ROOM = MAX_COUNT * 16 + 2 * MARGIN };

struct bench {
	unsigned char *inputs[MAX_K], *dst;
	uint64_t random;
	int rounding, flushes; /* the environment of the thread that folds; 0, 0: the default one */
};

struct shape {
	struct reduce_spec spec;
	int k, final, in_place; /* in_place: which input dst is, or -1 */
	size_t count;
	int kinds[MAX_K], offsets[MAX_K], dst_offset;
};

/* A thread's environment, in bits; 0 where only its rounding mode is known. */
static uint64_t thread_env(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	return float_env_read();
#else
	return 0;
#endif
}

/* Flush to zero and denormals are zero, as a program that was linked with -ffast-math has them. */
static void set_env(const struct bench *b)
{
	fesetround(b->rounding);
#if defined(__x86_64__)
	float_env_write(float_env_read() | (b->flushes ? 0x8040 : 0));
#elif defined(__aarch64__)
	float_env_write(float_env_read() | (b->flushes ? (float_env)1 << 24 : 0));
#endif
}

static void fold_there(const struct bench *b, const struct shape *s, unsigned char *dst,
		       const struct reduce_input *inputs)
{
	set_env(b);
	const uint64_t env = thread_env();
	reduce_fold(&s->spec, dst, inputs, s->k, s->count, s->final);
	const uint64_t after = thread_env();
	const int rounding = fegetround();
	fesetenv(FE_DFL_ENV);
	/* flags may be added in the default environment only */
	if (rounding != b->rounding || ((b->rounding || b->flushes) && after != env))
		fail_msg("reduce_fold has changed the thread's environment from %llx to %llx",
			 (unsigned long long)env, (unsigned long long)after);
}

static uint64_t draw(struct bench *b)
{
	b->random = b->random * 6364136223846793005u + 1442695040888963407u;
	return b->random >> 33;
}

static int setup(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));
	for (int i = 0; i < MAX_K; i++)
		b->inputs[i] = malloc(ROOM);
	b->dst = malloc(ROOM);
	b->random = 1;
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	for (int i = 0; i < MAX_K; i++)
		free(b->inputs[i]);
	free(b->dst);
	free(b);
	return 0;
}

/* One element: mostly ordinary numbers, sometimes any bits, sometimes an edge of the type. */
static uint64_t element(struct bench *b, corale_type type)
{
	static const uint64_t edges32[] = { 0,          0x80000000, 1,          0x80000001,
					    0x7f800000, 0xff800000, 0x7f800001, 0xffc00001,
					    0x7f7fffff, 0xff7fffff, 0x007fffff };
	static const uint64_t edges64[] = { 0,
					    1ull << 63,
					    1,
					    0x7ff0000000000000,
					    0xfff0000000000000,
					    0x7ff0000000000001,
					    0x7fefffffffffffff,
					    0xffffffffffffffff };
	uint64_t any = draw(b) << 33 ^ draw(b) << 11 ^ draw(b), choice = draw(b) % 8, bits = 0;
	double number = ((double)(draw(b) % 2001) - 1000) / (double)(1 + draw(b) % 16);
	float narrow = (float)number;

	if (choice == 0)
		return any;
	if (slow_is_narrow(type))
		return choice == 1 ? slow_nan(type) - draw(b) % 4 : slow_narrow(type, number);
	if (type == CORALE_FLOAT32) {
		memcpy(&bits, &narrow, sizeof(narrow));
		return choice == 1 ? edges32[any % 11] : bits;
	}
	if (type == CORALE_FLOAT64) {
		memcpy(&bits, &number, sizeof(number));
		return choice == 1 ? edges64[any % 8] : bits;
	}
	return choice == 1 ? edges64[any % 8] : (uint64_t)(int64_t)number;
}

static void fill_pair(struct bench *b, corale_type type, uint64_t value, unsigned char *at)
{
	const int32_t index = (int32_t)(draw(b) % 7) - 3;
	memset(at, 0xee, corale_type_bytes(type));
	memcpy(at, draw(b) % 3 ? &value : &(uint64_t){ 0 }, type_rows[type_rows[type].part].bytes);
	memcpy(at + type_index_at(type), &index, sizeof index);
}

static void fill(struct bench *b, corale_type type, unsigned char *data, size_t count)
{
	size_t bytes = corale_type_bytes(type);
	if (type_rows[type].kind == TYPE_COMPLEX) {
		fill(b, (corale_type)type_rows[type].part, data, 2 * count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const int is_pair = type_rows[type].kind == TYPE_PAIR;
		uint64_t bits = element(b, is_pair ? (corale_type)type_rows[type].part : type);
		if (is_pair) { /* gaps too */
			fill_pair(b, type, bits, data + i * bytes);
			continue;
		}
		memcpy(data + i * bytes, &bits, bytes);
	}
}

static void expect_element(const struct shape *s, const struct reduce_input *inputs, size_t i,
			   const unsigned char *got)
{
	unsigned char expected[TYPE_MOST_BYTES];
	size_t bytes = corale_type_bytes(s->spec.type);
	uint64_t g = 0, e = 0;

	slow_fold(&s->spec, inputs, s->k, i, s->final, expected);
	if (!memcmp(got, expected, bytes))
		return;
	memcpy(&g, got, bytes < 8 ? bytes : 8);
	memcpy(&e, expected, bytes < 8 ? bytes : 8);
	fail_msg("%s %s k %d count %zu final %d in place %d, element %zu: got %llx, expected %llx",
		 corale_type_name(s->spec.type), corale_op_name(s->spec.op), s->k, s->count, s->final,
		 s->in_place, i, (unsigned long long)g, (unsigned long long)e);
}

static void expect_margins(const unsigned char *dst, size_t bytes)
{
	for (int i = 1; i <= MARGIN / 2; i++)
		if (dst[-i] != 0xa5 || dst[bytes + (size_t)i - 1] != 0xa5)
			fail_msg("reduce_fold wrote outside of its result");
}

/* level < 0: reduce_fold. Otherwise reduce_sum at that level, which must be able to do it. */
static void check(struct bench *b, const struct shape *s, int level)
{
	struct reduce_input inputs[MAX_K], before[MAX_K];
	corale_type out = s->spec.type;
	size_t bytes = s->count * corale_type_bytes(out);
	unsigned char *dst = b->dst + MARGIN + s->dst_offset, *copy = NULL;
	float divisor = s->final && s->spec.op == CORALE_AVG ? (float)s->spec.ranks : 0;

	for (int j = 0; j < s->k; j++) {
		unsigned char *data = b->inputs[j] + MARGIN + s->offsets[j];
		fill(b, s->spec.type, data, s->count);
		inputs[j] = before[j] = (struct reduce_input){ data, s->kinds[j] };
	}
	if (s->in_place >= 0) { /* the reference reads a copy of what is overwritten */
		dst = b->inputs[s->in_place] + MARGIN + s->offsets[s->in_place];
		copy = malloc(bytes + 1);
		memcpy(copy, dst, bytes);
		before[s->in_place].data = copy;
	}
	memset(dst - MARGIN / 2, 0xa5, MARGIN / 2);
	memset(dst + bytes, 0xa5, MARGIN / 2);
	if (level < 0)
		fold_there(b, s, dst, inputs);
	else
		reduce_sum((enum reduce_level)level, out, dst, inputs, s->k, s->count, divisor);
	for (size_t i = 0; i < s->count; i++)
		expect_element(s, before, i, dst + i * corale_type_bytes(out));
	expect_margins(dst, bytes);
	free(copy);
}

static struct shape plain_shape(corale_type type, corale_op op, int k, size_t count)
{
	struct shape s = { .spec = { .type = type, .op = op, .ranks = k }, .k = k, .in_place = -1 };
	s.count = count;
	s.final = 1;
	return s;
}

UNIT_TEST(test_types_operators_counts)
{
	struct bench *b = *state;
	for (int type = 0; type < CORALE_NUM_TYPES; type++)
		for (int op = 0; op <= CORALE_NUM_OPS; op++)
			for (int k = 1; type_has_op(type, op) && k <= 8; k++)
				for (size_t count = 0; count <= 70; count += k == 2 || k == 5 ? 1 : 7) {
					struct shape s = plain_shape((corale_type)type, op, k, count);
					uint64_t scalar = element(b, s.spec.type);
					memcpy(s.spec.scalar, &scalar, sizeof(scalar));
					s.final = (int)(count & 1);
					s.kinds[0] = REDUCE_SEND;
					check(b, &s, -1);
				}
}

UNIT_TEST(test_large_counts)
{
	struct bench *b = *state;
	static const size_t counts[] = { 255, 256, 257, 1023, 1025, 4999 };
	for (int type = 0; type < CORALE_NUM_TYPES; type++)
		for (int op = 0; op <= CORALE_NUM_OPS; op++)
			for (size_t i = 0; type_has_op(type, op) && i < sizeof(counts) / sizeof(*counts);
			     i++) {
				struct shape s =
				    plain_shape((corale_type)type, op, 2 + (int)(i % 4), counts[i]);
				s.spec.ranks = 3;
				check(b, &s, -1);
			}
}

UNIT_TEST(test_any_alignment_and_in_place)
{
	struct bench *b = *state;
	for (int type = 0; type < CORALE_NUM_TYPES; type++)
		for (int offset = 0; offset < 64; offset++) {
			struct shape s =
			    plain_shape((corale_type)type, op_of_type((corale_type)type, (size_t)offset),
					2 + offset % 4, 300);
			memset(s.spec.scalar, 0, sizeof(s.spec.scalar));
			s.in_place = offset % (s.k + 1) - 1;
			s.dst_offset = offset % 16;
			for (int j = 0; j < s.k; j++)
				s.offsets[j] = (offset * (j + 1) + j) % 16;
			check(b, &s, -1);
		}
}

/* All vector levels of this processor give the same bits. */
UNIT_TEST(test_sum_levels)
{
	struct bench *b = *state;
	static const corale_type fast[] = { CORALE_FLOAT32, CORALE_FLOAT16, CORALE_BFLOAT16 };
	for (int level = 0; level <= (int)reduce_level(); level++)
		for (int t = 0; t < 3; t++)
			for (int k = 1; k <= MAX_K; k++)
				for (size_t count = 0; count < 2200;
				     count = count < 70 ? count + 1 : count * 5 / 2) {
					struct shape s = plain_shape(
					    fast[t], count % 2 ? CORALE_AVG : CORALE_SUM, k, count);
					s.spec.ranks = 7;
					s.offsets[k - 1] = (int)(count % 5);
					s.in_place = count % 3 ? -1 : k - 1;
					if (k > 1 || s.spec.op == CORALE_AVG)
						check(b, &s, level);
				}
}

/* Cells in a circle, folded from any of them on, as the same inputs in a list. */
static void check_cells(struct bench *b, const struct shape *s, int first)
{
	const size_t bytes = corale_type_bytes(s->spec.type), cell = s->count * bytes + bytes;
	unsigned char *data = malloc((size_t)s->k * cell), *dst = b->dst + MARGIN;
	struct reduce_input *inputs = malloc((size_t)s->k * sizeof *inputs);
	const struct reduce_cells cells = { data, cell, s->k, first, s->k, s->kinds[0] };
	assert_true(data && inputs);
	fill(b, s->spec.type, data, (size_t)s->k * cell / bytes);
	for (int i = 0; i < s->k; i++)
		inputs[i] = (struct reduce_input){ data + (size_t)((first + i) % s->k) * cell, s->kinds[0] };
	memset(dst - MARGIN / 2, 0xa5, MARGIN / 2);
	memset(dst + s->count * bytes, 0xa5, MARGIN / 2);
	set_env(b);
	reduce_fold_cells(&s->spec, dst, &cells, s->count, s->final);
	fesetenv(FE_DFL_ENV);
	for (size_t i = 0; i < s->count; i++)
		expect_element(s, inputs, i, dst + i * bytes);
	expect_margins(dst, s->count * bytes);
	free(inputs);
	free(data);
}

UNIT_TEST(test_cells)
{
	struct bench *b = *state;
	static const int ks[] = { 1, 2, 5, REDUCE_MAX_SOURCES + 3 };
	for (int type = 0; type < CORALE_NUM_TYPES; type++)
		for (int op = 0; op <= CORALE_NUM_OPS; op++)
			for (int i = 0; type_has_op(type, op) && i < 4; i++)
				for (size_t count = 0; count < (ks[i] > 5 ? 20 : 600);
				     count = 3 * count + 1) {
					struct shape s = plain_shape((corale_type)type, op, 1, count);
					s.k = s.spec.ranks = ks[i];
					s.final = (int)(count & 1);
					check_cells(b, &s, (int)(count + 3) % ks[i]);
				}
}

/* All of it in threads that round otherwise, or flush to zero. */
UNIT_TEST(test_float_env)
{
	struct bench *b = *state;
	static const int roundings[] = { FE_TONEAREST, FE_DOWNWARD, FE_TOWARDZERO, FE_UPWARD };
	for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++) {
		b->rounding = roundings[i];
		b->flushes = i != 2;
		test_large_counts(state);
	}
	test_cells(state);
	b->rounding = FE_TONEAREST;
	b->flushes = 0;
}

int main(void)
{
	return unit_run(setup, teardown);
}
