/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts of datatypes: the runs that are found from a type's constructors are those that MPI_Pack shows, and a walk packs and unpacks as MPI does.
 * shapes: 1:0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmpi_glue/types.h"

static int number, failed;

static void report(const char *name, int ok)
{
	printf("%s %d - %s\n", ok ? "ok" : "not ok", ++number, name);
	failed |= !ok;
}

/* ---- Random types: small, nested, with gaps, in any order, never overlapping by chance alone. */

static uint64_t seed;

static int below(int n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((seed >> 33) % (uint64_t)n);
}

static MPI_Datatype named(void)
{
	const MPI_Datatype types[] = { MPI_BYTE,       MPI_INT,       MPI_DOUBLE,          MPI_SHORT,
				       MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT, MPI_2INT };
	return types[below(8)];
}

enum { MOST = 4 };

static void make_indexed(MPI_Datatype child, MPI_Aint extent, MPI_Datatype *out)
{
	int lengths[MOST], elements[MOST], n = 1 + below(MOST), at = 0;
	MPI_Aint bytes[MOST];
	for (int i = 0; i < n; i++) {
		lengths[i] = below(3);
		elements[i] = at + below(2);
		bytes[i] = elements[i] * extent + below(5);
		at = elements[i] + lengths[i] + 1;
	}
	if (n > 1 && below(2)) { /* not in the order of addresses */
		const MPI_Aint first = bytes[0];
		const int element = elements[0], length = lengths[0];
		bytes[0] = bytes[1], elements[0] = elements[1], lengths[0] = lengths[1];
		bytes[1] = first, elements[1] = element, lengths[1] = length;
	}
	if (below(2))
		MPI_Type_indexed(n, lengths, elements, child, out);
	else
		MPI_Type_create_hindexed(n, lengths, bytes, child, out);
}

static void make_blocks(MPI_Datatype child, MPI_Aint extent, MPI_Datatype *out)
{
	int elements[MOST], n = 1 + below(MOST);
	MPI_Aint bytes[MOST];
	for (int i = 0; i < n; i++) {
		elements[i] = 3 * i + below(2);
		bytes[i] = elements[i] * extent + 2;
	}
	if (below(2))
		MPI_Type_create_indexed_block(n, 2, elements, child, out);
	else
		MPI_Type_create_hindexed_block(n, 2, bytes, child, out);
}

static void make_struct(MPI_Datatype child, MPI_Aint extent, MPI_Datatype *out)
{
	const MPI_Datatype types[3] = { child, named(), child };
	const int lengths[3] = { 1 + below(2), 1 + below(3), below(2) };
	const MPI_Aint at[3] = { below(8), 3 * extent + 16, 4 * extent + 200 };
	MPI_Type_create_struct(3, lengths, at, types, out);
}

static void make_subarray(MPI_Datatype child, MPI_Datatype *out)
{
	int sizes[3], counts[3], starts[3], n = 1 + below(3);
	for (int i = 0; i < n; i++) {
		sizes[i] = 1 + below(4);
		counts[i] = 1 + below(sizes[i]);
		starts[i] = below(sizes[i] - counts[i] + 1);
	}
	MPI_Type_create_subarray(n, sizes, counts, starts, below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child,
				 out);
}

/* Of a predefined type: Open MPI 4.1 refuses some derived ones. */
static void make_darray(MPI_Datatype *out)
{
	const int sizes[2] = { 6, 4 }, ranks[2] = { 2, 1 },
		  how[2] = { MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK },
		  arguments[2] = { MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG };
	MPI_Type_create_darray(2, below(2), 2, sizes, how, arguments, ranks, MPI_ORDER_C, MPI_INT, out);
}

/* For MPI_Type_free. */
static MPI_Datatype random_type(int depth)
{
	MPI_Datatype child, out;
	MPI_Aint from, extent;
	if (depth)
		child = random_type(depth - 1);
	else
		MPI_Type_dup(named(), &child);
	MPI_Type_get_extent(child, &from, &extent);
	switch (below(9)) {
	case 0:
		MPI_Type_contiguous(1 + below(3), child, &out);
		break;
	case 1:
		MPI_Type_vector(1 + below(4), 1 + below(2), 2 + below(3), child, &out);
		break;
	case 2:
		MPI_Type_create_hvector(1 + below(4), 1, extent + below(9), child, &out);
		break;
	case 3:
		make_indexed(child, extent, &out);
		break;
	case 4:
		make_blocks(child, extent, &out);
		break;
	case 5:
		make_struct(child, extent, &out);
		break;
	case 6:
		make_subarray(child, &out);
		break;
	case 7:
		MPI_Type_create_resized(child, from, extent + below(16), &out);
		break;
	default:
		make_darray(&out);
	}
	MPI_Type_free(&child);
	return out;
}

/* ---- Comparison with MPI */

struct copy {
	char *user, *packed;
	int to_user, calls;
};

static int copy_rows(void *arg, const struct pmpi_rows *rows)
{
	struct copy *copy = arg;
	copy->calls++;
	for (size_t i = 0; i < rows->rows; i++) {
		char *user = copy->user + rows->at + (ptrdiff_t)(i * rows->pitch);
		char *packed = copy->packed + rows->packed_at + i * rows->packed_pitch;
		memcpy(copy->to_user ? user : packed, copy->to_user ? packed : user, rows->width);
	}
	return rows->rows > 1 && (rows->pitch < rows->width || rows->packed_pitch < rows->width);
}

static int same_runs(MPI_Datatype type, const struct pmpi_layout *layout)
{
	struct pmpi_run *runs;
	size_t n;
	if (pmpi_decode_by_packing(type, &runs, &n))
		return 0;
	const int same = n == layout->n && (!n || !memcmp(runs, layout->runs, n * sizeof(*runs)));
	free(runs);
	return same;
}

struct buffers {
	char *memory, *packed, *expected; /* room bytes of memory, the buffer's address is in the middle */
	size_t room, bytes;
};

static int packs_alike(MPI_Datatype type, const struct pmpi_layout *layout, struct buffers *b, int count)
{
	struct copy copy = { b->memory + b->room / 2, b->packed, 0, 0 };
	int position = 0;
	for (size_t i = 0; i < b->room; i++)
		b->memory[i] = (char)(i * 131 >> 3);
	MPI_Pack(copy.user, count, type, b->expected, (int)b->bytes, &position, MPI_COMM_SELF);
	return !pmpi_layout_walk(layout, (size_t)count, b->bytes, copy_rows, &copy) &&
	       !memcmp(b->packed, b->expected, b->bytes);
}

/* The first `bytes` only, as a shorter message fills a buffer: those of a buffer that MPI fills by whole elements, and no gap. */
static int unpacks_alike(MPI_Datatype type, const struct pmpi_layout *layout, struct buffers *b, int count)
{
	const size_t whole = (size_t)count * layout->size;
	char *other = malloc(b->room);
	struct copy copy = { b->memory + b->room / 2, b->packed, 1, 0 };
	int position = 0;
	memset(b->memory, 0x55, b->room);
	memset(other, 0x55, b->room);
	MPI_Unpack(b->packed, (int)whole, &position, other + b->room / 2, count, type, MPI_COMM_SELF);
	const int same = !pmpi_layout_walk(layout, (size_t)count + 2, whole, copy_rows, &copy) &&
			 !memcmp(b->memory, other, b->room);
	free(other);
	return same;
}

/* A part of an element: what a walk of the whole gives, cut there. */
static int cuts_alike(const struct pmpi_layout *layout, struct buffers *b, int count)
{
	const size_t bytes = (size_t)below((int)b->bytes + 1);
	struct copy copy = { b->memory + b->room / 2, b->packed, 0, 0 };
	memset(b->packed, 0, b->bytes);
	pmpi_layout_walk(layout, (size_t)count, b->bytes, copy_rows, &copy);
	memcpy(b->expected, b->packed, b->bytes);
	memset(b->expected + bytes, 0, b->bytes - bytes);
	memset(b->packed, 0, b->bytes);
	pmpi_layout_walk(layout, (size_t)count, bytes, copy_rows, &copy);
	return !memcmp(b->packed, b->expected, b->bytes);
}

static const char *compare(MPI_Datatype type, struct pmpi_layout *layout)
{
	const int count = 1 + below(4);
	struct buffers b = { .bytes = (size_t)count * layout->size };
	MPI_Aint from, span;
	const char *fault = NULL;
	MPI_Type_get_true_extent(type, &from, &span);
	b.room = 2 * ((size_t)labs(from) + (size_t)span + (size_t)count * (size_t)labs(layout->extent) + 64);
	b.memory = malloc(b.room);
	b.packed = malloc(b.bytes + 1);
	b.expected = malloc(b.bytes + 1);
	if (!same_runs(type, layout))
		fault = "runs";
	else if (!packs_alike(type, layout, &b, count))
		fault = "packing";
	else if (!unpacks_alike(type, layout, &b, count))
		fault = "unpacking";
	else if (!cuts_alike(layout, &b, count))
		fault = "a part of the bytes";
	free(b.memory);
	free(b.packed);
	free(b.expected);
	return fault;
}

static void random_types(void)
{
	const char *fault = NULL;
	for (int i = 0; i < 3000 && !fault; i++) {
		seed = (uint64_t)i;
		MPI_Datatype type = random_type(i % 4);
		MPI_Type_commit(&type);
		struct pmpi_layout *layout = pmpi_layout_get(type);
		fault = layout ? compare(type, layout) : "no layout";
		if (fault)
			printf("# type %d: %s\n", i, fault);
		if (layout)
			pmpi_layout_put(layout);
		MPI_Type_free(&type);
	}
	report("random types are packed and unpacked as MPI does", !fault);
}

/* ---- Single cases */

static int ignore_rows(void *arg, const struct pmpi_rows *rows)
{
	*(struct pmpi_rows *)arg = *rows;
	return 0;
}

static int count_calls(void *arg, const struct pmpi_rows *rows)
{
	++*(int *)arg;
	return 0;
}

/* A column of a matrix of 800 MB: found without its memory, and copied by one call. */
static void column(void)
{
	enum { N = 10000 };
	MPI_Datatype type;
	struct pmpi_rows rows = { 0 };
	int calls = 0;
	MPI_Type_vector(N, 1, N, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	struct pmpi_layout *layout = pmpi_layout_get(type);
	pmpi_layout_walk(layout, 1, layout->size, ignore_rows, &rows);
	pmpi_layout_walk(layout, 1, layout->size, count_calls, &calls);
	report("a column is one call of many rows", calls == 1 && rows.rows == N && rows.width == 8 &&
							rows.pitch == 8 * N && rows.packed_pitch == 8);
	pmpi_layout_put(layout);
	MPI_Type_free(&type);
}

/* As programs make types of more elements than an int counts: 2^30 rows of 2, resized, twice side by side. Element by element it would take a minute. */
static void many_rows(void)
{
	MPI_Datatype rows, resized, type;
	MPI_Type_vector(1 << 30, 2, 5, MPI_SHORT, &rows);
	MPI_Type_create_resized(rows, 0, 4, &resized);
	MPI_Type_vector(1, 2, 1, resized, &type);
	MPI_Type_commit(&type);
	const double begin = MPI_Wtime();
	struct pmpi_layout *layout = pmpi_layout_get(type);
	const int is_right = layout->n == 2 && layout->runs[1].at == 4 && layout->runs[1].bytes == 4 &&
			     layout->runs[1].count == 1 << 30 && layout->runs[1].stride == 10;
	report("2^30 rows, twice, are found at once", is_right && MPI_Wtime() - begin < 5);
	pmpi_layout_put(layout);
	MPI_Type_free(&type);
	MPI_Type_free(&resized);
	MPI_Type_free(&rows);
}

/* Many elements with a gap: a call for each run, not for each element. */
static void elements_with_gaps(void)
{
	int calls = 0;
	struct pmpi_layout *layout = pmpi_layout_get(MPI_DOUBLE_INT);
	pmpi_layout_walk(layout, 1000, 12 * 500, count_calls, &calls);
	report("elements with a gap are one call", calls == 1);
	pmpi_layout_put(layout);
}

static void contiguous(void)
{
	MPI_Datatype type;
	struct pmpi_rows rows = { 0 };
	MPI_Type_contiguous(3, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	struct pmpi_layout *layout = pmpi_layout_get(type), *of_int = pmpi_layout_get(MPI_INT);
	pmpi_layout_walk(layout, 100, 2400, ignore_rows, &rows);
	report("contiguous types are bytes", layout->is_contiguous && rows.rows == 1 && rows.width == 2400 &&
						 of_int->is_contiguous && of_int == pmpi_layout_get(MPI_INT));
	pmpi_layout_put(layout);
	MPI_Type_free(&type);
}

static void freed_type(void)
{
	MPI_Datatype type;
	MPI_Type_vector(4, 1, 3, MPI_INT, &type);
	MPI_Type_commit(&type);
	struct pmpi_layout *layout = pmpi_layout_get(type), *again = pmpi_layout_get(type);
	const int is_kept = layout == again;
	MPI_Type_free(&type);
	pmpi_layout_put(again);
	report("a layout is kept with its type, and outlives it",
	       is_kept && layout->n == 1 && layout->runs[0].count == 4 && layout->size == 16);
	pmpi_layout_put(layout);
}

/* More bytes than an int counts. */
static void long_message(void)
{
	MPI_Count size;
	struct pmpi_bytes bytes = pmpi_bytes_begin(((size_t)300 << 23) + 5);
	PMPI_Type_size_x(bytes.type, &size);
	report("more than 2 GB can be given to MPI", bytes.count * size == ((MPI_Count)300 << 23) + 5);
	pmpi_bytes_end(&bytes);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	random_types();
	column();
	many_rows();
	elements_with_gaps();
	contiguous();
	freed_type();
	long_message();
	pmpi_types_end();
	MPI_Finalize();
	printf("1..%d\n", number);
	return failed;
}
