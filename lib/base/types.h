/*
 * The types: one list, which hosts and kernels read when they are compiled. Arrays by type elsewhere assert that they have as many rows.
 * C cannot assert the rows' order: kernels/vector.cuh does, and test/status_test.c.
 */
#ifndef TYPES_H
#define TYPES_H

#include <assert.h>
#include <stdint.h>

#include "corale.h"

#ifdef __cplusplus
#define TYPES_CONST constexpr
#define TYPES_FN constexpr
#else
#define TYPES_CONST static const
#define TYPES_FN static inline
#endif

enum type_kind { TYPE_SIGNED, TYPE_UNSIGNED, TYPE_FLOAT };

enum {
	TYPE_MOST_BYTES = 8
}; /* scalars, blocks of lib/reduce, lines of packets and kinds of choices count on it */

/* In the order of corale_type. */
TYPES_CONST struct type_row {
	corale_type type;
	const char *name;
	uint8_t bytes; /* of an element */
	uint8_t kind; /* enum type_kind */
} type_rows[] = {
	{ CORALE_INT8, "int8", 1, TYPE_SIGNED },
	{ CORALE_UINT8, "uint8", 1, TYPE_UNSIGNED },
	{ CORALE_INT32, "int32", 4, TYPE_SIGNED },
	{ CORALE_UINT32, "uint32", 4, TYPE_UNSIGNED },
	{ CORALE_INT64, "int64", 8, TYPE_SIGNED },
	{ CORALE_UINT64, "uint64", 8, TYPE_UNSIGNED },
	{ CORALE_FLOAT16, "float16", 2, TYPE_FLOAT },
	{ CORALE_BFLOAT16, "bfloat16", 2, TYPE_FLOAT },
	{ CORALE_FLOAT32, "float32", 4, TYPE_FLOAT },
	{ CORALE_FLOAT64, "float64", 8, TYPE_FLOAT },
	{ CORALE_FLOAT8_E4M3, "float8_e4m3", 1, TYPE_FLOAT },
	{ CORALE_FLOAT8_E5M2, "float8_e5m2", 1, TYPE_FLOAT },
	{ CORALE_INT16, "int16", 2, TYPE_SIGNED },
	{ CORALE_UINT16, "uint16", 2, TYPE_UNSIGNED },
};

static_assert(sizeof(type_rows) / sizeof(*type_rows) == CORALE_NUM_TYPES, "a row for each type");

/* True for the types in which a word of ones is nothing but NaNs: a slot that holds one can mean "nothing yet". */
TYPES_FN int type_in_words(int type)
{
	return type_rows[type].kind == TYPE_FLOAT && type_rows[type].bytes <= sizeof(float);
}

/*
 * True for integers of 16 bits. To keep libraries small they have one kernel where other types have several: signed and unsigned ones,
 * any operator, any address and any number of pieces share it.
 */
TYPES_FN int type_shares_kernels(int type)
{
	return type_rows[type].kind != TYPE_FLOAT && type_rows[type].bytes == 2;
}

/* True for the types that are summed in float32 and are narrower: their partial sums may be float32. */
TYPES_FN int type_is_narrow_float(int type)
{
	return type_rows[type].kind == TYPE_FLOAT && type_rows[type].bytes < sizeof(float);
}

#endif
