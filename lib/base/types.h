/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types: one list, which hosts and kernels read when they are compiled. Arrays by type elsewhere assert that they have as many rows.
 * C cannot assert the rows' order: kernels/vector.cuh does, and test/base/status_test.c.
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

enum type_kind { TYPE_SIGNED, TYPE_UNSIGNED, TYPE_FLOAT, TYPE_BOOL, TYPE_COMPLEX, TYPE_PAIR };

/* Sets of operators: a bit each, by its number. Premultiplied sums are CORALE_NUM_OPS. */
enum {
	TYPE_OPS_NUMBER = 1u << CORALE_SUM | 1u << CORALE_PROD | 1u << CORALE_MIN | 1u << CORALE_MAX |
			  1u << CORALE_AVG | 1u << CORALE_NUM_OPS,
	TYPE_OPS_BITS = 1u << CORALE_BIT_AND | 1u << CORALE_BIT_OR | 1u << CORALE_BIT_XOR |
			1u << CORALE_LOGICAL_AND | 1u << CORALE_LOGICAL_OR | 1u << CORALE_LOGICAL_XOR,
	TYPE_OPS_INTEGER = TYPE_OPS_NUMBER | TYPE_OPS_BITS,
	TYPE_OPS_COMPLEX = 1u << CORALE_SUM | 1u << CORALE_PROD | 1u << CORALE_AVG,
	TYPE_OPS_PAIR = 1u << CORALE_MIN_LOC | 1u << CORALE_MAX_LOC
};

enum {
	TYPE_MOST_BYTES = 16
}; /* blocks of lib/reduce and kinds of choices count on it; what has a premultiplied sum has 8 at most */

/* In the order of corale_type. */
TYPES_CONST struct type_row {
	corale_type type;
	const char *name;
	uint8_t bytes; /* of an element */
	uint8_t kind; /* enum type_kind */
	uint16_t ops; /* the operators that it has */
	uint8_t part; /* corale_type: of a complex number's parts, of a pair's value; else 0 */
} type_rows[] = {
	{ CORALE_INT8, "int8", 1, TYPE_SIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_UINT8, "uint8", 1, TYPE_UNSIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_INT32, "int32", 4, TYPE_SIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_UINT32, "uint32", 4, TYPE_UNSIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_INT64, "int64", 8, TYPE_SIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_UINT64, "uint64", 8, TYPE_UNSIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_FLOAT16, "float16", 2, TYPE_FLOAT, TYPE_OPS_NUMBER, 0 },
	{ CORALE_BFLOAT16, "bfloat16", 2, TYPE_FLOAT, TYPE_OPS_NUMBER, 0 },
	{ CORALE_FLOAT32, "float32", 4, TYPE_FLOAT, TYPE_OPS_NUMBER, 0 },
	{ CORALE_FLOAT64, "float64", 8, TYPE_FLOAT, TYPE_OPS_NUMBER, 0 },
	{ CORALE_FLOAT8_E4M3, "float8_e4m3", 1, TYPE_FLOAT, TYPE_OPS_NUMBER, 0 },
	{ CORALE_FLOAT8_E5M2, "float8_e5m2", 1, TYPE_FLOAT, TYPE_OPS_NUMBER, 0 },
	{ CORALE_INT16, "int16", 2, TYPE_SIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_UINT16, "uint16", 2, TYPE_UNSIGNED, TYPE_OPS_INTEGER, 0 },
	{ CORALE_BOOL, "bool", 1, TYPE_BOOL, TYPE_OPS_BITS, 0 },
	{ CORALE_COMPLEX64, "complex64", 8, TYPE_COMPLEX, TYPE_OPS_COMPLEX, CORALE_FLOAT32 },
	{ CORALE_COMPLEX128, "complex128", 16, TYPE_COMPLEX, TYPE_OPS_COMPLEX, CORALE_FLOAT64 },
	{ CORALE_PAIR_FLOAT32, "pair_float32", 8, TYPE_PAIR, TYPE_OPS_PAIR, CORALE_FLOAT32 },
	{ CORALE_PAIR_FLOAT64, "pair_float64", 16, TYPE_PAIR, TYPE_OPS_PAIR, CORALE_FLOAT64 },
	{ CORALE_PAIR_INT64, "pair_int64", 16, TYPE_PAIR, TYPE_OPS_PAIR, CORALE_INT64 },
	{ CORALE_PAIR_INT32, "pair_int32", 8, TYPE_PAIR, TYPE_OPS_PAIR, CORALE_INT32 },
	{ CORALE_PAIR_INT16, "pair_int16", 8, TYPE_PAIR, TYPE_OPS_PAIR, CORALE_INT16 },
};

static_assert(sizeof(type_rows) / sizeof(*type_rows) == CORALE_NUM_TYPES, "a row for each type");

static_assert(CORALE_NUM_OPS < 16, "sets of operators have 16 bits");

/* op: an operator, or CORALE_NUM_OPS. */
TYPES_FN int type_has_op(int type, int op)
{
	return type_rows[type].ops >> op & 1;
}

/* Whether the operator does to elements what it does to each of their parts: they are folded as twice as many parts. */
TYPES_FN int type_folds_parts(int type, int op)
{
	return type_rows[type].kind == TYPE_COMPLEX && op != CORALE_PROD;
}

/* Where a pair's index begins: behind the value, at the alignment of int32. */
TYPES_FN int type_index_at(int type)
{
	return type_rows[type_rows[type].part].bytes > 4 ? 8 : 4;
}

/* The operators that all codelets of GPUs fold, of a type. */
TYPES_FN unsigned type_codelet_ops(int type)
{
	const unsigned ops = type_rows[type].kind == TYPE_COMPLEX ? TYPE_OPS_COMPLEX & ~(1u << CORALE_PROD)
			     : type_rows[type].kind <= TYPE_FLOAT ? TYPE_OPS_NUMBER
								  : 0;
	return type_rows[type].ops & ops;
}

/* Whether no codelet folds it: on GPUs its plan is lowered, and one kernel folds all of these. */
TYPES_FN int type_folds_lowered(int type, int op)
{
	return (type_rows[type].ops & ~type_codelet_ops(type)) >> op & 1;
}

/* True for the types in which a word of ones is nothing but NaNs: a slot that holds one can mean "nothing yet". Complex numbers are folded as their parts. */
TYPES_FN int type_in_words(int type)
{
	const int part = type_rows[type].kind == TYPE_COMPLEX ? type_rows[type].part : type;
	return type_rows[part].kind == TYPE_FLOAT && type_rows[part].bytes <= sizeof(float);
}

/*
 * True for integers. To keep libraries small signed and unsigned ones of a width share kernels, and have one for any operator and any number of pieces
 * where floats have another one for sums.
 */
TYPES_FN int type_shares_kernels(int type)
{
	return type_rows[type].kind == TYPE_SIGNED || type_rows[type].kind == TYPE_UNSIGNED;
}

#endif
