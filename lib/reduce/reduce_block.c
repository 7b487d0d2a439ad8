/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_block.h"

#include "float_convert.h"

/* Elements at any address. */
typedef uint16_t any16 __attribute__((aligned(1), may_alias));
typedef int16_t any_int16 __attribute__((aligned(1), may_alias));
typedef uint32_t any32 __attribute__((aligned(1), may_alias));
typedef int32_t any_int32 __attribute__((aligned(1), may_alias));
typedef float any_float32 __attribute__((aligned(1), may_alias));
typedef double any_float64 __attribute__((aligned(1), may_alias));

/* load_NAME: elements of a type into a block's member. A signed integer is extended by its conversion to uint64_t. */
#define LOAD(name, type, member, convert)                                                                    \
	static void load_##name(union reduce_block *block, const void *data, size_t n)                       \
	{                                                                                                    \
		const type *in = data;                                                                       \
		_Pragma("omp simd") for (size_t i = 0; i < n; i++) block->member[i] = convert(in[i]);        \
	}
LOAD(int8, int8_t, u, (uint64_t))
LOAD(uint8, uint8_t, u, (uint64_t))
LOAD(int16, any_int16, u, (uint64_t))
LOAD(uint16, any16, u, (uint64_t))
LOAD(int32, any_int32, u, (uint64_t))
LOAD(uint32, any32, u, (uint64_t))
LOAD(float16, any16, f, float_from_float16)
LOAD(bfloat16, any16, f, float_from_bfloat16)
LOAD(e4m3, uint8_t, f, float_from_e4m3)
LOAD(e5m2, uint8_t, f, float_from_e5m2)

static void load_float32(union reduce_block *block, const void *data, size_t n)
{
	memcpy(block, data, 4 * n);
}

static void load_64(union reduce_block *block, const void *data, size_t n)
{
	memcpy(block, data, 8 * n);
}

/* store_NAME: a block's member into elements of a type. */
#define STORE(name, type, member, convert)                                                                   \
	static void store_##name(const union reduce_block *block, void *data, size_t n)                      \
	{                                                                                                    \
		type *out = data;                                                                            \
		_Pragma("omp simd") for (size_t i = 0; i < n; i++) out[i] = convert(block->member[i]);       \
	}
STORE(8, uint8_t, u, (uint8_t))
STORE(16, any16, u, (uint16_t))
STORE(32, any32, u, (uint32_t))
STORE(float16, any16, f, float_to_float16)
STORE(bfloat16, any16, f, float_to_bfloat16)
STORE(float32, any_float32, f, float_canonical)
STORE(float64, any_float64, d, double_canonical)
STORE(e4m3, uint8_t, f, float_to_e4m3)
STORE(e5m2, uint8_t, f, float_to_e5m2)

static void store_64(const union reduce_block *block, void *data, size_t n)
{
	memcpy(data, block, 8 * n);
}

static void load_complex128(union reduce_block *block, const void *data, size_t n)
{
	memcpy(block, data, 16 * n);
}

static void store_complex64(const union reduce_block *block, void *data, size_t n)
{
	store_float32(block, data, 2 * n);
}

static void store_complex128(const union reduce_block *block, void *data, size_t n)
{
	store_float64(block, data, 2 * n);
}

/* load_ and store_NAME: structs of a value and an index. The gaps that a struct has are stored as 0. */
#define PAIR(name, type, member, canonical)                                                                  \
	struct name {                                                                                        \
		type value;                                                                                  \
		int32_t index;                                                                               \
	};                                                                                                   \
	static void load_##name(union reduce_block *block, const void *data, size_t n)                       \
	{                                                                                                    \
		for (size_t i = 0; i < n; i++) {                                                             \
			struct name pair;                                                                    \
			memcpy(&pair, (const unsigned char *)data + i * sizeof pair, sizeof pair);           \
			block->pairs.value.member[i] = pair.value;                                           \
			block->pairs.index[i] = pair.index;                                                  \
		}                                                                                            \
	}                                                                                                    \
	static void store_##name(const union reduce_block *block, void *data, size_t n)                      \
	{                                                                                                    \
		for (size_t i = 0; i < n; i++) {                                                             \
			struct name pair;                                                                    \
			memset(&pair, 0, sizeof pair);                                                       \
			pair.value = canonical((type)block->pairs.value.member[i]);                          \
			pair.index = block->pairs.index[i];                                                  \
			memcpy((unsigned char *)data + i * sizeof pair, &pair, sizeof pair);                 \
		}                                                                                            \
	}
PAIR(pair_float32, float, d, float_canonical)
PAIR(pair_float64, double, d, double_canonical)
PAIR(pair_int64, int64_t, i, )
PAIR(pair_int32, int32_t, i, )
PAIR(pair_int16, int16_t, i, )

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
	[CORALE_BOOL] = { REDUCE_UNSIGNED, load_uint8, store_8 },
	[CORALE_COMPLEX64] = { REDUCE_COMPLEX_FLOAT, load_64, store_complex64 },
	[CORALE_COMPLEX128] = { REDUCE_COMPLEX_DOUBLE, load_complex128, store_complex128 },
	[CORALE_PAIR_FLOAT32] = { REDUCE_PAIR_DOUBLE, load_pair_float32, store_pair_float32 },
	[CORALE_PAIR_FLOAT64] = { REDUCE_PAIR_DOUBLE, load_pair_float64, store_pair_float64 },
	[CORALE_PAIR_INT64] = { REDUCE_PAIR_INTEGER, load_pair_int64, store_pair_int64 },
	[CORALE_PAIR_INT32] = { REDUCE_PAIR_INTEGER, load_pair_int32, store_pair_int32 },
	[CORALE_PAIR_INT16] = { REDUCE_PAIR_INTEGER, load_pair_int16, store_pair_int16 },
};
_Static_assert(sizeof(types) / sizeof(*types) == CORALE_NUM_TYPES, "a row for each type");

enum reduce_arithmetic reduce_arithmetic(corale_type type)
{
	return types[type].arithmetic;
}

size_t reduce_block_length(corale_type type)
{
	return types[type].arithmetic < REDUCE_COMPLEX_FLOAT ? REDUCE_BLOCK : REDUCE_WIDE_BLOCK;
}

void reduce_load(corale_type type, union reduce_block *block, const void *data, size_t n)
{
	types[type].load(block, data, n);
}

void reduce_store(corale_type type, const union reduce_block *block, void *data, size_t n)
{
	types[type].store(block, data, n);
}
