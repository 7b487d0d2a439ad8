/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks every element of every collective with every type and operator, in and out of place, at odd addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#include "test/helpers/any_call.h"
#include "thin.h"
#include "base/types.h"

enum {
	GUARD = 64,
	LEAD = 128,
	ELEMENT = 16,
	EDGE = 2
}; /* EDGE: an edge of all_to_all_v, or a block of another v-form, has less than EDGE counts */

int matrix_open(struct matrix *matrix, corale_comm *comm, size_t largest)
{
	size_t n;
	memset(matrix, 0, sizeof(*matrix));
	matrix->comm = comm;
	matrix->rank = corale_comm_rank(comm);
	matrix->size = corale_comm_size(comm);
	matrix->largest = largest;
	n = (size_t)matrix->size;
	matrix->send = malloc(EDGE * n * largest * ELEMENT + 2 * LEAD);
	matrix->recv = malloc(EDGE * n * largest * ELEMENT + 2 * LEAD);
	matrix->send_counts = calloc(4 * n, sizeof(size_t));
	if (!matrix->send || !matrix->recv || !matrix->send_counts) {
		matrix_close(matrix);
		return -1;
	}
	matrix->send_displs = matrix->send_counts + n;
	matrix->recv_counts = matrix->send_displs + n;
	matrix->recv_displs = matrix->recv_counts + n;
	return 0;
}

void matrix_close(struct matrix *matrix)
{
	free(matrix->send);
	free(matrix->recv);
	free(matrix->send_counts);
}

static int reduces(const struct matrix_case *c)
{
	return c->coll == CORALE_ALL_REDUCE || c->coll == CORALE_REDUCE_SCATTER || c->coll == CORALE_REDUCE ||
	       c->coll == CORALE_REDUCE_SCATTER_V;
}

static int sends_uneven(const struct matrix_case *c)
{
	return c->coll == CORALE_ALL_TO_ALL_V || c->coll == CORALE_REDUCE_SCATTER_V ||
	       c->coll == CORALE_SCATTER_V;
}

static int receives_uneven(const struct matrix_case *c)
{
	return c->coll == CORALE_ALL_TO_ALL_V || c->coll == CORALE_ALL_GATHER_V || c->coll == CORALE_GATHER_V;
}

/* Whether the rank has the buffer that only a root has; true of collectives that have no such buffer. */
static int has_receive(const struct matrix *m, const struct matrix_case *c)
{
	return m->rank == c->root ||
	       (c->coll != CORALE_REDUCE && c->coll != CORALE_GATHER && c->coll != CORALE_GATHER_V);
}

static int has_send(const struct matrix *m, const struct matrix_case *c)
{
	return m->rank == c->root || (c->coll != CORALE_SCATTER && c->coll != CORALE_SCATTER_V);
}

static int is_in_place(const struct matrix *m, const struct matrix_case *c)
{
	return c->in_place && has_send(m, c) && has_receive(m, c);
}

/* ---- Shapes of buffers, in elements ---- */

static size_t edge(const struct matrix_case *c, int from, int to)
{
	return (size_t)((from * (c->in_place ? 1 : 3) + to) % 4) * c->count /
	       2; /* in place as much as back */
}

/* What a rank sends to another one; of other v-forms than all_to_all_v the block of one of them. */
static size_t block(const struct matrix_case *c, int from, int to)
{
	return edge(c, sends_uneven(c) && !receives_uneven(c) ? 0 : from,
		    receives_uneven(c) && !sends_uneven(c) ? 0 : to);
}

/* From rank to all, or from all to rank: sets counts and displacements, with a gap of one element between edges. */
static size_t set_edges(const struct matrix *m, const struct matrix_case *c, int sending)
{
	size_t *counts = sending ? m->send_counts : m->recv_counts, end = 0;
	size_t *displs = sending ? m->send_displs : m->recv_displs;
	for (int r = 0; r < m->size; r++) {
		counts[r] = sending ? block(c, m->rank, r) : block(c, r, m->rank);
		displs[r] = end;
		end += counts[r] + (counts[r] < c->count);
	}
	return end;
}

static size_t send_elements(const struct matrix *m, const struct matrix_case *c)
{
	if (c->coll == CORALE_BARRIER || !has_send(m, c))
		return 0;
	if (sends_uneven(c))
		return set_edges(m, c, 1);
	if (receives_uneven(c))
		return block(c, m->rank, m->rank);
	int blocks =
	    c->coll == CORALE_ALL_TO_ALL || c->coll == CORALE_REDUCE_SCATTER || c->coll == CORALE_SCATTER;
	return blocks ? (size_t)m->size * c->count : c->count;
}

static size_t recv_elements(const struct matrix *m, const struct matrix_case *c)
{
	if (c->coll == CORALE_BARRIER || !has_receive(m, c))
		return 0;
	if (receives_uneven(c))
		return set_edges(m, c, 0);
	if (sends_uneven(c))
		return block(c, m->rank, m->rank);
	int blocks = c->coll == CORALE_ALL_TO_ALL || c->coll == CORALE_ALL_GATHER || c->coll == CORALE_GATHER;
	return blocks ? (size_t)m->size * c->count : c->count;
}

/* ---- One call ---- */

static int exchange(const struct matrix *m, const struct matrix_case *c, const void *send, void *recv)
{
	corale_group_begin();
	corale_recv(recv, c->count, c->type, (m->rank + m->size - 1) % m->size, m->comm, m->stream);
	corale_send(send, c->count, c->type, (m->rank + 1) % m->size, m->comm, m->stream);
	return corale_group_end();
}

/* Who is not the root of gather, scatter and their v-forms passes NULL, or arrays and a place where nothing may be read or written. */
static int call(const struct matrix *m, const struct matrix_case *c, corale_op op, const void *send,
		void *recv)
{
	const int is_v = c->coll == CORALE_GATHER_V || c->coll == CORALE_SCATTER_V;
	const int is_rooted =
	    is_v || c->coll == CORALE_REDUCE || c->coll == CORALE_GATHER || c->coll == CORALE_SCATTER;
	const int has_all = !is_rooted || c->seed % 2, has_arrays = !is_v || m->rank == c->root || has_all;
	if (c->coll == CORALE_SEND)
		return exchange(m, c, send, recv);
	if (c->coll == CORALE_BROADCAST && m->rank != c->root && !c->in_place)
		send = NULL; /* only the root has a send buffer */
	return any_call(&(struct any_call){ .coll = c->coll,
					    .count = is_v ? block(c, m->rank, m->rank) : c->count,
					    .type = c->type,
					    .op = op,
					    .root = c->root,
					    .send = has_send(m, c) || has_all ? send : NULL,
					    .recv = has_receive(m, c) || has_all ? recv : NULL,
					    .send_counts = has_arrays ? m->send_counts : NULL,
					    .send_displs = has_arrays ? m->send_displs : NULL,
					    .recv_counts = has_arrays ? m->recv_counts : NULL,
					    .recv_displs = has_arrays ? m->recv_displs : NULL,
					    .comm = m->comm,
					    .stream = m->stream });
}

static int call_with_op(const struct matrix *m, const struct matrix_case *c, const struct reference *ref,
			const void *send, void *recv)
{
	corale_op op = c->op;
	unsigned char scalar[8];
	int premul = reduces(c) && c->op == CORALE_NUM_OPS, ret = 0;
	if (premul) {
		reference_scalar(ref, m->rank, scalar);
		ret = corale_op_create_premul_sum(scalar, c->type, m->comm, &op);
	}
	if (!ret)
		ret = call(m, c, op, send, recv);
	if (!ret && m->stream)
		ret = corale_stream_synchronize(m->stream);
	if (premul)
		corale_op_destroy(op, m->comm);
	return ret;
}

/* ---- Data and what becomes of it ---- */

static void fill(const struct matrix *m, const struct matrix_case *c, const struct reference *ref, void *send)
{
	size_t bytes = corale_type_bytes(c->type);
	if ((c->coll == CORALE_BROADCAST && m->rank != c->root) || !has_send(m, c))
		return;
	if (!sends_uneven(c)) {
		reference_fill(ref, m->rank, 0, send_elements(m, c), send);
		return;
	}
	for (int r = 0; r < m->size; r++)
		reference_fill(ref, m->rank, (size_t)r * EDGE * c->count, m->send_counts[r],
			       (unsigned char *)send + m->send_displs[r] * bytes);
}

static size_t check(const struct matrix *m, const struct matrix_case *c, const struct reference *ref,
		    const void *recv, struct reference_fault *fault)
{
	size_t bytes = corale_type_bytes(c->type), mine = (size_t)m->rank * c->count, wrong = 0;
	const unsigned char *at = recv;
	if (!has_receive(m, c))
		return 0;
	switch (c->coll) {
	case CORALE_ALL_REDUCE:
	case CORALE_REDUCE:
		return reference_check_fold(ref, 0, c->count, recv, fault);
	case CORALE_REDUCE_SCATTER:
		return reference_check_fold(ref, mine, c->count, recv, fault);
	case CORALE_BROADCAST:
		return reference_check_copy(ref, c->root, 0, c->count, recv, fault);
	case CORALE_SEND:
		return reference_check_copy(ref, (m->rank + m->size - 1) % m->size, 0, c->count, recv, fault);
	case CORALE_SCATTER:
		return reference_check_copy(ref, c->root, mine, c->count, recv, fault);
	case CORALE_ALL_GATHER:
	case CORALE_GATHER:
		for (int r = 0; r < m->size; r++)
			wrong += reference_check_copy(ref, r, 0, c->count, at + (size_t)r * c->count * bytes,
						      fault);
		return wrong;
	case CORALE_ALL_TO_ALL:
		for (int r = 0; r < m->size; r++)
			wrong += reference_check_copy(ref, r, mine, c->count,
						      at + (size_t)r * c->count * bytes, fault);
		return wrong;
	case CORALE_REDUCE_SCATTER_V:
		return reference_check_fold(ref, EDGE * mine, block(c, m->rank, m->rank), recv, fault);
	case CORALE_SCATTER_V:
		return reference_check_copy(ref, c->root, EDGE * mine, block(c, m->rank, m->rank), recv,
					    fault);
	case CORALE_ALL_TO_ALL_V:
	case CORALE_ALL_GATHER_V:
	case CORALE_GATHER_V:
		for (int r = 0; r < m->size; r++)
			wrong +=
			    reference_check_copy(ref, r, sends_uneven(c) ? EDGE * mine : 0, m->recv_counts[r],
						 at + m->recv_displs[r] * bytes, fault);
		return wrong;
	default:
		return 0;
	}
}

static void name_case(const struct matrix *m, const struct matrix_case *c, char *text, size_t bytes)
{
	static const char *const data[] = { "exact", "random", "special" };
	snprintf(text, bytes, "n=%d nodes=%d %s %s %s count=%zu root=%d %s shift=%zu %s data: ", m->size,
		 corale_comm_nodes(m->comm), corale_coll_name(c->coll), corale_type_name(c->type),
		 reduces(c) ? corale_op_name(c->op) : "", c->count, c->root,
		 c->in_place == MATRIX_AT_FRONT ? "at the front"
		 : c->in_place                  ? "in place"
						: "apart",
		 c->shift, data[c->data]);
}

static int complain(const struct matrix *m, const struct matrix_case *c, char *text, size_t bytes,
		    const char *what)
{
	name_case(m, c, text, bytes);
	size_t length = strlen(text);
	snprintf(text + length, bytes - length, "%s", what);
	return 1;
}

static int guards_hold(const unsigned char *buf, size_t bytes)
{
	for (int i = 0; i < GUARD; i++)
		if (buf[-1 - i] != 0x5a || buf[bytes + (size_t)i] != 0x5a)
			return 0;
	return 1;
}

static unsigned char *poison(unsigned char *buf, size_t shift, size_t bytes)
{
	unsigned char *start = buf + LEAD - ((uintptr_t)buf & 63) + shift;
	memset(start - GUARD, 0x5a, bytes + 2 * GUARD);
	memset(start, 0xa5, bytes);
	return start;
}

/* In place the smaller buffer is a part of the larger. */
static void place(const struct matrix *m, const struct matrix_case *c, unsigned char **send,
		  unsigned char **recv)
{
	const size_t element = corale_type_bytes(c->type), offset = (size_t)m->rank * c->count * element;
	if (c->in_place == MATRIX_AT_FRONT || (sends_uneven(c) && receives_uneven(c)))
		*recv = *send;
	else if (sends_uneven(c))
		*recv = *send + m->send_displs[m->rank] * element;
	else if (receives_uneven(c))
		*send = *recv + m->recv_displs[m->rank] * element;
	else if (c->coll == CORALE_REDUCE_SCATTER || c->coll == CORALE_SCATTER)
		*recv = *send + offset;
	else
		*send = *recv + (c->coll == CORALE_ALL_GATHER || c->coll == CORALE_GATHER ? offset : 0);
}

int matrix_run(struct matrix *m, const struct matrix_case *c, uint64_t *digest, char *text, size_t text_bytes)
{
	struct reference ref = { c->type, reduces(c) ? c->op : REFERENCE_COPY, m->size, c->data, c->seed };
	struct reference_fault fault = { 0 };
	size_t element = corale_type_bytes(c->type);
	size_t send_bytes = send_elements(m, c) * element, recv_bytes = recv_elements(m, c) * element;
	unsigned char *send = poison(m->send, c->shift, send_bytes),
		      *recv = poison(m->recv, c->shift, recv_bytes);
	unsigned char *send_start = send, *recv_start = recv;
	char what[160];
	*digest = 0;
	if (is_in_place(m, c))
		place(m, c, &send, &recv);
	fill(m, c, &ref, send);
	/* what may not change: all that is sent, or what lies behind a result at its front */
	const size_t result_bytes = c->in_place == MATRIX_AT_FRONT ? recv_bytes : 0;
	const size_t rest = result_bytes < send_bytes ? send_bytes - result_bytes : 0;
	uint64_t before = reference_digest(send_start + result_bytes, rest);
	int ret = call_with_op(m, c, &ref, send, recv);
	if (ret)
		return complain(m, c, text, text_bytes, corale_strerror(ret));
	size_t wrong = check(m, c, &ref, recv, &fault);
	if (wrong) {
		snprintf(what, sizeof(what), "%zu wrong, one at %zu: %s, expected %s", wrong, fault.index,
			 fault.got, fault.expected);
		return complain(m, c, text, text_bytes, what);
	}
	if (!guards_hold(send_start, send_bytes) || !guards_hold(recv_start, recv_bytes))
		return complain(m, c, text, text_bytes, "wrote outside of its buffers");
	if ((!is_in_place(m, c) || result_bytes) &&
	    reference_digest(send_start + result_bytes, rest) != before)
		return complain(m, c, text, text_bytes, "changed its send buffer");
	if (c->coll == CORALE_ALL_REDUCE || c->coll == CORALE_ALL_GATHER || c->coll == CORALE_BROADCAST ||
	    c->coll == CORALE_ALL_GATHER_V)
		*digest = reference_digest(recv, recv_bytes);
	return 0;
}

/* ---- The list ---- */

static int take(long *i, int n)
{
	int digit = (int)(*i % n);
	*i /= n;
	return digit;
}

static int has_meaning(const struct matrix_case *c)
{
	if (c->coll == CORALE_BARRIER)
		return c->count == 0 && c->type == 0 && c->op == 0 && c->shift == 0 && !c->in_place;
	if (c->in_place == MATRIX_AT_FRONT && c->coll != CORALE_REDUCE_SCATTER &&
	    c->coll != CORALE_REDUCE_SCATTER_V)
		return 0;
	if (c->in_place && c->coll == CORALE_SEND)
		return 0;
	return reduces(c) ? type_has_op(c->type, c->op) : c->op == 0;
}

int matrix_case_at(long i, int ranks, const size_t *counts, int ncounts, struct matrix_case *out)
{
	static const corale_coll colls[] = {
		CORALE_ALL_REDUCE,       CORALE_ALL_GATHER,   CORALE_REDUCE_SCATTER, CORALE_BROADCAST,
		CORALE_ALL_TO_ALL,       CORALE_ALL_TO_ALL_V, CORALE_SEND,           CORALE_BARRIER,
		CORALE_REDUCE,           CORALE_GATHER,       CORALE_SCATTER,        CORALE_ALL_GATHER_V,
		CORALE_REDUCE_SCATTER_V, CORALE_GATHER_V,     CORALE_SCATTER_V
	};
	static const size_t shifts[] = { 0, 1 };
	static const int ops = CORALE_NUM_OPS + 1;
	struct matrix_case c = { .seed = (uint64_t)i + 1 };
	long number = i;
	c.count = counts[take(&i, ncounts)];
	c.in_place = take(&i, MATRIX_AT_FRONT + 1);
	c.shift = shifts[take(&i, 2)];
	c.op = take(&i, ops);
	c.type = (corale_type)take(&i, CORALE_NUM_TYPES);
	if (i >= (long)(sizeof(colls) / sizeof(colls[0])))
		return 0;
	c.coll = colls[i];
	if (!has_meaning(&c))
		return 2;
	c.root = (int)((number / 7) % ranks);
	c.data = (enum reference_data)((number / ncounts + number) % 3);
	*out = c;
	return 1;
}

int matrix_stride(int stride)
{
	return stride * thin_step();
}

long matrix_first(int stride, int ranks)
{
	const int step = matrix_stride(stride);
	return (ranks + thin_first(step)) % step;
}
