/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective with every type and operator, in and out of place, on odd and misaligned buffers, checked. */
#ifndef MATRIX_H
#define MATRIX_H

#include "corale.h"
#include "reference.h"

/* A rank's place to run cases in. */
struct matrix {
	corale_comm *comm;
	corale_stream *stream; /* or NULL */
	int rank, size;
	size_t largest; /* no case has a larger count */
	unsigned char *send, *recv;
	size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

enum { MATRIX_AT_FRONT = 2 };

struct matrix_case {
	corale_coll coll; /* CORALE_SEND: a grouped exchange around a ring of ranks */
	corale_type type;
	corale_op op; /* CORALE_NUM_OPS: premultiplied sum; ignored where the collective has none */
	size_t count;
	int root, in_place; /* MATRIX_AT_FRONT: a reduce_scatter's result at the front of what it sends */
	size_t shift; /* bytes by which the buffers miss the alignment */
	enum reference_data data;
	uint64_t seed;
};

int matrix_open(struct matrix *matrix, corale_comm *comm, size_t largest);
void matrix_close(struct matrix *matrix);

/*
 * Runs one case; every rank calls it with the same one. Returns 0, or 1 with what went wrong in text. digest gets a
 * digest of the result if all ranks' results must have the same bytes, else 0.
 */
int matrix_run(struct matrix *matrix, const struct matrix_case *c, uint64_t *digest, char *text,
	       size_t bytes);

/* Combination number i of the full list over the given counts: 1, 2 if it has no meaning, 0 behind the end. */
int matrix_case_at(long i, int ranks, const size_t *counts, int ncounts, struct matrix_case *out);

/* The step through such a list, of which stride takes its share and TEST_THIN a share of that (test/helpers/thin.h), and its first case. Different
 * numbers of ranks begin with different ones, so that together they see more of the list. */
int matrix_stride(int stride);
long matrix_first(int stride, int ranks);

#endif
