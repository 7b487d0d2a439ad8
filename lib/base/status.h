/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, texts and facts of the public enumerations; see corale.h. */
#ifndef STATUS_H
#define STATUS_H

#include "corale.h"

/* The built-in operator, or CORALE_NUM_OPS for any premultiplied sum: what ranks must agree on. */
static inline corale_op op_kind(corale_op op)
{
	return op < CORALE_NUM_OPS ? op : CORALE_NUM_OPS;
}

/* A code that another rank has reported: one of CORALE_EINVAL to CORALE_EINTERNAL, and the last one for what is none. */
static inline int code_of_peer(long code)
{
	return code < 0 && code > CORALE_EINTERNAL ? (int)code : CORALE_EINTERNAL;
}

/* True for floating-point types. */
int type_is_float(corale_type type);

#endif
