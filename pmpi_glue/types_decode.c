/* SPDX-License-Identifier: BSD-3-Clause */
/* The runs of a datatype, from the constructors that made it (MPI_Type_get_contents). */
#include "types_decode.h"

#include <stdlib.h>

/* A type's constructor and its arguments, in MPI's order. */
struct contents {
	int combiner, n_integers, n_addresses, n_types;
	int *integers;
	MPI_Aint *addresses;
	MPI_Datatype *types;
};

/* A type that another one is made of. */
struct part {
	struct pmpi_run *runs;
	size_t n;
	ptrdiff_t extent;
};

/* A part is one piece that parts in a row make longer. */
static int is_solid(const struct part *part)
{
	return part->n == 1 && part->runs->count == 1 && part->extent == (ptrdiff_t)part->runs->bytes;
}

/* count parts from `at` on. */
static void place(struct pmpi_runs *list, const struct part *part, ptrdiff_t at, int count)
{
	const struct pmpi_run *run = part->runs;
	if (part->n == 1 && run->count == 1 && count > 0) {
		pmpi_runs_add_rows(list, at + run->at, run->bytes, (size_t)count, part->extent);
		return;
	}
	for (int i = 0; i < count; i++, at += part->extent)
		for (size_t k = 0; k < part->n; k++)
			pmpi_runs_add_rows(list, at + part->runs[k].at, part->runs[k].bytes,
					   part->runs[k].count, (ptrdiff_t)part->runs[k].stride);
}

/* rows of count parts each, whose starts are stride bytes apart. */
static void place_rows(struct pmpi_runs *list, const struct part *part, ptrdiff_t at, int count, int rows,
		       ptrdiff_t stride)
{
	if (count > 0 && rows > 0 && is_solid(part)) {
		pmpi_runs_add_rows(list, at + part->runs->at, part->runs->bytes * (size_t)count, (size_t)rows,
				   stride);
		return;
	}
	for (int i = 0; i < rows; i++)
		place(list, part, at + i * stride, count);
}

/* ---- Constructors -------------------------------------------------------------------------------------- */

/* lengths: one for all blocks, or one a block. Displacements are in elements or in bytes. */
static void indexed(struct pmpi_runs *list, const struct part *part, int n, const int *lengths,
		    int is_one_length, const int *elements, const MPI_Aint *bytes)
{
	for (int i = 0; i < n; i++)
		place(list, part, bytes ? bytes[i] : elements[i] * part->extent,
		      lengths[is_one_length ? 0 : i]);
}

static void structure(struct pmpi_runs *list, const struct part *parts, const struct contents *c)
{
	for (int i = 0; i < c->integers[0]; i++)
		place(list, &parts[i], c->addresses[i], c->integers[1 + i]);
}

struct dimension {
	int count; /* of the subarray */
	ptrdiff_t stride;
};

/* dimensions[0] is the fastest one. */
static void subarray_rows(struct pmpi_runs *list, const struct part *part, const struct dimension *dimensions,
			  int last, ptrdiff_t at)
{
	if (last < 2) {
		place_rows(list, part, at, dimensions[0].count, last ? dimensions[1].count : 1,
			   dimensions[last].stride);
		return;
	}
	for (int i = 0; i < dimensions[last].count; i++)
		subarray_rows(list, part, dimensions, last - 1, at + i * dimensions[last].stride);
}

static void subarray(struct pmpi_runs *list, const struct part *part, const int *integers)
{
	const int n = integers[0], *sizes = integers + 1, *counts = sizes + n, *starts = counts + n,
		  is_c = integers[1 + 3 * n] == MPI_ORDER_C;
	struct dimension *dimensions = calloc((size_t)n, sizeof(*dimensions));
	ptrdiff_t stride = part->extent, at = 0;
	list->failed |= !dimensions;
	for (int i = 0; dimensions && i < n; i++) {
		const int from = is_c ? n - 1 - i : i;
		dimensions[i] = (struct dimension){ counts[from], stride };
		at += starts[from] * stride;
		stride *= sizes[from];
	}
	if (dimensions)
		subarray_rows(list, part, dimensions, n - 1, at);
	free(dimensions);
}

/* 0: a constructor that is not known here. */
static int construct(struct pmpi_runs *list, const struct part *parts, const struct contents *c)
{
	const int *integers = c->integers, n = c->n_integers ? integers[0] : 0;
	switch (c->combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED:
		place(list, parts, 0, 1);
		return 1;
	case MPI_COMBINER_CONTIGUOUS:
		place(list, parts, 0, n);
		return 1;
	case MPI_COMBINER_VECTOR:
		place_rows(list, parts, 0, integers[1], integers[0], integers[2] * parts->extent);
		return 1;
	case MPI_COMBINER_HVECTOR:
		place_rows(list, parts, 0, integers[1], integers[0], c->addresses[0]);
		return 1;
	case MPI_COMBINER_INDEXED:
		indexed(list, parts, n, integers + 1, 0, integers + 1 + n, NULL);
		return 1;
	case MPI_COMBINER_HINDEXED:
		indexed(list, parts, n, integers + 1, 0, NULL, c->addresses);
		return 1;
	case MPI_COMBINER_INDEXED_BLOCK:
		indexed(list, parts, n, integers + 1, 1, integers + 2, NULL);
		return 1;
	case MPI_COMBINER_HINDEXED_BLOCK:
		indexed(list, parts, n, integers + 1, 1, NULL, c->addresses);
		return 1;
	case MPI_COMBINER_STRUCT:
		structure(list, parts, c);
		return 1;
	case MPI_COMBINER_SUBARRAY:
		subarray(list, parts, integers);
		return 1;
	default:
		return 0;
	}
}

/* ---- Types --------------------------------------------------------------------------------------------- */

static int is_named(int combiner)
{
	return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
	       combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

/* Pairs of a value and an int, as MPI_MINLOC takes them, have the int where a C struct has it. */
static void add_named(struct pmpi_runs *list, MPI_Datatype type)
{
	MPI_Aint from, extent;
	int size;
	PMPI_Type_size(type, &size);
	PMPI_Type_get_extent(type, &from, &extent);
	if (extent <= size) {
		pmpi_runs_add(list, 0, (size_t)size);
		return;
	}
	const size_t value = (size_t)size - sizeof(int);
	pmpi_runs_add(list, 0, value);
	pmpi_runs_add(list, (ptrdiff_t)((value + sizeof(int) - 1) / sizeof(int) * sizeof(int)), sizeof(int));
}

/* Decodes all parts, even after an error: their types must be freed. */
static int find_parts(const struct contents *c, struct part *parts)
{
	int ret = MPI_SUCCESS;
	for (int i = 0; i < c->n_types; i++) {
		MPI_Aint from, extent;
		int is_named_part = 1;
		PMPI_Type_get_extent(c->types[i], &from, &extent);
		parts[i].extent = extent;
		const int failed = pmpi_decode(c->types[i], &parts[i].runs, &parts[i].n, &is_named_part);
		if (!is_named_part)
			PMPI_Type_free(&c->types[i]);
		ret = ret ? ret : failed;
	}
	return ret;
}

static int decode_contents(MPI_Datatype type, const struct contents *c, struct pmpi_run **runs, size_t *n)
{
	struct pmpi_runs list = { 0 };
	struct part *parts = calloc((size_t)c->n_types + 1, sizeof(*parts));
	if (!parts)
		return MPI_ERR_NO_MEM;
	int is_known = 1, ret = PMPI_Type_get_contents(type, c->n_integers, c->n_addresses, c->n_types,
						       c->integers, c->addresses, c->types);
	if (!ret)
		ret = find_parts(c, parts);
	if (!ret)
		is_known = construct(&list, parts, c);
	if (!ret && is_known)
		ret = pmpi_runs_end(&list, runs, n);
	for (int i = 0; i < c->n_types; i++)
		free(parts[i].runs);
	free(parts);
	return is_known ? ret : pmpi_decode_by_packing(type, runs, n);
}

static int decode_derived(MPI_Datatype type, struct contents *c, struct pmpi_run **runs, size_t *n)
{
	int ret = MPI_ERR_NO_MEM;
	c->integers = calloc((size_t)c->n_integers + 1, sizeof(*c->integers));
	c->addresses = calloc((size_t)c->n_addresses + 1, sizeof(*c->addresses));
	c->types = calloc((size_t)c->n_types + 1, sizeof(MPI_Datatype));
	if (c->integers && c->addresses && c->types)
		ret = decode_contents(type, c, runs, n);
	free(c->integers);
	free(c->addresses);
	free(c->types);
	return ret;
}

/* MPI 4: a constructor whose counts were MPI_Count has no contents for MPI_Type_get_contents. */
static int has_large_counts(MPI_Datatype type)
{
#if MPI_VERSION >= 4
	MPI_Count integers, addresses, large, types;
	int combiner;
	return !PMPI_Type_get_envelope_c(type, &integers, &addresses, &large, &types, &combiner) && large > 0;
#else
	(void)type;
	return 0;
#endif
}

int pmpi_decode(MPI_Datatype type, struct pmpi_run **runs, size_t *n, int *named)
{
	struct contents c = { 0 };
	struct pmpi_runs list = { 0 };
	*named = 0;
	if (has_large_counts(type))
		return pmpi_decode_by_packing(type, runs, n);
	const int ret = PMPI_Type_get_envelope(type, &c.n_integers, &c.n_addresses, &c.n_types, &c.combiner);
	*named = ret || is_named(c.combiner);
	if (ret)
		return ret;
	if (!*named)
		return decode_derived(type, &c, runs, n);
	add_named(&list, type);
	return pmpi_runs_end(&list, runs, n);
}
