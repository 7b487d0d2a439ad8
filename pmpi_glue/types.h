/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of a datatype are, so that they can be copied between a device and the host without MPI. A layout is found once a datatype and kept
 * with it as an attribute. Any thread.
 */
#ifndef PMPI_TYPES_H
#define PMPI_TYPES_H

#include <limits.h>
#include <mpi.h>
#include <stddef.h>

/* count pieces of bytes each, whose starts are stride bytes apart. stride > bytes where count > 1. */
struct pmpi_run {
	ptrdiff_t at; /* of the first piece, from the element's address */
	size_t bytes, count;
	size_t stride;
};

struct pmpi_layout {
	size_t size; /* bytes of data in an element */
	ptrdiff_t extent; /* from an element to the next one */
	int is_contiguous; /* a buffer is count * size bytes from its address on */
	size_t n;
	struct pmpi_run *runs; /* in the order of the type map, which is that of packed bytes */
	int is_named; /* a predefined type's, which stays until MPI_Finalize: its users are not counted */
	_Atomic int users;
};

/* MPI's functions that take any count. */
#if MPI_VERSION >= 4
#define PMPI_ANY_COUNT(name) PMPI_##name##_c
typedef MPI_Count pmpi_count;
#else
#define PMPI_ANY_COUNT(name) PMPI_##name
typedef int pmpi_count;
#endif

/* What MPI is given for packed bytes: count elements of type. end: when MPI has it. */
struct pmpi_bytes {
	pmpi_count count;
	MPI_Datatype type;
};
struct pmpi_bytes pmpi_long_bytes(size_t bytes); /* more than an int holds */
static inline struct pmpi_bytes pmpi_bytes_begin(size_t bytes)
{
	return sizeof(pmpi_count) < sizeof bytes && bytes > INT_MAX
		   ? pmpi_long_bytes(bytes)
		   : (struct pmpi_bytes){ (pmpi_count)bytes, MPI_BYTE };
}
static inline void pmpi_bytes_end(struct pmpi_bytes *b)
{
	if (b->type != MPI_BYTE)
		PMPI_Type_free(&b->type);
}

/* For pmpi_layout_put; stays right if the program frees the type. NULL: no memory. The type is committed. */
struct pmpi_layout *pmpi_layout_get(MPI_Datatype type);
struct pmpi_layout *
pmpi_layout_share(struct pmpi_layout *layout); /* once more, for one more pmpi_layout_put */
void pmpi_layout_put(struct pmpi_layout *layout);

/* Whether it is a predefined type that had a layout before; without a lock. */
int pmpi_type_is_named(MPI_Datatype type);

/* At MPI_Finalize: layouts of predefined types. */
void pmpi_types_end(void);

/* width bytes at each of rows addresses of the buffer, pitch apart; packed they are packed_pitch apart. Both pitches are at least width where rows > 1. */
struct pmpi_rows {
	ptrdiff_t at;
	size_t pitch, packed_at, packed_pitch, width, rows;
};

/*
 * The first `bytes` packed bytes of count elements, as rows: calls take for each. Stops at the first result that is not 0, and returns it. Few calls with
 * many rows: for a vector, or many elements of a short type, it is one.
 */
int pmpi_layout_walk(const struct pmpi_layout *layout, size_t count, size_t bytes,
		     int (*take)(void *arg, const struct pmpi_rows *rows), void *arg);

/* ---- The runs of one element (types_decode.c, types_runs.c) */

/* *runs, for free: n of them in the order of the type map; is_named: a predefined type, which is never freed. 0 or an MPI error code. */
int pmpi_decode(MPI_Datatype type, struct pmpi_run **runs, size_t *n, int *is_named);

/* The same for any type, by packing numbered bytes: needs memory of the type's extent, so it is for constructors that pmpi_decode does not know. */
int pmpi_decode_by_packing(MPI_Datatype type, struct pmpi_run **runs, size_t *n);

/* Runs that are added piece by piece: what continues or repeats the last ones makes them longer. */
struct pmpi_runs {
	struct pmpi_run *runs;
	size_t n, room;
	ptrdiff_t at; /* the last piece, which is not among the runs yet */
	size_t bytes; /* 0: none */
	int failed; /* no memory */
};
void pmpi_runs_add(struct pmpi_runs *list, ptrdiff_t at, size_t bytes);
/* The same for count > 0 pieces, whose starts are stride bytes apart: in no more time than for few. */
void pmpi_runs_add_rows(struct pmpi_runs *list, ptrdiff_t at, size_t bytes, size_t count, ptrdiff_t stride);
/* Hands the runs over. An MPI error code. */
int pmpi_runs_end(struct pmpi_runs *list, struct pmpi_run **runs, size_t *n);

#endif
