/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduction.h"

#include "base/types.h"

enum { MOST_TYPES = 64, MOST_OPS = 16 };

/* Handles are no constants in every MPI, so the table is filled at MPI_Init. */
static struct {
	int types, ops;
	struct mpi_type {
		MPI_Datatype mpi;
		corale_type corale;
	} type[MOST_TYPES];
	struct mpi_op {
		MPI_Op mpi;
		corale_op corale;
	} op[MOST_OPS];
} table;

/* A type of MPI has the bytes that its language's compiler gives it. A type that this MPI lacks is MPI_DATATYPE_NULL. */
static void add(MPI_Datatype mpi, corale_type narrow, corale_type wide)
{
	int bytes = 0;
	if (mpi == MPI_DATATYPE_NULL || table.types == MOST_TYPES)
		return;
	PMPI_Type_size(mpi, &bytes);
	const corale_type found = (size_t)bytes == corale_type_bytes(narrow) ? narrow : wide;
	if ((size_t)bytes == corale_type_bytes(found))
		table.type[table.types++] = (struct mpi_type){ mpi, found };
}

static void add_integers(void)
{
	const MPI_Datatype of_8[] = { MPI_SIGNED_CHAR, MPI_INT8_T, MPI_INTEGER1 };
	const MPI_Datatype of_16[] = { MPI_SHORT, MPI_INT16_T, MPI_INTEGER2 };
	const MPI_Datatype wide[] = { MPI_INT,     MPI_LONG,    MPI_LONG_LONG, MPI_INT32_T,
				      MPI_INT64_T, MPI_INTEGER, MPI_INTEGER4,  MPI_INTEGER8,
				      MPI_AINT,    MPI_OFFSET,  MPI_COUNT };
	const MPI_Datatype unsigned_wide[] = { MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
					       MPI_UINT32_T, MPI_UINT64_T };
	for (size_t i = 0; i < sizeof of_8 / sizeof *of_8; i++)
		add(of_8[i], CORALE_INT8, CORALE_INT8);
	for (size_t i = 0; i < sizeof of_16 / sizeof *of_16; i++)
		add(of_16[i], CORALE_INT16, CORALE_INT16);
	for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
		add(wide[i], CORALE_INT32, CORALE_INT64);
	for (size_t i = 0; i < sizeof unsigned_wide / sizeof *unsigned_wide; i++)
		add(unsigned_wide[i], CORALE_UINT32, CORALE_UINT64);
	add(MPI_C_BOOL, CORALE_BOOL, CORALE_BOOL);
	add(MPI_UNSIGNED_CHAR, CORALE_UINT8, CORALE_UINT8);
	add(MPI_UINT8_T, CORALE_UINT8, CORALE_UINT8);
	add(MPI_UNSIGNED_SHORT, CORALE_UINT16, CORALE_UINT16);
	add(MPI_UINT16_T, CORALE_UINT16, CORALE_UINT16);
}

static void add_floats(void)
{
	const MPI_Datatype floats[] = { MPI_FLOAT, MPI_DOUBLE, MPI_REAL,
					MPI_REAL4, MPI_REAL8,  MPI_DOUBLE_PRECISION };
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		add(floats[i], CORALE_FLOAT32, CORALE_FLOAT64);
}

/* Pairs whose form has a gap are left to MPI, which does not write to gaps. */
static void add_complex_and_pairs(void)
{
	add(MPI_C_FLOAT_COMPLEX, CORALE_COMPLEX64, CORALE_COMPLEX64);
	add(MPI_C_DOUBLE_COMPLEX, CORALE_COMPLEX128, CORALE_COMPLEX128);
	add(MPI_COMPLEX, CORALE_COMPLEX64, CORALE_COMPLEX64);
	add(MPI_DOUBLE_COMPLEX, CORALE_COMPLEX128, CORALE_COMPLEX128);
	add(MPI_FLOAT_INT, CORALE_PAIR_FLOAT32, CORALE_PAIR_FLOAT32);
	add(MPI_2INT, CORALE_PAIR_INT32, CORALE_PAIR_INT32);
}

static void add_op(MPI_Op mpi, corale_op corale)
{
	table.op[table.ops++] = (struct mpi_op){ mpi, corale };
}

void pmpi_reduction_start(void)
{
	table.types = table.ops = 0;
	add_floats();
	add_integers();
	add_complex_and_pairs();
	add_op(MPI_SUM, CORALE_SUM);
	add_op(MPI_PROD, CORALE_PROD);
	add_op(MPI_MIN, CORALE_MIN);
	add_op(MPI_MAX, CORALE_MAX);
	add_op(MPI_BAND, CORALE_BIT_AND);
	add_op(MPI_BOR, CORALE_BIT_OR);
	add_op(MPI_BXOR, CORALE_BIT_XOR);
	add_op(MPI_LAND, CORALE_LOGICAL_AND);
	add_op(MPI_LOR, CORALE_LOGICAL_OR);
	add_op(MPI_LXOR, CORALE_LOGICAL_XOR);
	add_op(MPI_MINLOC, CORALE_MIN_LOC);
	add_op(MPI_MAXLOC, CORALE_MAX_LOC);
}

int pmpi_reduction_find(MPI_Datatype type, MPI_Op op, corale_type *corale_type_out, corale_op *corale_op_out)
{
	static __thread int last __attribute__((tls_model("initial-exec"))); /* programs use few types */
	int t = last < table.types && table.type[last].mpi == type ? last : 0, o = 0;
	while (t < table.types && table.type[t].mpi != type)
		t++;
	while (o < table.ops && table.op[o].mpi != op)
		o++;
	if (t == table.types || o == table.ops)
		return 0;
	last = t;
	*corale_type_out = table.type[t].corale;
	*corale_op_out = table.op[o].corale;
	return type_has_op(*corale_type_out, *corale_op_out);
}
