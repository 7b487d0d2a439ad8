/* SPDX-License-Identifier: BSD-3-Clause */
#include "status.h"

#include "collectives.h"
#include "types.h"

static const char *const errors[] = {
	"success",
	"invalid argument",
	"out of memory, or over the memory cap",
	"a system call failed",
	"not supported by this build or combination",
	"ranks made different calls",
	"a peer did not come before the deadline",
	"a peer died, left, or its link failed",
	"aborted by corale_comm_abort",
	"the communicator failed earlier",
	"the network library reported an error",
	"the CUDA driver or runtime reported an error",
	"a setting is malformed, or differs between ranks",
	"internal error: please report it",
};

static const char *const ops[] = { "sum",         "prod",    "min",     "max",         "avg",
				   "bit_and",     "bit_or",  "bit_xor", "logical_and", "logical_or",
				   "logical_xor", "min_loc", "max_loc", "premul_sum" };

_Static_assert(sizeof(errors) / sizeof(*errors) == 1 - CORALE_EINTERNAL, "one text per error code");
_Static_assert(sizeof(ops) / sizeof(*ops) == CORALE_NUM_OPS + 1, "one name per operator");

static int type_is_valid(corale_type type)
{
	return (int)type >= 0 && type < CORALE_NUM_TYPES;
}

int corale_version(void)
{
	return CORALE_VERSION;
}

const char *corale_strerror(int code)
{
	if (code == CORALE_INPROGRESS)
		return "in progress";
	if (code > 0 || code < CORALE_EINTERNAL)
		return "unknown error code";
	return errors[-code];
}

size_t corale_type_bytes(corale_type type)
{
	return type_is_valid(type) ? type_rows[type].bytes : 0;
}

const char *corale_type_name(corale_type type)
{
	return type_is_valid(type) ? type_rows[type].name : "invalid type";
}

const char *corale_op_name(corale_op op)
{
	if (op < 0)
		return "invalid operator";
	return ops[op_kind(op)];
}

const char *corale_coll_name(corale_coll coll)
{
	return (int)coll >= 0 && coll < CORALE_NUM_COLLS ? coll_table[coll].name : "invalid collective";
}

int type_is_float(corale_type type)
{
	return type_is_valid(type) && type_rows[type].kind == TYPE_FLOAT;
}
