/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's predefined types and operators that Corale has. */
#include "base/types.h"
#include "coll.h"

/* A type of MPI has the bytes that its language's compiler gives it, so a row has types of two sizes. Pairs whose form has a gap are left to MPI, which does not write to gaps. */
enum { MOST = 11 };
static const struct {
	corale_type narrow, wide;
	MPI_Datatype of[MOST];
} types[] = {
	{ CORALE_FLOAT32,
	  CORALE_FLOAT64,
	  { MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_REAL4, MPI_REAL8, MPI_DOUBLE_PRECISION } },
	{ CORALE_INT32,
	  CORALE_INT64,
	  { MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT32_T, MPI_INT64_T, MPI_INTEGER, MPI_INTEGER4,
	    MPI_INTEGER8, MPI_AINT, MPI_OFFSET, MPI_COUNT } },
	{ CORALE_UINT32,
	  CORALE_UINT64,
	  { MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT32_T, MPI_UINT64_T } },
	{ CORALE_INT8, CORALE_INT8, { MPI_SIGNED_CHAR, MPI_INT8_T, MPI_INTEGER1 } },
	{ CORALE_UINT8, CORALE_UINT8, { MPI_UNSIGNED_CHAR, MPI_UINT8_T } },
	{ CORALE_INT16, CORALE_INT16, { MPI_SHORT, MPI_INT16_T, MPI_INTEGER2 } },
	{ CORALE_UINT16, CORALE_UINT16, { MPI_UNSIGNED_SHORT, MPI_UINT16_T } },
	{ CORALE_BOOL, CORALE_BOOL, { MPI_C_BOOL } },
	{ CORALE_COMPLEX64,
	  CORALE_COMPLEX128,
	  { MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_DOUBLE_COMPLEX } },
	{ CORALE_PAIR_FLOAT32, CORALE_PAIR_FLOAT32, { MPI_FLOAT_INT } },
	{ CORALE_PAIR_INT32, CORALE_PAIR_INT32, { MPI_2INT } },
};

static const struct {
	MPI_Op mpi;
	corale_op corale;
} ops[] = {
	{ MPI_SUM, CORALE_SUM },          { MPI_PROD, CORALE_PROD },        { MPI_MIN, CORALE_MIN },
	{ MPI_MAX, CORALE_MAX },          { MPI_BAND, CORALE_BIT_AND },     { MPI_BOR, CORALE_BIT_OR },
	{ MPI_BXOR, CORALE_BIT_XOR },     { MPI_LAND, CORALE_LOGICAL_AND }, { MPI_LOR, CORALE_LOGICAL_OR },
	{ MPI_LXOR, CORALE_LOGICAL_XOR }, { MPI_MINLOC, CORALE_MIN_LOC },   { MPI_MAXLOC, CORALE_MAX_LOC },
};

static int find_type(MPI_Datatype mpi, corale_type *corale)
{
	int bytes = 0;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (int k = 0; k < MOST; k++) {
			if (types[i].of[k] != mpi)
				continue;
			PMPI_Type_size(mpi, &bytes);
			*corale = (size_t)bytes == corale_type_bytes(types[i].narrow) ? types[i].narrow
										      : types[i].wide;
			return (size_t)bytes == corale_type_bytes(*corale);
		}
	return 0;
}

int pmpi_reduction_find(MPI_Datatype type, MPI_Op op, corale_type *corale_type_out, corale_op *corale_op_out)
{
	static __thread struct {
		MPI_Datatype mpi;
		corale_type corale;
	} last __attribute__((tls_model("initial-exec"))); /* programs use few types */
	size_t o = 0;
	if (last.mpi != type) {
		if (!find_type(type, corale_type_out))
			return 0;
		last.mpi = type;
		last.corale = *corale_type_out;
	}
	while (o < sizeof ops / sizeof *ops && ops[o].mpi != op)
		o++;
	if (o == sizeof ops / sizeof *ops)
		return 0;
	*corale_type_out = last.corale;
	*corale_op_out = ops[o].corale;
	return type_has_op(*corale_type_out, *corale_op_out);
}
