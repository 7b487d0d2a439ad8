/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With CORALE_REPRODUCIBLE=1 a sum has the bits of one fold of all contributions in rank order, whatever the nodes, the algorithm and the number of bytes.
 * Runs itself for each case and node size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/helpers/matrix.h"
#include "reduce/reduce.h"
#include "test/helpers/reference.h"
#include "test/helpers/team.h"
#include "test/helpers/thin.h"

enum { RANKS = 7, LARGE = 30001, ELEMENT = 8 };

/* All contributions to one call, in rank order, and what becomes of them. */
struct sums {
	struct team_member *member;
	struct reference ref;
	size_t elements; /* that a rank contributes */
	unsigned char *send, *expected, *got;
};

static unsigned char *contribution(const struct sums *s, int rank)
{
	return s->send + (size_t)rank * s->elements * ELEMENT;
}

static void fold(const struct sums *s)
{
	const struct reduce_spec spec = { .type = s->ref.type, .op = s->ref.op, .ranks = RANKS };
	struct reduce_input inputs[RANKS];
	for (int r = 0; r < RANKS; r++) {
		reference_fill(&s->ref, r, 0, s->elements, contribution(s, r));
		inputs[r] = (struct reduce_input){ contribution(s, r), REDUCE_LOCAL };
	}
	reduce_fold(&spec, s->expected, inputs, RANKS, s->elements, 1);
}

static void open_sums(struct sums *s, struct team_member *member, size_t elements, corale_type type,
		      corale_op op)
{
	*s = (struct sums){ .member = member,
			    .ref = { type, op, RANKS, REFERENCE_RANDOM, elements },
			    .elements = elements };
	s->send = malloc((RANKS + 2) * elements * ELEMENT);
	if (!s->send)
		abort();
	s->expected = contribution(s, RANKS);
	s->got = contribution(s, RANKS + 1);
	memset(s->got, 0xa5, elements * ELEMENT);
	fold(s);
}

/* The result is elements [first, first + count) of the fold. */
static void expect(const struct sums *s, const char *what, size_t first, size_t count)
{
	const size_t bytes = corale_type_bytes(s->ref.type);
	for (size_t i = 0; i < count; i++)
		if (memcmp(s->got + i * bytes, s->expected + (first + i) * bytes, bytes)) {
			team_fault(s->member, "%s, %s %s of %zu: element %zu has other bits", what,
				   corale_op_name(s->ref.op), corale_type_name(s->ref.type), count, i);
			return;
		}
}

static void all_reduce(struct team_member *m, size_t count, corale_type type, corale_op op)
{
	struct sums s;
	open_sums(&s, m, count, type, op);
	team_expect(m, corale_all_reduce(contribution(&s, m->rank), s.got, count, type, op, m->comm, NULL), 0,
		    "all_reduce");
	expect(&s, "all_reduce", 0, count);
	free(s.send);
}

static void reduce(struct team_member *m, size_t count, corale_type type, corale_op op)
{
	struct sums s;
	const int root = (int)(count + type) % RANKS;
	open_sums(&s, m, count, type, op);
	team_expect(m, corale_reduce(contribution(&s, m->rank), s.got, count, type, op, root, m->comm, NULL),
		    0, "reduce");
	if (m->rank == root)
		expect(&s, "reduce", 0, count);
	free(s.send);
}

static void reduce_scatter(struct team_member *m, size_t count, corale_type type, corale_op op)
{
	struct sums s;
	open_sums(&s, m, RANKS * count, type, op);
	team_expect(m,
		    corale_reduce_scatter(contribution(&s, m->rank), s.got, count, type, op, m->comm, NULL),
		    0, "reduce_scatter");
	expect(&s, "reduce_scatter", (size_t)m->rank * count, count);
	free(s.send);
}

static void sweep(struct team_member *m,
		  void (*call)(struct team_member *m, size_t count, corale_type type, corale_op op))
{
	static const corale_type types[] = { CORALE_FLOAT32, CORALE_FLOAT64, CORALE_FLOAT16,
					     CORALE_BFLOAT16 };
	static const corale_op ops[] = { CORALE_SUM, CORALE_PROD, CORALE_AVG };
	static const size_t counts[] = { 1, 2, 17, 300, 1025, LARGE };
	const size_t n = sizeof counts / sizeof *counts, nops = sizeof ops / sizeof *ops,
		     all = n * nops * sizeof types / sizeof *types, step = (size_t)thin_step();
	for (size_t i = (size_t)thin_first((int)step); i < all; i += step)
		if (thin_takes(i, 5))
			call(m, counts[i % n], types[i / n / nops], ops[i / n % nops]);
}

/* ---- Parts of a vector ---- */

enum { WHOLE = 1 << 20 };

static void expect_part(const struct sums *s, size_t first, size_t count, size_t bytes)
{
	if (memcmp(s->got, s->expected + first * bytes, count * bytes))
		team_fault(s->member,
			   "all_reduce, %s of %zu from element %zu on: other bits than in one call of %d",
			   corale_type_name(s->ref.type), count, first, WHOLE);
}

/* The same elements in calls of every size, from any offset, between any others: as a bucket, or a batch of another size. */
static void parts(struct team_member *m, corale_type type)
{
	const size_t bytes = corale_type_bytes(type);
	struct sums s = { .member = m, .ref = { type, CORALE_SUM, RANKS, REFERENCE_RANDOM, type } };
	uint32_t random = 12345 + (uint32_t)type;
	s.send = malloc(3 * WHOLE * bytes);
	if (!s.send)
		abort();
	s.expected = s.send + WHOLE * bytes;
	s.got = s.expected + WHOLE * bytes;
	reference_fill(&s.ref, m->rank, 0, WHOLE, s.send);
	team_expect(m, corale_all_reduce(s.send, s.expected, WHOLE, type, CORALE_SUM, m->comm, NULL), 0,
		    "all_reduce");
	for (size_t most = 1; most < WHOLE; most *= 2)
		for (int i = 0; i < 2; i++) {
			random = random * 1664525u + 1013904223u;
			const size_t count = most + (i ? random >> 8 : 0) % most,
				     first = (random >> 4) % (WHOLE - count);
			team_expect(m,
				    corale_all_reduce(s.send + first * bytes, s.got, count, type, CORALE_SUM,
						      m->comm, NULL),
				    0, "all_reduce");
			expect_part(&s, first, count, bytes);
		}
	free(s.send);
}

TEAM_TEST(all_parts, "parts")
{
	parts(m, CORALE_FLOAT32);
	parts(m, CORALE_BFLOAT16);
}

TEAM_TEST(all_reduces, "all_reduce")
{
	sweep(m, all_reduce);
}

TEAM_TEST(reduces, "reduce")
{
	sweep(m, reduce);
}

TEAM_TEST(reduce_scatters, "reduce_scatter")
{
	sweep(m, reduce_scatter);
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {
		"CORALE_REPRODUCIBLE=1",
		"CORALE_REPRODUCIBLE=1 CORALE_NODE_SIZE=1",
		"CORALE_REPRODUCIBLE=1 CORALE_NODE_SIZE=2",
		"CORALE_REPRODUCIBLE=1 CORALE_NODE_SIZE=3",
		"CORALE_REPRODUCIBLE=1 CORALE_NODE_SIZE=1 CORALE_ALGO=ordered",
		"CORALE_REPRODUCIBLE=1 CORALE_NODE_SIZE=3 CORALE_ALGO=ordered CORALE_REFERENCE=yes "
		"CORALE_REFERENCE_BYTES=1",
		NULL
	};
	return team_main(argc, argv, &(struct team_runs){ .ranks = RANKS, .settings = settings });
}
