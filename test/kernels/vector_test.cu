/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/vector.cuh and vector_other.cuh, all types and operators, bit for bit against reduce_fold: once on the processor and, where there
 * is a GPU, once more on it. TAP: a case per type and place.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "reduce/reduce.h"
#include "reduce/reduce_block.h"
}
#include "kernels/vector.cuh"
#include "kernels/vector_other.cuh"

enum { MAX_RANKS = 9, MAX_VECTORS = 8192, MIXED_VECTORS = 1008, MAX_SPECIALS = 256, THREADS = 128 };

/* Instead of an operator: vector_hide alone; finish alone, of all floats whose bits are a multiple of NARROW_STEP. */
enum { HIDE_ALONE = 100, NARROW_ALONE = 101, NARROW_STEP = 32771 };

struct batch {
	int type, op, ranks;
	int hides; /* every input goes through vector_hide */
	size_t vectors;
	uint64_t scalars[MAX_RANKS];
	const vector *in; /* rank after rank */
	vector *out;
	int kernel_op; /* codelet_op */
};

struct buffers {
	vector *in, *out, *expected, *scaled; /* in and scaled: of all ranks */
	vector *gpu_in, *gpu_out; /* NULL: no GPU */
	uint64_t random;
};

/* ---- One batch, on the processor or on the GPU ------------------------------------------------------------- */

template <int TYPE> VECTOR_FN vector narrow_alone(size_t i)
{
	constexpr int n = 16 / vector_element_bytes<TYPE>;
	vector_sum<TYPE> sum;

	sum.start(make_uint4(0, 0, 0, 0));
	if constexpr (vector_hides<TYPE>) { /* it is held as floats */
#pragma unroll
		for (int j = 0; j < n; j++)
			sum.f[j] = float_of_bits((uint32_t)(i * n + j) * NARROW_STEP);
	}
	return sum.finish(CORALE_SUM, 1);
}

template <int TYPE> VECTOR_FN vector input(const struct batch &b, int rank, size_t i)
{
	vector v = b.in[rank * b.vectors + i];
	if constexpr (TYPE != VECTOR_OTHER) {
		if (b.op == CORALE_NUM_OPS)
			v = vector_premultiply<TYPE>(v, b.scalars[rank]);
		if (b.hides)
			v = vector_hide<TYPE>(v);
	}
	return v;
}

template <int TYPE> VECTOR_FN void compute(const struct batch &b, size_t i)
{
	if constexpr (TYPE != VECTOR_OTHER) {
		if (b.op == HIDE_ALONE) {
			b.out[i] = vector_hide<TYPE>(b.in[i]);
			return;
		}
		if (b.op == NARROW_ALONE) {
			b.out[i] = narrow_alone<TYPE>(i);
			return;
		}
	}
	vector_sum<TYPE> sum;
	sum.start(input<TYPE>(b, 0, i));
	for (int r = 1; r < b.ranks; r++)
		sum.add(input<TYPE>(b, r, i), b.kernel_op);
	b.out[i] = sum.finish(b.kernel_op, b.ranks);
}

template <int TYPE> static void on_processor(const struct batch *b)
{
	for (size_t i = 0; i < b->vectors; i++)
		compute<TYPE>(*b, i);
}

template <int TYPE> __global__ static void kernel(struct batch b)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < b.vectors)
		compute<TYPE>(b, i);
}

template <int TYPE> static void on_gpu(const struct batch *b)
{
	kernel<TYPE><<<(unsigned)((b->vectors + THREADS - 1) / THREADS), THREADS>>>(*b);
}

struct test_type {
	void (*on_processor)(const struct batch *b);
	void (*on_gpu)(const struct batch *b);
};

static constexpr auto types = vector_table_of<test_type>([](auto type) {
	return test_type{ on_processor<type.value>, on_gpu<type.value> };
});

static const test_type others = { on_processor<VECTOR_OTHER>, on_gpu<VECTOR_OTHER> };

static const test_type &kernels_of(const struct batch &b)
{
	return b.op < CORALE_NUM_OPS && type_folds_lowered(b.type, b.op) ? others : types[b.type];
}

/* Bits of a type's fraction; 0: an integer. */
static int fraction_bits(int type)
{
	switch (type) {
	case CORALE_FLOAT16:
		return 10;
	case CORALE_BFLOAT16:
		return 7;
	case CORALE_FLOAT32:
		return 23;
	case CORALE_FLOAT64:
		return 52;
	case CORALE_FLOAT8_E4M3:
		return 3;
	case CORALE_FLOAT8_E5M2:
		return 2;
	default:
		return 0;
	}
}

static bool has_nan_words(int type)
{
	return fraction_bits(type) && type != CORALE_FLOAT64;
}

/* Returns 0 when the GPU did its work. */
static int run(const struct buffers *s, struct batch b)
{
	size_t inputs = b.op == NARROW_ALONE ? 0 : b.ranks * b.vectors;
	b.kernel_op = codelet_op((corale_type)b.type, b.op);
	if (!s->gpu_in) {
		b.in = s->in;
		b.out = s->out;
		kernels_of(b).on_processor(&b);
		return 0;
	}
	b.in = s->gpu_in;
	b.out = s->gpu_out;
	cudaMemset(s->gpu_out, 0x5a, b.vectors * sizeof(vector));
	cudaMemcpy(s->gpu_in, s->in, inputs * sizeof(vector), cudaMemcpyHostToDevice);
	kernels_of(b).on_gpu(&b);
	cudaError_t error = cudaGetLastError();
	if (!error)
		error = cudaMemcpy(s->out, s->gpu_out, b.vectors * sizeof(vector), cudaMemcpyDeviceToHost);
	if (error)
		printf("# the kernel for %s failed: %s\n", corale_type_name((corale_type)b.type),
		       cudaGetErrorString(error));
	return error != 0;
}

/* ---- What must come out ------------------------------------------------------------------------------------ */

static void expect_hidden(const struct buffers *s, const struct batch *b)
{
	static const uint32_t positive[] = { 0, 0x7f7f7f7f, 0x7fff7fff, 0, 0x7fffffff };
	const uint32_t *in = (const uint32_t *)s->in;
	uint32_t *out = (uint32_t *)s->expected;
	for (size_t i = 0; i < b->vectors * 4; i++)
		out[i] = in[i] == 0xffffffff && has_nan_words(b->type) ?
				 positive[corale_type_bytes((corale_type)b->type)] :
				 in[i];
}

static void expect_narrowed(const struct buffers *s, const struct batch *b)
{
	corale_type type = (corale_type)b->type;
	size_t bytes = corale_type_bytes(type), count = b->vectors * 16 / bytes;
	union reduce_block block;
	for (size_t i = 0, n; i < count; i += n) {
		n = count - i < REDUCE_BLOCK ? count - i : REDUCE_BLOCK;
		for (size_t k = 0; k < n; k++)
			block.f[k] = float_of_bits((uint32_t)(i + k) * NARROW_STEP);
		reduce_store(type, &block, (unsigned char *)s->expected + i * bytes, n);
	}
}

static void expect_folded(const struct buffers *s, const struct batch *b)
{
	corale_type type = (corale_type)b->type;
	size_t count = b->vectors * 16 / corale_type_bytes(type);
	struct reduce_spec spec = { type, b->op, b->ranks, { 0 } };
	struct reduce_input inputs[MAX_RANKS];
	for (int r = 0; r < b->ranks; r++) {
		struct reduce_input own = { s->in + r * b->vectors, REDUCE_SEND };
		inputs[r].kind = REDUCE_LOCAL;
		inputs[r].data = own.data;
		if (b->op != CORALE_NUM_OPS)
			continue;
		inputs[r].data = s->scaled + r * b->vectors;
		memcpy(spec.scalar, &b->scalars[r], sizeof(spec.scalar));
		reduce_fold(&spec, s->scaled + r * b->vectors, &own, 1, count, 0);
	}
	reduce_fold(&spec, s->expected, inputs, b->ranks, count, 1);
}

/* The first element that differs, with all that went into it. */
static void print_difference(const struct buffers *s, const struct batch *b)
{
	size_t bytes = corale_type_bytes((corale_type)b->type), i = 0;
	bytes = bytes > 8 ? 8 : bytes; /* of the larger ones a half */
	uint64_t got = 0, expected = 0;
	while (!memcmp((char *)s->out + i * bytes, (char *)s->expected + i * bytes, bytes))
		i++;
	memcpy(&got, (char *)s->out + i * bytes, bytes);
	memcpy(&expected, (char *)s->expected + i * bytes, bytes);
	printf("# %s %s, %d ranks, hidden %d, element %zu: got %llx, expected %llx, from",
	       corale_type_name((corale_type)b->type),
	       b->op == HIDE_ALONE   ? "vector_hide" :
	       b->op == NARROW_ALONE ? "finish" :
				       corale_op_name(b->op),
	       b->ranks, b->hides, i, (unsigned long long)got, (unsigned long long)expected);
	for (int r = 0; r < b->ranks && b->op != NARROW_ALONE; r++) {
		uint64_t input = 0;
		memcpy(&input, (char *)(s->in + r * b->vectors) + i * bytes, bytes);
		printf(" %llx", (unsigned long long)input);
		if (b->op == CORALE_NUM_OPS)
			printf(" * %llx", (unsigned long long)b->scalars[r]);
	}
	printf("\n");
}

/* Returns 0 if the batch comes out as expected. */
static int check(const struct buffers *s, const struct batch *b)
{
	if (run(s, *b))
		return 1;
	if (b->op == HIDE_ALONE)
		expect_hidden(s, b);
	else if (b->op == NARROW_ALONE)
		expect_narrowed(s, b);
	else
		expect_folded(s, b);
	if (memcmp(s->out, s->expected, b->vectors * sizeof(vector))) {
		print_difference(s, b);
		return 1;
	}
	const uint32_t *words = (const uint32_t *)s->out;
	for (size_t i = 0; i < b->vectors * 4 && has_nan_words(b->type); i++) {
		if (words[i] != 0xffffffff)
			continue;
		printf("# %s: a word of ones came out\n", corale_type_name((corale_type)b->type));
		return 1;
	}
	return 0;
}

/* ---- What goes in ------------------------------------------------------------------------------------------ */

static uint64_t draw(struct buffers *s)
{
	uint64_t bits = 0;
	for (int i = 0; i < 3; i++) {
		s->random = s->random * 6364136223846793005u + 1442695040888963407u;
		bits = bits << 24 ^ s->random >> 33;
	}
	return bits;
}

/* Zeros, the least and the greatest numbers of each kind, powers of two, infinities and NaNs; all values of 8 bits. */
static size_t list_specials(int type, uint64_t *list)
{
	int bits = (int)corale_type_bytes((corale_type)type) * 8, fraction = fraction_bits(type);
	size_t n = 0;
	uint64_t ones = (uint64_t)-1 >> (64 - bits);
	if (bits == 8) {
		for (n = 0; n < 256; n++)
			list[n] = n;
		return n;
	}
	if (!fraction) {
		for (int shift = 0; shift < bits; shift += shift == bits - 8 ? 7 : 8)
			for (int add = -1; add <= 1; add++) {
				list[n++] = (((uint64_t)1 << shift) + (uint64_t)add) & ones;
				list[n++] = ((uint64_t)0 - ((uint64_t)1 << shift) - (uint64_t)add) & ones;
			}
		return n;
	}
	uint64_t top = ones >> 1 >> fraction, half = (uint64_t)1 << (fraction - 1);
	uint64_t exponents[] = { 0, 1, top / 2 - 1, top / 2, top - 1, top };
	uint64_t fractions[] = { 0, 1, half, half + 1, 2 * half - 1 };
	for (uint64_t exponent : exponents)
		for (uint64_t low : fractions) {
			list[n++] = exponent << fraction | low;
			list[n++] = (uint64_t)1 << (bits - 1) | exponent << fraction | low;
		}
	return n;
}

static void put(const struct buffers *s, const struct batch *b, int rank, size_t i, uint64_t bits)
{
	size_t bytes = corale_type_bytes((corale_type)b->type);
	memcpy((char *)(s->in + rank * b->vectors) + i * bytes, &bits, bytes);
}

/* Any bits, a special one, or a number of moderate size, so that sums say something. */
static uint64_t draw_element(struct buffers *s, int type, const uint64_t *specials, size_t nspecials)
{
	int bits = (int)corale_type_bytes((corale_type)type) * 8, fraction = fraction_bits(type);
	uint64_t any = draw(s) ^ draw(s) << 40, choice = draw(s) % 8;
	if (choice < 2)
		return any;
	if (choice < 3)
		return specials[any % nspecials];
	if (!fraction)
		return (uint64_t)0 - any % 100;
	uint64_t ones = (uint64_t)-1 >> (64 - bits), bias = ones >> 2 >> fraction;
	return (any & ((uint64_t)1 << (bits - 1) | (((uint64_t)1 << fraction) - 1))) | (bias - 2 + choice) << fraction;
}

static void fill_mixed(struct buffers *s, struct batch *b, const uint64_t *specials, size_t nspecials)
{
	size_t count = b->vectors * 16 / corale_type_bytes((corale_type)b->type);
	for (int r = 0; r < b->ranks; r++) {
		for (size_t i = 0; i < count; i++)
			put(s, b, r, i, draw_element(s, b->type, specials, nspecials));
		for (size_t i = 0; i < b->vectors; i += 16) /* what vector_hide looks for */
			((uint32_t *)(s->in + r * b->vectors))[4 * i + draw(s) % 64] = 0xffffffff;
		b->scalars[r] = draw_element(s, b->type, specials, nspecials);
	}
}

static int check_mixed(struct buffers *s, int type, int op, const uint64_t *specials, size_t nspecials)
{
	for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
		for (int hides = 0; hides < 2; hides++) {
			struct batch b = { type, op, ranks, hides, MIXED_VECTORS };
			fill_mixed(s, &b, specials, nspecials);
			if (check(s, &b))
				return 1;
		}
	return 0;
}

/* All pairs of special values, which for 8-bit types are all values, each at every place of a vector. */
static int check_pairs(struct buffers *s, int type, int op, const uint64_t *specials, size_t n)
{
	size_t per_vector = 16 / corale_type_bytes((corale_type)type);
	for (size_t turn = 0; turn < per_vector; turn++) {
		struct batch b = { type, op, 2 + (int)(turn % 2), 0, (n * n + per_vector - 1) / per_vector };
		for (size_t i = 0; i < b.vectors * per_vector; i++) {
			put(s, &b, 0, i, specials[i / n % n]);
			put(s, &b, 1, i, specials[(i + turn) % n]);
			put(s, &b, 2, i, specials[draw(s) % n]);
		}
		for (int r = 0; r < b.ranks; r++)
			b.scalars[r] = specials[draw(s) % n];
		if (check(s, &b))
			return 1;
	}
	return 0;
}

/* All values of 16 bits with each special one. */
static int check_all_16(struct buffers *s, int type, int op, const uint64_t *specials, size_t nspecials)
{
	struct batch b = { type, op, 2, 0, 65536 / 8 };
	for (size_t j = 0; j < nspecials; j++) {
		for (size_t i = 0; i < 65536; i++) {
			put(s, &b, 0, i, i);
			put(s, &b, 1, i, specials[j]);
		}
		b.scalars[0] = b.scalars[1] = specials[j];
		if (check(s, &b))
			return 1;
	}
	return 0;
}

/* Words of complex numbers, pairs and bools: parts and indices that are often equal, special ones, and any bits. */
static uint32_t draw_word(struct buffers *s, size_t at)
{
	static const uint32_t singles[] = { 0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x7f7fffff };
	static const uint32_t doubles[] = { 0, 0x80000000, 0x3ff00000, 0xbff00000, 0x7ff00000, 0xfff00000, 0x7ff80000, 0x7fefffff };
	const uint64_t bits = draw(s), choice = bits >> 32 & 7;
	if (choice < 2)
		return (uint32_t)bits;
	if (choice < 4)
		return singles[bits % (sizeof singles / sizeof *singles)];
	if (choice < 6)
		return at % 2 ? doubles[bits % (sizeof doubles / sizeof *doubles)] : 0;
	return (uint32_t)(bits % 3);
}

static int check_words(struct buffers *s, int type, int op)
{
	for (int ranks = 2; ranks <= MAX_RANKS; ranks++) {
		struct batch b = { type, op, ranks, 0, MIXED_VECTORS };
		for (size_t i = 0; i < ranks * b.vectors * 4; i++)
			((uint32_t *)s->in)[i] = draw_word(s, i);
		if (check(s, &b))
			return 1;
	}
	return 0;
}

static int check_words_type(struct buffers *s, int type)
{
	s->random = 1 + (uint64_t)type;
	for (int op = 0; op < CORALE_NUM_OPS; op++)
		if (type_has_op(type, op) && check_words(s, type, op))
			return 1;
	return 0;
}

static int check_type(struct buffers *s, int type)
{
	if (type_rows[type].kind > TYPE_FLOAT)
		return check_words_type(s, type);
	uint64_t specials[MAX_SPECIALS];
	size_t nspecials = list_specials(type, specials);
	struct batch hide = { type, HIDE_ALONE, 1, 1, MIXED_VECTORS };
	struct batch narrow = { type, NARROW_ALONE, 1, 0, (((uint64_t)1 << 32) / NARROW_STEP + 16) / 16 };

	s->random = 1 + (uint64_t)type;
	for (int op = 0; op <= CORALE_NUM_OPS; op++)
		if (type_has_op(type, op) && (check_mixed(s, type, op, specials, nspecials) || check_pairs(s, type, op, specials, nspecials) ||
		    (corale_type_bytes((corale_type)type) == 2 && check_all_16(s, type, op, specials, nspecials))))
			return 1;
	narrow.vectors *= corale_type_bytes((corale_type)type);
	if (has_nan_words(type) && check(s, &narrow))
		return 1;
	fill_mixed(s, &hide, specials, nspecials);
	return check(s, &hide);
}

/* ---- On the GPU alone: its conversions of all floats against those in C ------------------------------------ */

__global__ static void count_differences(uint32_t first, unsigned long long *differences)
{
	uint32_t bits = first + blockIdx.x * blockDim.x + threadIdx.x;
	float f[4] = { float_of_bits(bits), float_of_bits(bits ^ 0x80000000), float_of_bits(~bits),
		       float_of_bits(bits * 2654435761u) };
	uint32_t e4m3 = 0, e5m2 = 0;
	for (int i = 0; i < 4; i++) {
		e4m3 |= (uint32_t)float_to_e4m3(f[i]) << 8 * i;
		e5m2 |= (uint32_t)float_to_e5m2(f[i]) << 8 * i;
	}
	int differ = vector_word<CORALE_FLOAT8_E4M3>::narrow(f) != e4m3;
	differ += vector_word<CORALE_FLOAT8_E5M2>::narrow(f) != e5m2;
	differ += vector_word<CORALE_FLOAT16>::narrow(f) !=
		  (float_to_float16(f[0]) | (uint32_t)float_to_float16(f[1]) << 16);
	differ += vector_word<CORALE_BFLOAT16>::narrow(f) !=
		  (float_to_bfloat16(f[0]) | (uint32_t)float_to_bfloat16(f[1]) << 16);
	if (differ)
		atomicAdd(differences, (unsigned long long)differ);
}

static int check_all_floats(void)
{
	unsigned long long *differences, n = 0;
	cudaMalloc((void **)&differences, sizeof(*differences));
	cudaMemset(differences, 0, sizeof(*differences));
	for (uint32_t part = 0; part < 256; part++)
		count_differences<<<1 << 16, 256>>>(part << 24, differences);
	cudaError_t error = cudaMemcpy(&n, differences, sizeof(n), cudaMemcpyDeviceToHost);
	cudaFree(differences);
	if (error)
		printf("# conversions: %s\n", cudaGetErrorString(error));
	else if (n)
		printf("# %llu conversions differ from those in C\n", n);
	return error || n;
}

/* ---- The program ------------------------------------------------------------------------------------------- */

static int report(int number, int failed, const char *what, const char *where)
{
	printf("%s %d - %s on the %s\n", failed ? "not ok" : "ok", number, what, where);
	fflush(stdout);
	return failed != 0;
}

static int check_place(struct buffers *s, int before, const char *where)
{
	int failures = 0;
	for (int type = 0; type < CORALE_NUM_TYPES; type++)
		failures += report(before + type + 1, check_type(s, type), corale_type_name((corale_type)type), where);
	return failures;
}

int main(void)
{
	struct buffers s = {};
	size_t bytes = MAX_VECTORS * sizeof(vector) * MAX_RANKS;
	s.in = (vector *)malloc(bytes);
	s.out = (vector *)malloc(bytes);
	s.expected = (vector *)malloc(bytes);
	s.scaled = (vector *)malloc(bytes);

	int gpus = 0, failures = check_place(&s, 0, "processor");
	cudaError_t error = cudaGetDeviceCount(&gpus);
	if (error || !gpus) {
		printf("ok %d - the same on a GPU # SKIP no CUDA device: %s\n1..%d\n", CORALE_NUM_TYPES + 1,
		       cudaGetErrorString(error), CORALE_NUM_TYPES + 1);
	} else if (cudaMalloc((void **)&s.gpu_in, bytes) || cudaMalloc((void **)&s.gpu_out, bytes)) {
		failures += report(CORALE_NUM_TYPES + 1, 1, "memory", "GPU");
		printf("1..%d\n", CORALE_NUM_TYPES + 1);
	} else {
		failures += check_place(&s, CORALE_NUM_TYPES, "GPU");
		failures += report(2 * CORALE_NUM_TYPES + 1, check_all_floats(), "conversions of all floats", "GPU");
		printf("1..%d\n", 2 * CORALE_NUM_TYPES + 1);
	}
	cudaFree(s.gpu_in);
	cudaFree(s.gpu_out);
	free(s.in);
	free(s.out);
	free(s.expected);
	free(s.scaled);
	return failures != 0;
}
