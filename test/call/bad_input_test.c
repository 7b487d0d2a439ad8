/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What callers do wrong is said, named and survived: bad arguments leave the communicator working, calls that differ
 * between ranks end it on all ranks within a second. Runs itself again for each case and node size.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/types.h"
#include "test/helpers/team.h"

enum { RANKS = 4, ODD = 2, COUNT = 40 };

/* A refused call starts nothing: the communicator works as before. */
static void expect_working(struct team_member *m)
{
	int32_t mine = 1, sum = 0;
	team_barrier(m);
	team_expect(m, corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, m->comm, NULL), 0,
		    "a good call after");
	if (sum != m->size)
		team_fault(m, "a good call after a bad one gave %d", (int)sum);
}

static void expect_words(struct team_member *m, const char *text, const char *a, const char *b)
{
	if (!strstr(text, a) || !strstr(text, b))
		team_fault(m, "\"%s\" should hold \"%s\" and \"%s\"", text, a, b);
}

/* counts: of rank 0 one element, of others none. */
static void null_v(struct team_member *m, const size_t *counts)
{
	float buf[2] = { 0 }, out[2];
	corale_comm *c = m->comm;
	team_expect(m, corale_all_gather_v(buf, out, counts, NULL, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "all_gather_v, NULL displacements");
	team_expect(m, corale_all_gather_v(buf, NULL, counts, counts, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "all_gather_v, NULL recv");
	team_expect(m,
		    corale_reduce_scatter_v(NULL, counts, counts, out, CORALE_FLOAT32, CORALE_SUM, c, NULL),
		    CORALE_EINVAL, "reduce_scatter_v, NULL send");
	team_expect(m,
		    corale_gather_v(NULL, 1, out, NULL, NULL, CORALE_FLOAT32, (m->rank + 1) % RANKS, c, NULL),
		    CORALE_EINVAL, "gather_v, NULL send");
	team_expect(m, corale_gather_v(buf, 1, out, NULL, counts, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "gather_v, NULL counts at the root");
	team_expect(m, corale_scatter_v(buf, counts, NULL, out, 1, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "scatter_v, NULL displacements at the root");
	team_expect(
	    m, corale_scatter_v(NULL, NULL, NULL, NULL, 1, CORALE_FLOAT32, (m->rank + 1) % RANKS, c, NULL),
	    CORALE_EINVAL, "scatter_v, NULL recv");
	team_expect(m, corale_gather_v(buf, 1, out, counts, counts, CORALE_FLOAT32, RANKS, c, NULL),
		    CORALE_EINVAL, "gather_v to root n");
	team_expect(m, corale_gather_v(buf, 2, out, counts, counts, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "gather_v, 2 to oneself, less from oneself");
	expect_words(m, corale_comm_last_error(c), "itself 2", "expects");
}

TEAM_TEST(null_pointers, "NULL pointers")
{
	float buf[RANKS * COUNT] = { 0 }, out[RANKS * COUNT];
	size_t counts[RANKS] = { 0 };
	corale_comm *c = m->comm;
	team_expect(m, corale_all_reduce(NULL, out, 1, CORALE_FLOAT32, CORALE_SUM, c, NULL), CORALE_EINVAL,
		    "NULL send");
	team_expect(m, corale_all_reduce(buf, NULL, 1, CORALE_FLOAT32, CORALE_SUM, c, NULL), CORALE_EINVAL,
		    "NULL recv");
	team_expect(m, corale_all_reduce(buf, out, 1, CORALE_FLOAT32, CORALE_SUM, NULL, NULL), CORALE_EINVAL,
		    "NULL comm");
	team_expect(m, corale_all_gather(NULL, out, 1, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "all_gather, NULL send");
	team_expect(m, corale_reduce_scatter(buf, NULL, 1, CORALE_FLOAT32, CORALE_SUM, c, NULL),
		    CORALE_EINVAL, "reduce_scatter, NULL recv");
	team_expect(m, corale_broadcast(buf, NULL, 1, CORALE_FLOAT32, 0, c, NULL), CORALE_EINVAL,
		    "broadcast, NULL recv");
	team_expect(m, corale_all_to_all(NULL, out, 1, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "all_to_all, NULL send");
	team_expect(m, corale_reduce(NULL, out, 1, CORALE_FLOAT32, CORALE_SUM, 0, c, NULL), CORALE_EINVAL,
		    "reduce, NULL send");
	team_expect(m, corale_reduce(buf, NULL, 1, CORALE_FLOAT32, CORALE_SUM, m->rank, c, NULL),
		    CORALE_EINVAL, "reduce, NULL recv of the root");
	team_expect(m, corale_gather(NULL, out, 1, CORALE_FLOAT32, 0, c, NULL), CORALE_EINVAL,
		    "gather, NULL send");
	team_expect(m, corale_gather(buf, NULL, 1, CORALE_FLOAT32, m->rank, c, NULL), CORALE_EINVAL,
		    "gather, NULL recv of the root");
	team_expect(m, corale_scatter(NULL, out, 1, CORALE_FLOAT32, m->rank, c, NULL), CORALE_EINVAL,
		    "scatter, NULL send of the root");
	team_expect(m, corale_scatter(buf, NULL, 1, CORALE_FLOAT32, 0, c, NULL), CORALE_EINVAL,
		    "scatter, NULL recv");
	team_expect(m, corale_all_to_all_v(buf, NULL, counts, out, counts, counts, CORALE_FLOAT32, c, NULL),
		    CORALE_EINVAL, "all_to_all_v, NULL counts");
	counts[0] = 1;
	team_expect(m,
		    corale_all_to_all_v(NULL, counts, counts, out, counts, counts, CORALE_FLOAT32, c, NULL),
		    CORALE_EINVAL, "all_to_all_v, NULL send");
	null_v(m, counts);
	team_expect(m, corale_send(NULL, 1, CORALE_FLOAT32, 0, c, NULL), CORALE_EINVAL, "send of NULL");
	team_expect(m, corale_recv(NULL, 1, CORALE_FLOAT32, 0, c, NULL), CORALE_EINVAL, "recv into NULL");
	team_expect(m, corale_barrier(NULL, NULL), CORALE_EINVAL, "barrier of NULL");
	team_expect(m, corale_comm_abort(NULL), CORALE_EINVAL, "abort of NULL");
	team_expect(m, corale_comm_rank(NULL), CORALE_EINVAL, "rank of NULL");
	team_expect(m, corale_op_create_premul_sum(NULL, CORALE_FLOAT32, c, &(corale_op){ 0 }), CORALE_EINVAL,
		    "NULL scalar");
	team_expect(m, corale_op_create_premul_sum(buf, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "no place for an operator");
	team_expect(m, corale_stream_create(NULL), CORALE_EINVAL, "no place for a stream");
	team_expect(m, corale_stream_synchronize(NULL), CORALE_EINVAL, "synchronize NULL");
	team_expect(m, corale_comm_split(c, 0, 0, NULL), CORALE_EINVAL, "no place for a communicator");
	team_expect(m, corale_plan_create(CORALE_ALL_REDUCE, 1, CORALE_FLOAT32, CORALE_SUM, 0, c, NULL),
		    CORALE_EINVAL, "no place for a plan");
	team_expect(m, corale_plan_run(NULL, buf, out, NULL), CORALE_EINVAL, "running NULL");
	team_expect(m, corale_mem_alloc(c, 8, NULL), CORALE_EINVAL, "no place for memory");
	corale_comm_destroy(NULL);
	corale_stream_destroy(NULL);
	corale_plan_destroy(NULL);
	team_expect(m, corale_all_reduce(NULL, NULL, 0, CORALE_FLOAT32, CORALE_SUM, c, NULL), 0,
		    "nothing of NULL");
	expect_working(m);
}

TEAM_TEST(overflowing_counts, "counts that overflow")
{
	double buf[2], out[2];
	corale_comm *c = m->comm;
	const size_t counts[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8 + 1, SIZE_MAX / 8 / RANKS + 1 };
	for (int i = 0; i < 4; i++) {
		size_t n = counts[i], most[RANKS] = { 0, n }, none[RANKS] = { 0 };
		team_expect(m, corale_all_gather(buf, out, n, CORALE_FLOAT64, c, NULL), CORALE_EINVAL,
			    "all_gather");
		team_expect(m, corale_reduce_scatter(buf, out, n, CORALE_FLOAT64, CORALE_SUM, c, NULL),
			    CORALE_EINVAL, "reduce_scatter");
		team_expect(m, corale_all_to_all(buf, out, n, CORALE_FLOAT64, c, NULL), CORALE_EINVAL,
			    "all_to_all");
		team_expect(m, corale_gather(buf, out, n, CORALE_FLOAT64, 0, c, NULL), CORALE_EINVAL,
			    "gather");
		team_expect(m, corale_scatter(buf, out, n, CORALE_FLOAT64, 0, c, NULL), CORALE_EINVAL,
			    "scatter");
		if (i == 3)
			break; /* fits where there is one block only */
		team_expect(m, corale_all_reduce(buf, out, n, CORALE_FLOAT64, CORALE_SUM, c, NULL),
			    CORALE_EINVAL, "all_reduce");
		team_expect(m, corale_broadcast(buf, out, n, CORALE_FLOAT64, 0, c, NULL), CORALE_EINVAL,
			    "broadcast");
		team_expect(m, corale_reduce(buf, out, n, CORALE_FLOAT64, CORALE_SUM, 0, c, NULL),
			    CORALE_EINVAL, "reduce");
		team_expect(m, corale_send(buf, n, CORALE_FLOAT64, 0, c, NULL), CORALE_EINVAL, "send");
		team_expect(m, corale_all_to_all_v(buf, most, none, out, none, none, CORALE_FLOAT64, c, NULL),
			    CORALE_EINVAL, "all_to_all_v, count");
		team_expect(m, corale_all_to_all_v(buf, none, none, out, none, most, CORALE_FLOAT64, c, NULL),
			    CORALE_EINVAL, "all_to_all_v, displacement");
		team_expect(m, corale_all_gather_v(buf, out, most, none, CORALE_FLOAT64, c, NULL),
			    CORALE_EINVAL, "all_gather_v, count");
		team_expect(m, corale_gather_v(buf, n, out, none, none, CORALE_FLOAT64, 0, c, NULL),
			    CORALE_EINVAL, "gather_v, count");
	}
	expect_working(m);
}

/* Each operator that a type does not have is refused by name, in calls and plans; the others are not. */
TEAM_TEST(operators_of_types, "operators of types")
{
	uint64_t buf[8] = { 1, 1 }, out[8];
	for (int type = 0; type < CORALE_NUM_TYPES; type++)
		for (corale_op op = 0; op < CORALE_NUM_OPS; op++) {
			const int has = type_has_op(type, op), expected = has ? 0 : CORALE_EINVAL;
			corale_plan *plan = NULL;
			team_expect(m, corale_all_reduce(buf, out, 1, (corale_type)type, op, m->comm, NULL),
				    expected, "an operator of a type");
			if (!has)
				expect_words(m, corale_comm_last_error(m->comm),
					     corale_type_name((corale_type)type), corale_op_name(op));
			team_expect(m,
				    corale_plan_create(CORALE_REDUCE_SCATTER, 1, (corale_type)type, op, 0,
						       m->comm, &plan),
				    expected, "its plan");
			corale_plan_destroy(plan);
			team_expect(m,
				    corale_plan_create(CORALE_ALL_GATHER, 1, (corale_type)type, op, 0,
						       m->comm, &plan),
				    0, "an all_gather has none");
			corale_plan_destroy(plan);
		}
	for (int type = 0; type < CORALE_NUM_TYPES; type++) {
		corale_op op;
		const int has = type_has_op(type, CORALE_NUM_OPS);
		team_expect(m, corale_op_create_premul_sum(buf, (corale_type)type, m->comm, &op),
			    has ? 0 : CORALE_EINVAL, "a premultiplied sum");
		if (has)
			corale_op_destroy(op, m->comm);
	}
	expect_working(m);
}

TEAM_TEST(wrong_types_and_operators, "wrong types and operators")
{
	float buf[2] = { 0 }, out[2];
	double scalar = 2;
	corale_op op;
	corale_comm *c = m->comm;
	team_expect(m, corale_all_reduce(buf, out, 1, (corale_type)CORALE_NUM_TYPES, CORALE_SUM, c, NULL),
		    CORALE_EINVAL, "a type behind the last");
	team_expect(m, corale_all_gather(buf, out, 1, (corale_type)-1, c, NULL), CORALE_EINVAL, "type -1");
	team_expect(m, corale_all_reduce(buf, out, 1, CORALE_FLOAT32, -1, c, NULL), CORALE_EINVAL, "op -1");
	team_expect(m, corale_all_reduce(buf, out, 1, CORALE_FLOAT32, CORALE_NUM_OPS, c, NULL), CORALE_EINVAL,
		    "an operator that nobody created");
	team_expect(m, corale_all_reduce(buf, out, 1, CORALE_FLOAT32, 1 << 30, c, NULL), CORALE_EINVAL,
		    "op 2^30");
	team_expect(m, corale_op_create_premul_sum(&scalar, (corale_type)77, c, &op), CORALE_EINVAL,
		    "premul of type 77");
	team_expect(m, corale_op_create_premul_sum_device(&scalar, CORALE_FLOAT64, c, &op), CORALE_EINVAL,
		    "premul by memory of a GPU on hosts");
	expect_words(m, corale_comm_last_error(c), "of hosts", "corale_op_create_premul_sum");
	team_expect(m, corale_op_create_premul_sum_device(&scalar, CORALE_FLOAT64, NULL, &op), CORALE_EINVAL,
		    "premul by memory of a GPU of NULL");
	team_expect(m, corale_op_create_premul_sum(&scalar, CORALE_FLOAT64, c, &op), 0, "premul of float64");
	team_expect(m, corale_all_reduce(buf, out, 1, CORALE_FLOAT32, op, c, NULL), CORALE_EINVAL,
		    "premul of float64 for float32");
	expect_words(m, corale_comm_last_error(c), "float32", "float64");
	team_expect(m, corale_op_destroy(op, c), 0, "destroying an operator");
	team_expect(m, corale_op_destroy(op, c), CORALE_EINVAL, "destroying it twice");
	team_expect(m, corale_op_destroy(CORALE_SUM, c), CORALE_EINVAL, "destroying a built-in operator");
	team_expect(m, corale_all_reduce(buf, out, 1, CORALE_FLOAT64, op, c, NULL), CORALE_EINVAL,
		    "a destroyed operator");
	expect_working(m);
}

static void expect_no_plan(struct team_member *m, corale_coll coll, size_t count, corale_op op, int root,
			   const char *what)
{
	corale_plan *plan = NULL;
	team_expect(m, corale_plan_create(coll, count, CORALE_FLOAT32, op, root, m->comm, &plan),
		    CORALE_EINVAL, what);
	corale_plan_destroy(plan);
}

/* Rank 1 passes no place for its communicator: none of its color gets one, and nobody waits for ever. */
TEAM_TEST(no_place, "no place for a communicator")
{
	corale_comm *part = NULL;
	int expected = m->rank < 2 ? CORALE_EINVAL : 0;
	team_expect(m, corale_comm_split(m->comm, m->rank / 2, 0, m->rank == 1 ? NULL : &part), expected,
		    "split, rank 1 without a place for it");
	corale_comm_destroy(part);
	team_expect(m, corale_comm_split(m->comm, -1, 0, NULL), CORALE_EINVAL, "no color, no place");
	expect_working(m);
}

TEAM_TEST(wrong_plans, "wrong plans")
{
	corale_plan *plan = NULL;
	expect_no_plan(m, (corale_coll)-1, 1, CORALE_SUM, 0, "a plan of collective -1");
	expect_no_plan(m, CORALE_ALL_REDUCE, 1, -5, 0, "a plan with operator -5");
	expect_no_plan(m, CORALE_ALL_REDUCE, 1, CORALE_NUM_OPS, 0,
		       "a plan with an operator that nobody made");
	expect_no_plan(m, CORALE_BROADCAST, 1, CORALE_SUM, 99, "a plan with root 99");
	expect_words(m, corale_comm_last_error(m->comm), "root 99", "0 .. 3");
	expect_no_plan(m, CORALE_REDUCE, 1, CORALE_SUM, -1, "a plan with root -1");
	expect_no_plan(m, CORALE_GATHER, 1, CORALE_SUM, RANKS, "a plan with root n");
	expect_no_plan(m, CORALE_SCATTER, SIZE_MAX / 8, CORALE_SUM, 0, "a plan of too many elements");
	expect_no_plan(m, CORALE_ALL_GATHER, SIZE_MAX, CORALE_SUM, 0, "a plan of SIZE_MAX elements");
	team_expect(m, corale_plan_create(CORALE_BARRIER, 0, CORALE_FLOAT32, -5, 99, m->comm, &plan), 0,
		    "a barrier has neither operator nor root");
	corale_plan_destroy(plan);
	expect_working(m);
}

/* Blocks of one element, of this rank two. */
static void overlapping_v(struct team_member *m, float *buf, const size_t *counts, const size_t *displs)
{
	corale_comm *c = m->comm;
	float *other = buf + displs[(m->rank + 1) % RANKS], *near = buf + displs[m->rank] + 1;
	team_expect(m, corale_all_gather_v(other, buf, counts, displs, CORALE_FLOAT32, c, NULL),
		    CORALE_EINVAL, "all_gather_v in another rank's place");
	team_expect(m, corale_all_gather_v(near, buf, counts, displs, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "all_gather_v one element behind its place");
	team_expect(m,
		    corale_reduce_scatter_v(buf, counts, displs, near, CORALE_FLOAT32, CORALE_SUM, c, NULL),
		    CORALE_EINVAL, "reduce_scatter_v one element behind its place");
	team_expect(m, corale_gather_v(other, 2, buf, counts, displs, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "gather_v in another rank's place");
	team_expect(m, corale_scatter_v(buf, counts, displs, near, 2, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "scatter_v one element behind its place");
}

TEAM_TEST(wrong_places, "wrong roots, peers and places")
{
	float buf[3 * RANKS] = { 0 };
	size_t ones[RANKS] = { 1, 1, 1, 1 }, displs[RANKS] = { 0, 1, 2, 3 };
	corale_comm *c = m->comm;
	team_expect(m, corale_broadcast(buf, buf, 1, CORALE_FLOAT32, -1, c, NULL), CORALE_EINVAL, "root -1");
	team_expect(m, corale_broadcast(buf, buf, 1, CORALE_FLOAT32, RANKS, c, NULL), CORALE_EINVAL,
		    "root n");
	expect_words(m, corale_comm_last_error(c), "root", "4");
	team_expect(m, corale_reduce(buf, buf, 1, CORALE_FLOAT32, CORALE_SUM, RANKS, c, NULL), CORALE_EINVAL,
		    "reduce to root n");
	team_expect(m, corale_gather(buf, buf, 1, CORALE_FLOAT32, -1, c, NULL), CORALE_EINVAL,
		    "gather to root -1");
	team_expect(m, corale_scatter(buf, buf, 1, CORALE_FLOAT32, RANKS, c, NULL), CORALE_EINVAL,
		    "scatter from root n");
	team_expect(m, corale_reduce(buf, buf + 1, 2, CORALE_FLOAT32, CORALE_SUM, m->rank, c, NULL),
		    CORALE_EINVAL, "reduce with an overlap at the root");
	team_expect(m, corale_gather(buf + (m->rank + 1) % RANKS, buf, 1, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "gather in another rank's place");
	team_expect(m, corale_scatter(buf, buf + (m->rank + 1) % RANKS, 1, CORALE_FLOAT32, m->rank, c, NULL),
		    CORALE_EINVAL, "scatter in another rank's place");
	team_expect(m, corale_send(buf, 1, CORALE_FLOAT32, RANKS, c, NULL), CORALE_EINVAL, "peer n");
	team_expect(m, corale_send(buf, 1, CORALE_FLOAT32, m->rank, c, NULL), CORALE_EINVAL,
		    "to oneself, no group");
	team_expect(m, corale_all_to_all(buf, buf + 1, 1, CORALE_FLOAT32, c, NULL), CORALE_EINVAL,
		    "all_to_all with an overlap");
	static const size_t moved[RANKS] = { 3, 2, 1, 0 };
	team_expect(m, corale_all_to_all_v(buf, ones, displs, buf, ones, moved, CORALE_FLOAT32, c, NULL),
		    CORALE_EINVAL, "all_to_all_v in place, with other displacements");
	size_t two[RANKS] = { 1, 1, 1, 1 };
	two[m->rank] = 2;
	team_expect(
	    m, corale_all_to_all_v(buf, two, displs, buf + 2 * RANKS, ones, displs, CORALE_FLOAT32, c, NULL),
	    CORALE_EINVAL, "all_to_all_v, 2 to oneself, 1 from oneself");
	expect_words(m, corale_comm_last_error(c), "itself 2", "expects 1");
	overlapping_v(m, buf, two, displs);
	team_expect(m, corale_all_reduce(buf, buf + 1, 2, CORALE_FLOAT32, CORALE_SUM, c, NULL), CORALE_EINVAL,
		    "overlap");
	team_expect(m, corale_all_gather(buf + (m->rank + 1) % RANKS, buf, 1, CORALE_FLOAT32, c, NULL),
		    CORALE_EINVAL, "all_gather in another rank's place");
	team_expect(m, corale_group_end(), CORALE_EINVAL, "group_end without group_begin");
	expect_working(m);
}

/* Operators belong to one communicator, for as long as they exist: the same place with another scalar is another operator. */
TEAM_TEST(foreign_operators, "operators of another communicator")
{
	const float three = 3, ten = 10, in = 1;
	float out = -1;
	char first[64], second[64];
	corale_op mine, others, again;
	corale_comm *other = NULL;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &other), 0, "split");
	snprintf(first, sizeof first, "communicator %p", (void *)m->comm);
	snprintf(second, sizeof second, "communicator %p", (void *)other);
	team_expect(m, corale_op_create_premul_sum(&three, CORALE_FLOAT32, m->comm, &mine), 0, "an operator");
	team_expect(m, corale_op_create_premul_sum(&ten, CORALE_FLOAT32, other, &others), 0, "an operator");
	team_expect(m, corale_all_reduce(&in, &out, 1, CORALE_FLOAT32, mine, other, NULL), CORALE_EINVAL,
		    "an operator of another communicator");
	expect_words(m, corale_comm_last_error(other), first, second);
	expect_no_plan(m, CORALE_ALL_REDUCE, 1, others, 0,
		       "a plan with the operator of another communicator");
	team_expect(m, corale_op_destroy(others, m->comm), CORALE_EINVAL, "destroying another's operator");
	expect_words(m, corale_comm_last_error(m->comm), first, second);
	team_expect(m, corale_op_destroy(mine, m->comm), 0, "destroying an operator");
	team_expect(m, corale_op_create_premul_sum(&ten, CORALE_FLOAT32, m->comm, &again), 0, "an operator");
	team_expect(m, corale_all_reduce(&in, &out, 1, CORALE_FLOAT32, mine, m->comm, NULL), CORALE_EINVAL,
		    "an operator that was destroyed");
	expect_words(m, corale_comm_last_error(m->comm), "operator", "destroyed");
	team_expect(m, corale_op_destroy(mine, m->comm), CORALE_EINVAL, "destroying it again");
	team_expect(m, corale_all_reduce(&in, &out, 1, CORALE_FLOAT32, again, m->comm, NULL), 0, "its own");
	if (out != RANKS * ten)
		team_fault(m, "%g", out);
	corale_comm_destroy(other);
	expect_working(m);
}

/* What Open MPI and MPICH call MPI_IN_PLACE is no buffer of any call. */
TEAM_TEST(mpi_in_place, "MPI_IN_PLACE")
{
	float buf[RANKS] = { 0 };
	const size_t each[RANKS] = { 0 };
	corale_comm *c = m->comm;
	for (int i = 0; i < 2; i++) {
		void *const place = (void *)(i ? UINTPTR_MAX : (uintptr_t)1);
		const int got[] = {
			corale_all_reduce(place, buf, 1, CORALE_FLOAT32, CORALE_SUM, c, NULL),
			corale_all_gather(place, buf, 1, CORALE_FLOAT32, c, NULL),
			corale_reduce_scatter(place, buf, 1, CORALE_FLOAT32, CORALE_SUM, c, NULL),
			corale_broadcast(place, buf, 1, CORALE_FLOAT32, 0, c, NULL),
			corale_reduce(place, buf, 1, CORALE_FLOAT32, CORALE_SUM, 0, c, NULL),
			corale_gather(place, buf, 1, CORALE_FLOAT32, 0, c, NULL),
			corale_scatter(buf, place, 1, CORALE_FLOAT32, 0, c, NULL),
			corale_all_to_all(place, buf, 1, CORALE_FLOAT32, c, NULL),
			corale_all_to_all_v(place, each, each, buf, each, each, CORALE_FLOAT32, c, NULL),
			corale_all_gather_v(place, buf, each, each, CORALE_FLOAT32, c, NULL),
			corale_reduce_scatter_v(buf, each, each, place, CORALE_FLOAT32, CORALE_SUM, c, NULL),
			corale_gather_v(place, 0, buf, each, each, CORALE_FLOAT32, 0, c, NULL),
			corale_scatter_v(buf, each, each, place, 0, CORALE_FLOAT32, 0, c, NULL),
			corale_send(place, 1, CORALE_FLOAT32, 0, c, NULL),
			corale_recv(place, 1, CORALE_FLOAT32, 0, c, NULL),
		};
		for (size_t k = 0; k < sizeof got / sizeof *got; k++)
			team_expect(m, got[k], CORALE_EINVAL, "MPI_IN_PLACE as a buffer");
		expect_words(m, corale_comm_last_error(c), "MPI_IN_PLACE", "send == recv");
	}
	expect_working(m);
}

TEAM_TEST(configurations, "wrong configurations")
{
	corale_config config = { 0 };
	corale_inproc *group = NULL;
	corale_comm *comm = NULL;
	if (m->rank == 0) { /* one rank is enough: nothing may start */
		team_expect(m, corale_inproc_create(0, &group), CORALE_EINVAL, "a group of none");
		team_expect(m, corale_inproc_create(1, NULL), CORALE_EINVAL, "no place for a group");
		team_expect(m, corale_inproc_create(1, &group), 0, "a group of one");
		team_expect(m, corale_comm_create_inproc(group, 1, NULL, &comm), CORALE_EINVAL,
			    "rank 1 of 1");
		team_expect(m, corale_comm_create_inproc(NULL, 0, NULL, &comm), CORALE_EINVAL, "no group");
		team_expect(m, corale_comm_create_inproc(group, 0, &config, &comm), CORALE_EINVAL,
			    "a size of 0");
		corale_config_init(&config);
		config.device = 7;
		team_expect(m, corale_comm_create_inproc(group, 0, &config, &comm), CORALE_EINVAL,
			    "device 7");
		config.device = CORALE_DEVICE_HOST;
		config.max_channels = -1;
		team_expect(m, corale_comm_create_inproc(group, 0, &config, &comm), CORALE_EINVAL,
			    "-1 channels");
		const double seconds[] = { INFINITY, NAN, 1e10, -NAN };
		for (int i = 0; i < 4; i++) {
			corale_config_init(&config);
			config.timeout_seconds = seconds[i];
			team_expect(m, corale_comm_create_inproc(group, 0, &config, &comm), CORALE_EINVAL,
				    "a timeout that is no number of seconds");
			expect_words(m, log_last_error(), "timeout_seconds", "1000000000");
		}
		corale_inproc_destroy(group);
	}
	expect_working(m);
}

/* A group of one with a policy, the configuration ending after so many bytes. */
static int create_with_policy(int cta_policy, size_t size)
{
	corale_config config;
	corale_inproc *group = NULL;
	corale_comm *comm = NULL;
	corale_config_init(&config);
	config.size = size;
	config.cta_policy = cta_policy;
	int ret = corale_inproc_create(1, &group);
	ret = ret ? ret : corale_comm_create_inproc(group, 0, &config, &comm);
	corale_comm_destroy(comm);
	corale_inproc_destroy(group);
	return ret;
}

TEAM_TEST(policies, "wrong policies")
{
	const size_t before =
	    offsetof(corale_config, cta_policy); /* as of callers who don't know the field */
	for (int policy = CORALE_CTA_POLICY_DEFAULT; policy <= CORALE_CTA_POLICY_ZERO; policy++)
		team_expect(m, create_with_policy(policy, sizeof(corale_config)), 0, "a policy on the host");
	team_expect(m, create_with_policy(-1, sizeof(corale_config)), CORALE_EINVAL, "policy -1");
	expect_words(m, log_last_error(), "cta_policy -1", "CORALE_CTA_POLICY_*");
	team_expect(m, create_with_policy(CORALE_CTA_POLICY_ZERO + 1, sizeof(corale_config)), CORALE_EINVAL,
		    "a policy too many");
	team_expect(m, create_with_policy(77, before), 0, "what lies behind an older caller's configuration");
	expect_working(m);
}

static corale_inproc *shared_group;

/* All ranks, each with its own configuration. */
static void expect_refused(struct team_member *m, const corale_config *config, const char *what)
{
	corale_comm *comm = NULL;
	if (m->rank == 0)
		team_expect(m, corale_inproc_create(RANKS, &shared_group), 0, "a group");
	team_barrier(m);
	team_expect(m, corale_comm_create_inproc(shared_group, m->rank, config, &comm), CORALE_ESETTING,
		    what);
	corale_comm_destroy(comm);
	team_barrier(m);
	if (m->rank == 0)
		corale_inproc_destroy(shared_group);
}

TEAM_TEST(policies_that_differ, "policies that differ")
{
	static const int devices[] = { CORALE_DEVICE_HOST, CORALE_DEVICE_CUDA };
	corale_config config;
	for (int i = 0; i < 2; i++) {
		corale_config_init(&config);
		config.device = devices[i];
		config.cta_policy = m->rank == ODD ? CORALE_CTA_POLICY_EFFICIENT : CORALE_CTA_POLICY_DEFAULT;
		expect_refused(m, &config, "one rank's policy is another");
		expect_words(m, log_last_error(), "CORALE_CTA_POLICY differs", "\"efficient\" on rank");
	}
}

TEAM_TEST(devices_that_differ, "devices that differ")
{
	corale_config config;
	corale_config_init(&config);
	config.device = m->rank == ODD ? CORALE_DEVICE_CUDA : CORALE_DEVICE_HOST;
	expect_refused(m, &config, "one rank on a GPU");
}

/* What one rank gives up by mistake is lost on none. */
TEAM_TEST(registrations, "registrations that are none")
{
	float buf[4], other;
	void *memory, *handle, *none = &other;
	team_expect(m, corale_mem_register(m->comm, buf, sizeof buf, &handle), 0, "registration");
	team_expect(m, corale_mem_alloc(m->comm, sizeof buf, &memory), 0, "allocation");
	team_expect(m, corale_mem_deregister(m->comm, m->rank == ODD ? none : handle), CORALE_EINVAL,
		    "one rank's handle is none");
	team_expect(m, corale_mem_free(m->comm, m->rank == ODD ? none : memory), CORALE_EINVAL,
		    "one rank's memory is none");
	expect_working(m);
	team_expect(m, corale_mem_deregister(m->comm, handle), 0, "deregistration");
	team_expect(m, corale_mem_free(m->comm, memory), 0, "freeing");
	team_expect(m, corale_mem_free(m->comm, NULL), 0, "freeing nothing");
	team_expect(m, corale_mem_deregister(m->comm, handle), CORALE_EINVAL, "deregistering twice");
	expect_working(m);
}

TEAM_TEST(destroyed_handles, "destroyed communicators")
{
	float buf[RANKS] = { 0 };
	corale_comm *c = m->comm;
	corale_comm_destroy(c);
	m->comm = NULL;
	team_expect(m, corale_all_reduce(buf, buf, 1, CORALE_FLOAT32, CORALE_SUM, c, NULL), CORALE_EINVAL,
		    "all_reduce");
	team_expect(m, corale_barrier(c, NULL), CORALE_EINVAL, "barrier");
	team_expect(m, corale_comm_size(c), CORALE_EINVAL, "size");
	team_expect(m, corale_comm_abort(c), CORALE_EINVAL, "abort");
	team_expect(m, corale_comm_async_error(c), CORALE_EINVAL, "asynchronous error");
	team_expect(m, corale_comm_split(c, 0, 0, &m->comm), CORALE_EINVAL, "split");
	m->comm = NULL;
	corale_comm_destroy(c); /* says so, and does nothing */
}

static void expect_no_stream(struct team_member *m, void *stream)
{
	float buf[RANKS] = { 0 }, out[RANKS * RANKS];
	const size_t counts[RANKS] = { 1, 1, 1, 1 }, displs[RANKS] = { 0, 1, 2, 3 };
	const int root = 0, type = CORALE_FLOAT32, next = (m->rank + 1) % RANKS;
	corale_comm *c = m->comm, *over = NULL;
	corale_plan *plan = NULL;
	team_expect(m, corale_plan_create(CORALE_ALL_REDUCE, 1, type, CORALE_SUM, 0, c, &plan), 0, "a plan");
	const int said[] = { corale_all_reduce(buf, out, 1, type, CORALE_SUM, c, stream),
			     corale_all_gather(buf, out, 1, type, c, stream),
			     corale_reduce_scatter(buf, out, 1, type, CORALE_SUM, c, stream),
			     corale_broadcast(buf, out, 1, type, root, c, stream),
			     corale_reduce(buf, out, 1, type, CORALE_SUM, root, c, stream),
			     corale_gather(buf, out, 1, type, root, c, stream),
			     corale_scatter(buf, out, 1, type, root, c, stream),
			     corale_all_to_all(buf, out, 1, type, c, stream),
			     corale_all_to_all_v(buf, counts, displs, out, counts, displs, type, c, stream),
			     corale_all_gather_v(buf, out, counts, displs, type, c, stream),
			     corale_reduce_scatter_v(buf, counts, displs, out, type, CORALE_SUM, c, stream),
			     corale_gather_v(buf, 1, out, counts, displs, type, root, c, stream),
			     corale_scatter_v(buf, counts, displs, out, 1, type, root, c, stream),
			     corale_send(buf, 1, type, next, c, stream),
			     corale_recv(buf, 1, type, next, c, stream),
			     corale_barrier(c, stream),
			     corale_plan_run(plan, buf, out, stream),
			     corale_stream_synchronize(stream),
			     corale_stream_query(stream) };
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (said[i] != CORALE_EINVAL)
			team_fault(m, "call %zu on stream %p: %s", i, stream, corale_strerror(said[i]));
	team_expect(m, corale_comm_split(c, 0, 0, &over), 0, "split");
	corale_group_begin();
	team_expect(m, corale_barrier(over, stream), CORALE_EINVAL, "a barrier in a group");
	team_expect(m, corale_group_end(), CORALE_EINVAL, "its group, which ends the communicator");
	corale_comm_destroy(over);
	corale_stream_destroy(stream); /* says so, and does nothing */
	corale_plan_destroy(plan);
}

TEAM_TEST(wrong_streams, "streams that are none")
{
	float here;
	corale_stream *stream = NULL, *first = NULL;
	expect_no_stream(m, (void *)(uintptr_t)0x1234);
	expect_no_stream(m, &here);
	expect_no_stream(m, m->comm);
	for (int i = 0; i < 200; i++) { /* more than a block of handles */
		team_expect(m, corale_stream_create(&stream), 0, "a stream");
		if (!first)
			first = stream;
		if (i == 150)
			expect_no_stream(m, (char *)stream + 8);
		team_expect(m, corale_stream_query(stream), 0, "an idle stream");
		corale_stream_destroy(stream);
	}
	expect_no_stream(m, first);
	expect_no_stream(m, stream);
	expect_working(m);
}

static void expect_no_handle(struct team_member *m, void *wrong)
{
	float buf[RANKS] = { 0 };
	corale_op op;
	void *memory;
	corale_comm *c = NULL;
	const int said[] = { corale_all_reduce(buf, buf, 1, CORALE_FLOAT32, CORALE_SUM, wrong, NULL),
			     corale_send(buf, 1, CORALE_FLOAT32, 0, wrong, NULL),
			     corale_comm_rank(wrong),
			     corale_comm_size(wrong),
			     corale_comm_abort(wrong),
			     corale_comm_async_error(wrong),
			     corale_comm_split(wrong, 0, 0, &c),
			     corale_op_create_premul_sum(buf, CORALE_FLOAT32, wrong, &op),
			     corale_op_destroy(CORALE_NUM_OPS, wrong),
			     corale_mem_alloc(wrong, 8, &memory),
			     corale_mem_free(wrong, buf),
			     corale_mem_register(wrong, buf, 8, &memory),
			     corale_mem_deregister(wrong, buf),
			     corale_plan_create(CORALE_ALL_REDUCE, 1, CORALE_FLOAT32, CORALE_SUM, 0, wrong,
						(corale_plan **)&memory),
			     corale_plan_run(wrong, buf, buf, NULL) };
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (said[i] != CORALE_EINVAL)
			team_fault(m, "call %zu with handle %p: %s", i, wrong, corale_strerror(said[i]));
	corale_plan_destroy(wrong);
	corale_comm_destroy(wrong);
}

TEAM_TEST(wrong_handles, "communicators and plans that are none")
{
	float here, buf[2] = { 0 };
	corale_plan *plan = NULL;
	corale_stream *stream = NULL;
	expect_no_handle(m, (void *)(uintptr_t)0x1234);
	expect_no_handle(m, &here);
	expect_no_handle(m, (char *)m->comm + 4);
	team_expect(m, corale_stream_create(&stream), 0, "a stream");
	expect_no_handle(m, stream);
	corale_stream_destroy(stream);
	team_expect(m,
		    corale_plan_create(CORALE_ALL_REDUCE, 1, CORALE_FLOAT32, CORALE_SUM, 0, m->comm, &plan),
		    0, "a plan");
	team_expect(m, corale_plan_run(plan, buf, buf + 1, NULL), 0, "its run");
	corale_plan_destroy(plan);
	expect_no_handle(m, plan);
	expect_working(m);
}

int main(int argc, char **argv)
{
	static const char *const settings[] = { "CORALE_DEBUG=none", "CORALE_DEBUG=none CORALE_NODE_SIZE=2",
						NULL };
	return team_main(argc, argv, &(struct team_runs){ .ranks = RANKS, .settings = settings });
}
