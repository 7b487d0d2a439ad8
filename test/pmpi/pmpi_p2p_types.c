/* SPDX-License-Identifier: BSD-3-Clause */
/* Scenes of derived types, and random sequences of messages. */
#include <stdlib.h>

#include "pmpi_p2p.h"

enum { TAG = 3 };

static void exchange(struct run *r, MPI_Datatype in, int in_count, MPI_Datatype out, int out_count)
{
	MPI_Status status;
	r->mpi->Sendrecv(r->b[0], in_count, in, right(), TAG, r->b[1], out_count, out, left(), TAG, r->comm,
			 &status);
	note_status(r, &status, out);
	note_status(r, &status, MPI_BYTE);
}

/* A type against itself, against the same bytes in a row, in place of what was there; parts: against half an element less. */
static void exchange_all(struct run *r, MPI_Datatype type, int count, int parts)
{
	int bytes;
	MPI_Type_commit(&type);
	MPI_Type_size(type, &bytes);
	exchange(r, type, count, type, count);
	exchange(r, type, count, MPI_BYTE, bytes * count + 10);
	exchange(r, MPI_BYTE, bytes * count, type, count + 1);
	if (parts)
		exchange(r, MPI_BYTE, bytes * count - bytes / 2, type, count);
	r->mpi->Sendrecv_replace(r->b[2], count, type, right(), TAG, left(), TAG, r->comm, MPI_STATUS_IGNORE);
	MPI_Type_free(&type);
}

static void vectors(struct run *r)
{
	MPI_Datatype type, column;
	MPI_Type_contiguous(3, MPI_FLOAT, &type);
	exchange_all(r, type, 1000, 1);
	MPI_Type_vector(50, 2, 7, MPI_DOUBLE, &type);
	exchange_all(r, type, 5, 1);
	MPI_Type_vector(100, 1, 100, MPI_DOUBLE, &column);
	MPI_Type_create_resized(column, 0, sizeof(double), &type);
	MPI_Type_free(&column);
	exchange_all(r, type, 100, 1);
	MPI_Type_create_hvector(20, 3, 101, MPI_SHORT, &type);
	exchange_all(r, type, 9, 1);
}

static void indexed(struct run *r)
{
	int lengths[200], at[200];
	MPI_Datatype type;
	for (int i = 0; i < 200; i++) {
		lengths[i] = i % 4;
		at[i] = 5 * ((i * 37) % 200);
	}
	MPI_Type_indexed(200, lengths, at, MPI_INT, &type);
	exchange_all(r, type, 3, 1);
	MPI_Type_create_indexed_block(200, 2, at, MPI_INT, &type);
	exchange_all(r, type, 2, 1);
}

/* MPICH 4.0.2 says of a part of a struct, and of many structs, that the message is too long. */
static void structs(struct run *r)
{
	const int lengths[] = { 1, 3, 2 }, sizes[] = { 10, 12, 14 }, counts[] = { 4, 5, 6 },
		  starts[] = { 3, 2, 1 };
	const MPI_Aint at[] = { 4, 16, 64 };
	const MPI_Datatype types[] = { MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT };
	MPI_Datatype type;
	MPI_Type_create_struct(3, lengths, at, types, &type);
	exchange_all(r, type, 50, 0);
	MPI_Type_create_subarray(3, sizes, counts, starts, MPI_ORDER_FORTRAN, MPI_FLOAT, &type);
	exchange_all(r, type, 2, 1);
	MPI_Type_dup(MPI_SHORT_INT, &type);
	exchange_all(r, type, 500, 0);
}

/* Absolute addresses, of two buffers that may be of two kinds of memory. */
static void bottom(struct run *r)
{
	const int lengths[] = { 100, 200 };
	MPI_Aint in_at[2], out_at[2];
	MPI_Datatype in, out;
	MPI_Get_address(r->b[0] + 50, &in_at[0]);
	MPI_Get_address(r->b[3] + 70, &in_at[1]);
	MPI_Get_address(r->b[1] + 11, &out_at[0]);
	MPI_Get_address(r->b[2] + 22, &out_at[1]);
	MPI_Type_create_hindexed(2, lengths, in_at, MPI_BYTE, &in);
	MPI_Type_create_hindexed(2, lengths, out_at, MPI_BYTE, &out);
	MPI_Type_commit(&in);
	MPI_Type_commit(&out);
	r->mpi->Sendrecv(MPI_BOTTOM, 1, in, right(), TAG, MPI_BOTTOM, 1, out, left(), TAG, r->comm,
			 MPI_STATUS_IGNORE);
	MPI_Type_free(&in);
	MPI_Type_free(&out);
}

/* Halos of a block of a matrix, as programs exchange them: rows are contiguous, columns are not. */
static void halos(struct run *r)
{
	enum { N = 64, WIDTH = N + 2 };
	const int zero[2] = { 0, 0 };
	int dims[2] = { 0, 0 }, up, down, west, east;
	MPI_Comm grid;
	MPI_Datatype column;
	MPI_Request requests[8];
	MPI_Dims_create(size, 2, dims);
	MPI_Cart_create(r->comm, 2, dims, zero, 0, &grid);
	MPI_Cart_shift(grid, 0, 1, &up, &down);
	MPI_Cart_shift(grid, 1, 1, &west, &east);
	MPI_Type_vector(N, 1, WIDTH, MPI_DOUBLE, &column);
	MPI_Type_commit(&column);
	char *const a = r->b[0];
#define CELL(i, k) (a + ((size_t)(i)*WIDTH + (size_t)(k)) * sizeof(double))
	r->mpi->Irecv(CELL(0, 1), N, MPI_DOUBLE, up, 0, grid, &requests[0]);
	r->mpi->Irecv(CELL(N + 1, 1), N, MPI_DOUBLE, down, 1, grid, &requests[1]);
	r->mpi->Irecv(CELL(1, 0), 1, column, west, 2, grid, &requests[2]);
	r->mpi->Irecv(CELL(1, N + 1), 1, column, east, 3, grid, &requests[3]);
	r->mpi->Isend(CELL(N, 1), N, MPI_DOUBLE, down, 0, grid, &requests[4]);
	r->mpi->Isend(CELL(1, 1), N, MPI_DOUBLE, up, 1, grid, &requests[5]);
	r->mpi->Isend(CELL(1, N), 1, column, east, 2, grid, &requests[6]);
	r->mpi->Isend(CELL(1, 1), 1, column, west, 3, grid, &requests[7]);
#undef CELL
	r->mpi->Waitall(8, requests, no_statuses);
	MPI_Type_free(&column);
	MPI_Comm_free(&grid);
}

const struct scene type_scenes[] = { { "vectors", vectors },
				     { "indexed types", indexed },
				     { "structs, subarrays and pairs", structs },
				     { "MPI_BOTTOM", bottom },
				     { "halos of a Cartesian grid", halos },
				     { NULL, NULL } };

/* ---- Random sequences ---------------------------------------------------------------------------------- */

enum { MESSAGES = 60, ROOM = 8192, MOST_BYTES = 4000 };

static MPI_Datatype random_type(int *count)
{
	MPI_Datatype type;
	switch (below(4)) {
	case 0:
		*count = below(500);
		MPI_Type_vector(1 + below(4), 1, 2, MPI_INT, &type);
		*count %= 64;
		break;
	case 1:
		*count = below(60);
		MPI_Type_dup(MPI_SHORT_INT, &type);
		break;
	default:
		*count = below(MOST_BYTES / 8);
		MPI_Type_contiguous(1 + below(2), MPI_INT, &type);
	}
	MPI_Type_commit(&type);
	return type;
}

/* Message i: each rank knows all of it, and what is not its part it skips. Sent bytes come from the front half of a buffer, received ones go to the other. */
static void random_message(struct run *r, int i, MPI_Request *requests, int *n)
{
	const int from = below(size), to = below(size), mode = below(4), buffer = below(BUFFERS),
		  as_bytes = below(2), is_wild = below(3) == 0;
	__typeof__(&PMPI_Isend) modes[] = { r->mpi->Isend, r->mpi->Issend, r->mpi->Ibsend, r->mpi->Isend };
	char *const in = r->b[buffer] + (size_t)i * ROOM, *const out = in + BUFFER_BYTES / 2;
	int count, bytes;
	MPI_Datatype type = random_type(&count);
	MPI_Type_size(type, &bytes);
	if (rank == to)
		r->mpi->Irecv(out, as_bytes ? MOST_BYTES : count, as_bytes ? MPI_BYTE : type,
			      is_wild ? MPI_ANY_SOURCE : from, i, r->comm, &requests[(*n)++]);
	if (rank == from && as_bytes && mode == 3)
		modes[mode](in, count * bytes, MPI_BYTE, to, i, r->comm, &requests[(*n)++]);
	else if (rank == from)
		modes[mode](in, count, type, to, i, r->comm, &requests[(*n)++]);
	MPI_Type_free(&type);
}

static void complete_some(struct run *r, MPI_Request *requests, int n)
{
	int index, flag, indices[2 * MESSAGES], how = below(5);
	if (!n)
		return;
	if (how == 0)
		r->mpi->Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE);
	else if (how == 1)
		r->mpi->Testsome(n, requests, &index, indices, no_statuses);
	else if (how == 2)
		r->mpi->Test(&requests[n - 1], &flag, MPI_STATUS_IGNORE);
	else if (how == 3)
		r->mpi->Testall(n, requests, &flag, no_statuses);
}

static void random_sequence(struct run *r)
{
	MPI_Request requests[2 * MESSAGES];
	int n = 0;
	for (int i = 0; i < MESSAGES; i++) {
		random_message(r, i, requests, &n);
		complete_some(r, requests, n);
	}
	r->mpi->Waitall(n, requests, no_statuses);
	PMPI_Barrier(r->comm);
}

const struct scene random_scenes[] = { { "random sequences", random_sequence }, { NULL, NULL } };
