/* SPDX-License-Identifier: BSD-3-Clause */
/* The runs of a datatype, from the constructors that made it (MPI_Type_get_contents). */
#include "types.h"

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

/* count parts from `at` on, whose starts are stride bytes apart. */
static void place_at(struct pmpi_runs *list, const struct part *part, ptrdiff_t at, int count,
		     ptrdiff_t stride)
{
	const struct pmpi_run *run = part->runs;
	if (part->n == 1 && run->count == 1 && count > 0) {
		pmpi_runs_add_rows(list, at + run->at, run->bytes, (size_t)count, stride);
		return;
	}
	for (int i = 0; i < count; i++, at += stride)
		for (size_t k = 0; k < part->n; k++)
			pmpi_runs_add_rows(list, at + run[k].at, run[k].bytes, run[k].count,
					   (ptrdiff_t)run[k].stride);
}

static void place(struct pmpi_runs *list, const struct part *part, ptrdiff_t at, int count)
{
	place_at(list, part, at, count, part->extent);
}

/* The same as a part, which has its place. */
static struct part repeat(struct pmpi_runs *list, const struct part *part, int count, ptrdiff_t stride)
{
	struct pmpi_runs repeated = { 0 };
	struct part made = { 0 };
	place_at(&repeated, part, 0, count, stride);
	list->failed |= pmpi_runs_end(&repeated, &made.runs, &made.n) != MPI_SUCCESS;
	return made;
}

/* ---- Constructors -------------------------------------------------------------------------------------- */

static void vector(struct pmpi_runs *list, const struct part *part, const int *integers, ptrdiff_t stride)
{
	const struct part row = repeat(list, part, integers[1], part->extent);
	place_at(list, &row, 0, integers[0], stride);
	free(row.runs);
}

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

/* Dimension by dimension, the fastest first. */
static void subarray(struct pmpi_runs *list, const struct part *part, const int *integers)
{
	const int n = integers[0], *sizes = integers + 1, *counts = sizes + n, *starts = counts + n,
		  is_c = integers[1 + 3 * n] == MPI_ORDER_C;
	struct part block = repeat(list, part, 1, 0);
	ptrdiff_t stride = part->extent, at = 0;
	for (int i = 0; i < n; i++) {
		const int from = is_c ? n - 1 - i : i;
		const struct part longer = repeat(list, &block, counts[from], stride);
		free(block.runs);
		block = longer;
		at += starts[from] * stride;
		stride *= sizes[from];
	}
	place_at(list, &block, at, 1, 0);
	free(block.runs);
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
		vector(list, parts, integers, integers[2] * parts->extent);
		return 1;
	case MPI_COMBINER_HVECTOR:
		vector(list, parts, integers, c->addresses[0]);
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

static int decode_derived(MPI_Datatype type, struct contents *c, struct pmpi_run **runs, size_t *n)
{
	struct pmpi_runs list = { 0 };
	struct part *parts = calloc((size_t)c->n_types + 1, sizeof(*parts));
	int is_known = 1, ret = MPI_ERR_NO_MEM;
	c->integers = calloc((size_t)c->n_integers + 1, sizeof(*c->integers));
	c->addresses = calloc((size_t)c->n_addresses + 1, sizeof(*c->addresses));
	c->types = calloc((size_t)c->n_types + 1, sizeof(MPI_Datatype));
	if (parts && c->integers && c->addresses && c->types)
		ret = PMPI_Type_get_contents(type, c->n_integers, c->n_addresses, c->n_types, c->integers,
					     c->addresses, c->types);
	if (!ret)
		ret = find_parts(c, parts);
	if (!ret && (is_known = construct(&list, parts, c)))
		ret = pmpi_runs_end(&list, runs, n);
	for (int i = 0; parts && i < c->n_types; i++)
		free(parts[i].runs);
	free(parts);
	free(c->integers);
	free(c->addresses);
	free(c->types);
	return is_known ? ret : pmpi_decode_by_packing(type, runs, n);
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
