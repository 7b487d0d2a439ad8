#include "reduce_block.h"

#include "float_convert.h"

/* Loads and stores go through memcpy of one element: any alignment, and the compiler sees through it. */

static void load_int8(union reduce_block *block, const void *data, size_t n)
{
	const int8_t *in = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		block->u[i] = (uint64_t)(int64_t)in[i];
}

static void load_uint8(union reduce_block *block, const void *data, size_t n)
{
	const uint8_t *in = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		block->u[i] = in[i];
}

static void load_int16(union reduce_block *block, const void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		int16_t value;
		memcpy(&value, (const char *)data + 2 * i, 2);
		block->u[i] = (uint64_t)(int64_t)value;
	}
}

static void load_uint16(union reduce_block *block, const void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint16_t value;
		memcpy(&value, (const char *)data + 2 * i, 2);
		block->u[i] = value;
	}
}

static void load_int32(union reduce_block *block, const void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		int32_t value;
		memcpy(&value, (const char *)data + 4 * i, 4);
		block->u[i] = (uint64_t)(int64_t)value;
	}
}

static void load_uint32(union reduce_block *block, const void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint32_t value;
		memcpy(&value, (const char *)data + 4 * i, 4);
		block->u[i] = value;
	}
}

static void load_64(union reduce_block *block, const void *data, size_t n)
{
	memcpy(block, data, 8 * n);
}

static void load_float16(union reduce_block *block, const void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint16_t bits;
		memcpy(&bits, (const char *)data + 2 * i, 2);
		block->f[i] = float_from_float16(bits);
	}
}

static void load_bfloat16(union reduce_block *block, const void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint16_t bits;
		memcpy(&bits, (const char *)data + 2 * i, 2);
		block->f[i] = float_from_bfloat16(bits);
	}
}

static void load_float32(union reduce_block *block, const void *data, size_t n)
{
	memcpy(block, data, 4 * n);
}

static void load_e4m3(union reduce_block *block, const void *data, size_t n)
{
	const uint8_t *in = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		block->f[i] = float_from_e4m3(in[i]);
}

static void load_e5m2(union reduce_block *block, const void *data, size_t n)
{
	const uint8_t *in = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		block->f[i] = float_from_e5m2(in[i]);
}

static void store_8(const union reduce_block *block, void *data, size_t n)
{
	uint8_t *out = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)block->u[i];
}

static void store_16(const union reduce_block *block, void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint16_t value = (uint16_t)block->u[i];
		memcpy((char *)data + 2 * i, &value, 2);
	}
}

static void store_32(const union reduce_block *block, void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint32_t value = (uint32_t)block->u[i];
		memcpy((char *)data + 4 * i, &value, 4);
	}
}

static void store_64(const union reduce_block *block, void *data, size_t n)
{
	memcpy(data, block, 8 * n);
}

static void store_float16(const union reduce_block *block, void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint16_t bits = float_to_float16(block->f[i]);
		memcpy((char *)data + 2 * i, &bits, 2);
	}
}

static void store_bfloat16(const union reduce_block *block, void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		uint16_t bits = float_to_bfloat16(block->f[i]);
		memcpy((char *)data + 2 * i, &bits, 2);
	}
}

static void store_float32(const union reduce_block *block, void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float value = float_canonical(block->f[i]);
		memcpy((char *)data + 4 * i, &value, 4);
	}
}

static void store_float64(const union reduce_block *block, void *data, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		double value = double_canonical(block->d[i]);
		memcpy((char *)data + 8 * i, &value, 8);
	}
}

static void store_e4m3(const union reduce_block *block, void *data, size_t n)
{
	uint8_t *out = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		out[i] = float_to_e4m3(block->f[i]);
}

static void store_e5m2(const union reduce_block *block, void *data, size_t n)
{
	uint8_t *out = data;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		out[i] = float_to_e5m2(block->f[i]);
}

static const struct {
	enum reduce_arithmetic arithmetic;
	void (*load)(union reduce_block *block, const void *data, size_t n);
	void (*store)(const union reduce_block *block, void *data, size_t n);
} types[] = {
	[CORALE_INT8] = { REDUCE_SIGNED, load_int8, store_8 },
	[CORALE_UINT8] = { REDUCE_UNSIGNED, load_uint8, store_8 },
	[CORALE_INT32] = { REDUCE_SIGNED, load_int32, store_32 },
	[CORALE_UINT32] = { REDUCE_UNSIGNED, load_uint32, store_32 },
	[CORALE_INT64] = { REDUCE_SIGNED, load_64, store_64 },
	[CORALE_UINT64] = { REDUCE_UNSIGNED, load_64, store_64 },
	[CORALE_FLOAT16] = { REDUCE_FLOAT, load_float16, store_float16 },
	[CORALE_BFLOAT16] = { REDUCE_FLOAT, load_bfloat16, store_bfloat16 },
	[CORALE_FLOAT32] = { REDUCE_FLOAT, load_float32, store_float32 },
	[CORALE_FLOAT64] = { REDUCE_DOUBLE, load_64, store_float64 },
	[CORALE_FLOAT8_E4M3] = { REDUCE_FLOAT, load_e4m3, store_e4m3 },
	[CORALE_FLOAT8_E5M2] = { REDUCE_FLOAT, load_e5m2, store_e5m2 },
	[CORALE_INT16] = { REDUCE_SIGNED, load_int16, store_16 },
	[CORALE_UINT16] = { REDUCE_UNSIGNED, load_uint16, store_16 },
};
_Static_assert(sizeof(types) / sizeof(*types) == CORALE_NUM_TYPES, "a row for each type");

enum reduce_arithmetic reduce_arithmetic(corale_type type)
{
	return types[type].arithmetic;
}

void reduce_load(corale_type type, union reduce_block *block, const void *data, size_t n)
{
	types[type].load(block, data, n);
}

void reduce_store(corale_type type, const union reduce_block *block, void *data, size_t n)
{
	types[type].store(block, data, n);
}
