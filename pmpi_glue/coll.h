/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective of MPI, as data: one record from the MPI function to what runs it. collectives.def has a row for each function, by which coll_api.c and coll_fill.c fill the record in;
 * coll_run.c decides and counts; coll_stage.c copies device buffers; coll_corale.c calls Corale.
 */
#ifndef PMPI_COLL_H
#define PMPI_COLL_H

#include <mpi.h>
#include <stddef.h>

#include "comm.h"
#include "staging.h"

/*
 * The buffer of one side. Block i begins i * count elements behind the start, or displs[i] elements (with types: bytes). It has count elements, or counts[i].
 */
struct coll_side {
	void *buffer; /* the program's; MPI_IN_PLACE */
	const void *
	    at; /* the same, or a staged copy's: where elements of the program's types are at the program's offsets */
	MPI_Count count;
	const void *counts,
	    *displs; /* int, or in calls with big counts MPI_Count and MPI_Aint; NULL: see above */
	const void *results; /* of MPI_Reduce_scatter: each rank's count, as counts */
	MPI_Datatype type;
	const MPI_Datatype *types; /* of each block; NULL: all are of type */
	int blocks; /* 0: this rank has none, and buffer is not looked at */
	int is_read, is_written;
	int ordinal; /* of the device; -1: host memory */
	struct coll_block {
		MPI_Aint at; /* bytes behind the buffer's start */
		size_t count; /* 0: the block is empty, and has no layout */
		struct pmpi_layout *layout;
	} * list, only; /* list: of coll_find_blocks, or NULL: each block; only: where there is one */
	struct pmpi_host staged; /* its copy; memory NULL: not staged */
};

struct coll_call {
	enum pmpi_function function;
	int (*mpi)(const struct coll_call *call); /* calls PMPI_ with what the sides have at `at` */
	MPI_Comm comm;
	struct coll_side send, recv; /* MPI_Bcast has recv alone */
	MPI_Op op;
	corale_type corale_type; /* of a reduction that coll_is_eligible has found: as Corale has it */
	corale_op corale_op;
	int root;
	int is_big; /* counts are MPI_Count: an MPI_..._c function */
	MPI_Request *request; /* NULL: it blocks */
	int is_persistent;
	MPI_Info info;
};

/*
 * How a function is told of a side: FORM_X(F, const or nothing, side) has F(type, name, member of struct coll_call) for each argument. COUNT and DISPL are int, or the
 * types of big counts; WDISPL is the type of MPI_Neighbor_alltoallw's displacements.
 */
#define FORM_NONE(F, qualifier, side)
#define FORM_BUFFER(F, qualifier, side) F(qualifier void *, side, side.at)
#define FORM_BUFFERS FORM_BUFFER /* a block for each rank, of the other side's count */
#define FORM_ONE(F, qualifier, side)                                                                         \
	FORM_BUFFER(F, qualifier, side)                                                                      \
	F(COUNT, side##count, side.count) F(MPI_Datatype, side##type, side.type)
#define FORM_EACH FORM_ONE /* the same, for each rank */
#define FORM_COUNTS(F, qualifier, side, displ)                                                               \
	FORM_BUFFER(F, qualifier, side)                                                                      \
	F(const COUNT *, side##counts, side.counts) F(const displ *, side##displs, side.displs)
#define FORM_ARRAYS(F, qualifier, side)                                                                      \
	FORM_COUNTS(F, qualifier, side, DISPL) F(MPI_Datatype, side##type, side.type)
#define FORM_TYPES(F, qualifier, side)                                                                       \
	FORM_COUNTS(F, qualifier, side, DISPL) F(const MPI_Datatype *, side##types, side.types)
#define FORM_TYPES_AT(F, qualifier, side)                                                                    \
	FORM_COUNTS(F, qualifier, side, WDISPL) F(const MPI_Datatype *, side##types, side.types)
#define FORM_RESULTS(F, qualifier, side)                                                                     \
	FORM_BUFFER(F, qualifier, side)                                                                      \
	F(const COUNT *, side##counts, side.results) F(MPI_Datatype, side##type, side.type)
#define FORM_OP(F) F(MPI_Op, op, op)
#define FORM_NO_OP(F)
#define FORM_ROOT(F) F(int, root, root)
#define FORM_NO_ROOT(F)
#define WDISPL MPI_Aint
/* All arguments of a row of collectives.def but the communicator. */
#define COLL_ARGUMENTS(F, SEND, RECV, OP, ROOT)                                                              \
	FORM_##SEND(F, const, send) FORM_##RECV(F, , recv) FORM_##OP(F) FORM_##ROOT(F)

enum coll_form {
	SIDE_NONE,
	SIDE_BUFFER,
	SIDE_BUFFERS,
	SIDE_ONE,
	SIDE_EACH,
	SIDE_ARRAYS,
	SIDE_TYPES,
	SIDE_TYPES_AT,
	SIDE_RESULTS
};
enum coll_where { COLL_NOWHERE = 0, COLL_AT_ROOT = 1, COLL_AT_LEAVES = 2, COLL_EVERYWHERE = 3 };
/* What one MPI refuses and the other one runs is handed over only where the program's own refuses it: the other ranks' right calls may be routed. */
enum coll_mpi { COLL_NO_MPI = 0, COLL_OPEN_MPI = 1, COLL_MPICH = 2, COLL_ANY_MPI = 3 };

/* A function: its row of collectives.def. */
struct coll_kind {
	struct coll_side_kind {
		enum coll_form form;
		enum coll_where at, in_place; /* ranks that have the side; that may pass MPI_IN_PLACE */
		enum coll_mpi commits; /* who refuses types that are not committed */
	} send, recv;
	enum coll_mpi one_memory; /* who refuses the same memory for both sides */
	int has_op, is_rooted;
	int is_run; /* by Corale, as coll; 0: it can't */
	corale_coll coll;
	int is_of_neighbors; /* its blocks are those of a topology */
	int reads_recv; /* parts of the result are not written, as at the edge of a grid, or added to */
};
extern const struct coll_kind coll_kinds[PMPI_COLLECTIVES];

static inline const struct coll_kind *coll_kind(const struct coll_call *call)
{
	return &coll_kinds[call->function];
}

/* The entry i of an array of counts. */
static inline MPI_Count coll_count_at(const struct coll_call *call, const void *counts, int i)
{
	return call->is_big ? ((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
}

static inline MPI_Count coll_count(const struct coll_call *call, const struct coll_side *side, int i)
{
	return side->counts ? coll_count_at(call, side->counts, i) : side->count;
}

static inline MPI_Aint coll_displ(const struct coll_call *call, const struct coll_side *side, int i)
{
	const int are_addresses = call->is_big || coll_kind(call)->send.form == SIDE_TYPES_AT;
	return are_addresses ? ((const MPI_Aint *)side->displs)[i] : ((const int *)side->displs)[i];
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

/* coll_fill.c: from a call's arguments which buffers this rank has, how many blocks, which of them are read and written. */
void coll_fill(struct coll_call *call);

/* coll_wrong.c: whether MPI refuses the call by what this rank passes. */
int coll_is_wrong(const struct coll_call *call);

/* Runs a call, by whatever route. An MPI error code. */
int coll_run(struct coll_call *call);

/* coll_request.c: runs or begins a call with a device buffer by MPI, on host memory. An MPI error code. */
int coll_staged(const struct coll_call *call);

/* ---- coll_stage.c: device buffers in host memory. 0 or a CORALE_E* code, logged. */

/* Fills list in, from here on of this record alone: what becomes of the program's arrays and types does not matter any more. Nothing if it is there. */
int coll_find_blocks(const struct coll_call *call, struct coll_side *side);
/* Copies the blocks between the buffer and host memory (of device buffers pinned): packed, or at `host` as they are at the buffer. */
int coll_copy_side(const struct coll_side *side, enum pmpi_direction direction, void *host, int is_packed);
/* Copies what is read to host memory, where `at` then points to; of what is there already the copy is brought up to date. Sides in host memory stay as they are. */
int coll_stage(struct coll_call *call);
/* Copies what was written back to the device. */
int coll_deliver(const struct coll_call *call);
/* Gives back what coll_stage and coll_find_blocks have taken. */
void coll_end(struct coll_call *call);

/* ---- reduction.c */

/* 1: Corale has a reduction of this type by this operator. Ranks pass the same ones, so the answer is alike on all. */
int pmpi_reduction_find(MPI_Datatype type, MPI_Op op, corale_type *corale_type_out, corale_op *corale_op_out);

/* ---- coll_corale.c */

/* Whether Corale can run the call, by what all ranks know; *bytes: the size by which its route is kept, alike on all ranks. */
int coll_is_eligible(struct coll_call *call, size_t *bytes);
/* Runs it; 0 or a CORALE_E* code, logged. */
int coll_corale(struct coll_call *call, struct pmpi_comm *comm);

#endif
