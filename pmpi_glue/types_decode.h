/* SPDX-License-Identifier: BSD-3-Clause */
/* The runs of one element of a datatype. */
#ifndef PMPI_TYPES_DECODE_H
#define PMPI_TYPES_DECODE_H

#include "types.h"

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
