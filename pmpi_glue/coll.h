/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective of MPI, as data: one record from the MPI function to what runs it. collectives.def has a row for each function, by which coll_api.c fills the record in (coll_fill.c); coll_run.c decides
 * and counts; coll_mpi.c calls PMPI_; coll_stage.c copies device buffers; coll_corale.c calls Corale.
 */
#ifndef PMPI_COLL_H
#define PMPI_COLL_H

#include <mpi.h>
#include <stddef.h>

#include "comm.h"
#include "functions.h"
#include "types.h"

/*
 * The buffer of one side. Block i begins i * count elements behind the start, or displs[i] elements (with types: bytes). It has count elements, or counts[i].
 */
struct coll_side {
	void *buffer; /* the program's; MPI_IN_PLACE */
	void *
	    at; /* the same, or a staged copy's: where elements of the program's types are at the program's offsets */
	MPI_Count count;
	const void *counts,
	    *displs; /* int, or in calls with big counts MPI_Count and MPI_Aint; NULL: see above */
	MPI_Datatype type;
	const MPI_Datatype *types; /* of each block; NULL: all are of type */
	int blocks; /* 0: this rank has none, and buffer is not looked at */
	int is_read, is_written;
	int ordinal; /* of the device; -1: host memory */
	char *staged; /* pinned; NULL: not staged */
	size_t staged_bytes;
};

struct coll_call {
	enum pmpi_function function;
	MPI_Comm comm;
	struct coll_side send, recv; /* MPI_Bcast has recv alone */
	MPI_Op op;
	corale_type corale_type; /* of a reduction that coll_is_eligible has found: as Corale has it */
	corale_op corale_op;
	int root;
	int is_big; /* counts are MPI_Count: an MPI_..._c function */
	const void *counts; /* of MPI_Reduce_scatter, as those of a side */
	MPI_Request *request; /* NULL: it blocks */
	int is_persistent;
	MPI_Info info;
};

static inline MPI_Count coll_count(const struct coll_call *call, const struct coll_side *side, int i)
{
	if (!side->counts)
		return side->count;
	return call->is_big ? ((const MPI_Count *)side->counts)[i] : ((const int *)side->counts)[i];
}

static inline MPI_Aint coll_displ(const struct coll_call *call, const struct coll_side *side, int i)
{
	const int is_long = call->is_big || call->function == PMPI_NEIGHBOR_ALLTOALLW;
	return is_long ? ((const MPI_Aint *)side->displs)[i] : ((const int *)side->displs)[i];
}

/* Elements of rank i's part of MPI_Reduce_scatter's result. */
static inline MPI_Count coll_result_count(const struct coll_call *call, int i)
{
	return coll_count(call, &(struct coll_side){ .counts = call->counts }, i);
}

static inline MPI_Datatype coll_type(const struct coll_side *side, int i)
{
	return side->types ? side->types[i] : side->type;
}

static inline size_t coll_type_bytes(MPI_Datatype type)
{
	MPI_Count bytes = 0;
	PMPI_Type_size_x(type, &bytes);
	return (size_t)bytes;
}

/* coll_wrong.c: whether MPI refuses the call by what this rank passes. */
int coll_is_wrong(const struct coll_call *call);

/* Runs a call, by whatever route. An MPI error code. */
int coll_run(struct coll_call *call);

/* coll_request.c: begins a call that has a request and a device buffer. An MPI error code. */
int coll_start(struct coll_call *call);

/* coll_mpi.c: calls PMPI_ with what the sides have at `at`. */
int coll_mpi(const struct coll_call *call);

/* ---- coll_stage.c: device buffers in host memory. 0 or a CORALE_E* code, logged. */

/* Calls visit with the number, offset in bytes and count of each block that has elements, until one returns another value than 0; returns that. */
typedef int coll_visitor(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout);
int coll_each_block(const struct coll_call *call, const struct coll_side *side, coll_visitor *visit,
		    void *arg);

/* Copies what is read to host memory, where `at` then points to. Sides in host memory stay as they are. */
int coll_stage_side(const struct coll_call *call, struct coll_side *side);
/* The same for a side that is staged: its copy is brought up to date. */
int coll_restage_side(const struct coll_call *call, struct coll_side *side);
/* Both sides of a call. */
int coll_stage(struct coll_call *call);
void coll_unstage(struct coll_call *call);
/* Copies what was written back to the device. */
int coll_deliver_side(const struct coll_call *call, struct coll_side *side);
void coll_unstage_side(struct coll_side *side);

/* ---- coll_corale.c */

/* Whether Corale can run the call, by what all ranks know; *bytes: the size by which its route is kept, alike on all ranks. */
int coll_is_eligible(struct coll_call *call, size_t *bytes);
/* Runs it; 0 or a CORALE_E* code, logged. */
int coll_corale(struct coll_call *call, struct pmpi_comm *comm);

#endif
