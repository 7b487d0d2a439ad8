/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators of a type in turn, for tests that go through all of them. */
#ifndef OP_SETS_H
#define OP_SETS_H

#include "base/types.h"

/* The i-th operator of a set (types.h), from the first again behind the last; 0 of none. */
static inline corale_op op_of_set(unsigned set, size_t i)
{
	corale_op op = 0;
	for (size_t left = set ? i % (size_t)__builtin_popcount(set) + 1 : 0; left; op++)
		left -= set >> op & 1;
	return op ? op - 1 : 0;
}

/* Of those that it has, and of those that codelets fold. */
static inline corale_op op_of_type(corale_type type, size_t i)
{
	return op_of_set(type_rows[type].ops, i);
}

static inline corale_op op_of_codelets(corale_type type, size_t i)
{
	return op_of_set(type_codelet_ops(type), i);
}

/* The i-th type that codelets fold. */
static inline corale_type type_of_codelets(size_t i)
{
	size_t left = i % CORALE_NUM_TYPES + 1;
	int type = -1;
	while (left)
		left -= type_codelet_ops(type = (type + 1) % CORALE_NUM_TYPES) != 0;
	return (corale_type)type;
}

#endif
