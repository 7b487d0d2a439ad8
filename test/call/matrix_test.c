/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matrix on ranks that are threads. Settings are read once a process, so every shape (node size, forced
 * algorithm, chunks) runs in a process of its own: this program starts itself with the shape's number.
 */
#include "test/helpers/unit.h"
#include "test/helpers/matrix.h"
#include "test/helpers/team.h"
#include "test/helpers/thin.h"

enum { MAX_COUNTS = 6 };

struct shape {
	const char *name;
	const char *environment; /* NAME=value, separated by blanks */
	int least, most; /* ranks */
	int stride; /* every stride-th case of the list */
	size_t counts[MAX_COUNTS];
	int ncounts;
};

/* Small chunks make many of few elements. */
#define SMALL "CORALE_CHUNK_BYTES=512 "
#define COUNTS { 0, 1, 17, 1003 }, 4
#define MANY { 1, 130, 2051 }, 3
static const struct shape shapes[] = {
	{ "one node, every case", "", 1, 5, 1, COUNTS },
	{ "one node, every plan interpreted", "CORALE_CODELETS=no", 1, 5, 1, COUNTS },
	{ "one node, 6 to 8 ranks", "", 6, 8, 11, COUNTS },
	{ "large buffers", "", 2, 4, 41, { 70001, 130003 }, 2 },
	{ "many chunks", SMALL "CORALE_SLOTS=2", 2, 5, 11, MANY },
	{ "two slots of a queue", "CORALE_SLOT_BYTES=512 CORALE_REFERENCE=no", 2, 5, 11, MANY },
	{ "several channels", SMALL "CORALE_MAX_CHANNELS=3", 2, 4, 37, { 300, 40003 }, 2 },
	{ "nodes of 2", SMALL "CORALE_NODE_SIZE=2", 3, 8, 11, COUNTS },
	{ "nodes of 3", SMALL "CORALE_NODE_SIZE=3", 4, 8, 11, COUNTS },
	{ "nodes of 1", "CORALE_NODE_SIZE=1", 2, 5, 11, COUNTS },
	{ "oneshot", SMALL "CORALE_ALGO=oneshot", 2, 6, 11, MANY },
	{ "twoshot", SMALL "CORALE_ALGO=all_reduce:twoshot", 2, 6, 11, MANY },
	{ "copy-engine pipeline", SMALL "CORALE_ALGO=all_reduce:ce", 2, 6, 11, MANY },
	{ "ring and scatter", SMALL "CORALE_ALGO=ring,scatter", 2, 6, 11, MANY },
	{ "ring over nodes", SMALL "CORALE_ALGO=ring,scatter CORALE_NODE_SIZE=2", 3, 6, 11, MANY },
	{ "several blocks in a message",
	  "CORALE_ALGO=bruck,gather:binomial,scatter:binomial CORALE_NODE_SIZE=3 CORALE_REFERENCE=yes "
	  "CORALE_REFERENCE_BYTES=1",
	  3, 8, 11, MANY },
	{ "nodes' blocks in a message", "CORALE_ALGO=hier_bruck CORALE_NODE_SIZE=2", 4, 8, 11, MANY },
	{ "ordered", "CORALE_ALGO=ordered CORALE_NODE_SIZE=1", 2, 8, 11, MANY },
	{ "ordered over nodes of 3", "CORALE_ALGO=ordered CORALE_NODE_SIZE=3 CORALE_REFERENCE=no", 2, 8, 11,
	  MANY },
	{ "doubling", SMALL "CORALE_ALGO=doubling,broadcast:flat", 2, 8, 11, MANY },
	{ "hierarchy with rings", SMALL "CORALE_ALGO=hier_ring CORALE_NODE_SIZE=2", 3, 8, 11, MANY },
	{ "hierarchy with doubling", SMALL "CORALE_ALGO=all_reduce:hier_doubling CORALE_NODE_SIZE=3", 4, 8,
	  11, MANY },
	{ "halving", SMALL "CORALE_ALGO=halving", 2, 8, 11, MANY },
	{ "hierarchy with halving", SMALL "CORALE_ALGO=hier_halving CORALE_NODE_SIZE=2", 3, 8, 11, MANY },
	{ "one shot in nodes and between them",
	  SMALL "CORALE_ALGO=hier_oneshot,^hier_oneshot_doubling CORALE_NODE_SIZE=3", 4, 8, 11, MANY },
	{ "one shot in nodes, doubling between them",
	  SMALL "CORALE_ALGO=hier_oneshot_doubling CORALE_NODE_SIZE=2", 4, 8, 11, MANY },
	{ "binomial trees", SMALL "CORALE_ALGO=binomial", 2, 8, 11, MANY },
	{ "binomial trees between nodes", SMALL "CORALE_ALGO=hier_binomial CORALE_NODE_SIZE=2", 3, 8, 11,
	  MANY },
	{ "chains", SMALL "CORALE_ALGO=chain", 2, 6, 11, MANY },
	{ "hierarchical gather and scatter", SMALL "CORALE_ALGO=gather:hier,scatter:hier CORALE_NODE_SIZE=3",
	  4, 8, 11, MANY },
	{ "chains between nodes", SMALL "CORALE_ALGO=hier_chain CORALE_NODE_SIZE=3", 4, 8, 11, MANY },
	{ "reproducible", SMALL "CORALE_REPRODUCIBLE=yes", 2, 6, 11, MANY },
	{ "reproducible over nodes of 1", "CORALE_REPRODUCIBLE=yes CORALE_NODE_SIZE=1", 2, 8, 11, MANY },
	{ "reproducible over nodes", SMALL "CORALE_REPRODUCIBLE=yes CORALE_NODE_SIZE=2", 3, 6, 11, MANY },
	{ "references always", "CORALE_REFERENCE=yes CORALE_REFERENCE_BYTES=1", 2, 5, 5, { 17, 5003 }, 2 },
	{ "references never", "CORALE_REFERENCE=no", 2, 4, 37, { 17, 70001 }, 2 },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Results of one case must have the same bits on all ranks. */
static void compare_digests(struct team_member *member, uint64_t *digest, const struct matrix_case *c)
{
	member->team->shared[member->rank] = digest;
	team_barrier(member);
	for (int r = 0; r < member->size; r++)
		if (*(uint64_t *)member->team->shared[r] != *digest)
			team_fault(member, "%s %s %s of %zu: other bits than rank %d",
				   corale_coll_name(c->coll), corale_type_name(c->type),
				   corale_op_name(c->op), c->count, r);
	team_barrier(member);
}

static void run_list(struct team_member *member)
{
	const struct shape *shape = member->arg;
	const int stride = matrix_stride(shape->stride);
	struct matrix matrix;
	struct matrix_case c;
	char text[512];
	int kind;
	if (matrix_open(&matrix, member->comm, shape->counts[shape->ncounts - 1]))
		abort();
	for (long i = matrix_first(shape->stride, member->size);
	     (kind = matrix_case_at(i, member->size, shape->counts, shape->ncounts, &c)); i += stride) {
		uint64_t digest;
		if (kind == 2 || !thin_takes((uint64_t)member->size << 32 | (uint64_t)(i / stride), 5))
			continue;
		if (matrix_run(&matrix, &c, &digest, text, sizeof(text)))
			team_fault(member, "%s", text);
		if (c.coll == CORALE_ALL_REDUCE || c.coll == CORALE_ALL_GATHER || c.coll == CORALE_BROADCAST)
			compare_digests(member, &digest, &c);
	}
	matrix_close(&matrix);
}

static int run_shape_here(const struct shape *shape)
{
	int faults = 0;
	for (int n = shape->least; n <= shape->most; n++) {
		if (shape->least < shape->most && !thin_keeps((uint64_t)(100 * (shape - shapes) + n), 2))
			continue;
		double start = clock_s();
		faults += team_run(n, NULL, run_list, (void *)shape);
		fprintf(stderr, "# %s: %d ranks, %.1f s\n", shape->name, n, clock_s() - start);
	}
	return faults != 0;
}

static void run_shape(void **state)
{
	const struct shape *shape = *state;
	char number[16];
	snprintf(number, sizeof(number), "%d", (int)(shape - shapes));
	assert_int_equal(team_spawn(shape->environment, number), 0);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[SHAPES];
	if (argc > 1)
		return run_shape_here(&shapes[atoi(argv[1]) % SHAPES]);
	for (int i = 0; i < SHAPES; i++)
		tests[i] = (struct CMUnitTest){ shapes[i].name, run_shape, NULL, NULL,
						(void *)(uintptr_t)&shapes[i] };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
