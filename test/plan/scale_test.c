/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Up to 16,384 ranks, where the whole machine is too much to run: what samples of ranks send is what their peers
 * expect, message by message, and what they write is the whole result. And a few hundred ranks through the checker.
 */
#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "test/helpers/plan_cases.h"
#include "plan/plan_eval.h"

/* What a rank sends to, or expects from, one peer on one ring: a number for the whole list, and its length. */
struct traffic {
	long messages;
	uint64_t hash;
};

/* Where in the result the elements of a message belong, where both ends know that. */
static size_t position(const struct plan *plan, const struct plan_env *env, const struct plan_action *a)
{
	int coll = plan->key.coll;
	if (coll == CORALE_ALL_REDUCE &&
	    plan->spans) /* cells have whole vectors, of other ranks at each end */
		return 0;
	if (a->op != PLAN_MOVE ||
	    (coll != CORALE_ALL_REDUCE && coll != CORALE_BROADCAST && coll != CORALE_ALL_GATHER))
		return 0;
	const struct plan_location *place = a->dst.space ? &a->dst : &a->src;
	int own = coll == CORALE_ALL_GATHER && place->space == PLAN_SEND;
	return place->offset + (own ? (size_t)env->rank * env->count : 0);
}

static void add_message(struct traffic *t, const struct plan_action *a, size_t at)
{
	uint64_t payload = a->op == PLAN_MOVE ? (uint64_t)a->count + 2 : 1;
	t->messages++;
	t->hash = (t->hash ^ payload ^ (uint64_t)at << 32) * 0x9e3779b97f4a7c15u;
	t->hash ^= t->hash >> 31;
}

static int is_meant(const struct topo *topo, int me, int peer, int other, int group, int rail)
{
	if (peer != PLAN_ALL)
		return peer == other;
	int index = plan_group_index(&topo->map, group, other);
	return me != other && index < plan_group_size(&topo->map, group, me) &&
	       plan_group_member(&topo->map, group, me, rail, index) == other;
}

/* Walks all programs of a rank; *out: what it sends to other on each ring, *in: what it receives; a WAIT takes anything. */
static void walk(const struct topo *topo, const struct plan *plan, size_t count, int root, int rank,
		 int other, struct traffic *out, struct traffic *in)
{
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action a;
	plan_env_init(&env, plan, &topo->map, rank, root, count);
	for (int p = 0; p < plan->nprograms; p++) {
		plan_cursor_start(&cursor, plan, p);
		while (plan_cursor_next(&cursor, plan, &env, &a)) {
			if (a.to != PLAN_NONE && is_meant(topo, rank, a.to, other, a.to_group, a.rail))
				add_message(&out[a.to_queue], &a, position(plan, &env, &a));
			if (a.from != PLAN_NONE && is_meant(topo, rank, a.from, other, a.from_group, a.rail))
				add_message(&in[a.from_queue], &a, position(plan, &env, &a));
		}
	}
}

/* What a sends to b is what b expects of a, message by message, and the other way round. */
static void compare_pair(const struct topo *topo, const struct plan *plan, size_t count, int root, int a,
			 int b)
{
	struct traffic out[2][PLAN_MAX_QUEUES] = { 0 }, in[2][PLAN_MAX_QUEUES] = { 0 };
	int rows;
	walk(topo, plan, count, root, a, b, out[0], in[0]);
	walk(topo, plan, count, root, b, a, out[1], in[1]);
	for (int ring = 0; ring < plan->nqueues; ring++)
		if (memcmp(&out[0][ring], &in[1][ring], sizeof(struct traffic)) ||
		    memcmp(&out[1][ring], &in[0][ring], sizeof(struct traffic)))
			fail_msg("%s by %s on %d ranks: ranks %d and %d disagree on queue %d: %ld sent, %ld "
				 "expected; %ld "
				 "sent, %ld expected",
				 corale_coll_name((corale_coll)plan->key.coll),
				 row_table(&rows)[plan->algo].name, topo->map.ranks, a, b, ring,
				 out[0][ring].messages, in[1][ring].messages, out[1][ring].messages,
				 in[0][ring].messages);
}

/* Peers of a rank that are worth a look: neighbours, its node, its rail, the doubling partners, somebody far away. */
static void compare_rank(const struct topo *topo, const struct plan *plan, size_t count, int root, int rank)
{
	int n = topo->map.ranks, size = topo->map.max_node_size;
	int position = (rank + n - root) % n, parent = plan_tree(PLAN_TREE_PARENT, n, position, 0);
	int peers[] = { rank + 1,         rank + n - 1, rank + size,
			rank + n - size,  rank ^ 1,     rank ^ 64,
			rank + n / 2 + 3, root,         parent < 0 ? rank + 8 : parent + root };
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
		if (peers[i] % n != rank)
			compare_pair(topo, plan, count, root, rank, peers[i] % n);
}

/* Every element of the result is written by the rank: by final folds or by messages that carry results. */
static void check_cover(const struct topo *topo, const struct plan *plan, size_t count, int root, int rank)
{
	int coll = plan->key.coll, reduces = 0;
	int all = coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL || coll == CORALE_GATHER ||
		  coll == CORALE_ALL_GATHER_V || coll == CORALE_GATHER_V;
	int nothing =
	    (coll == CORALE_REDUCE || coll == CORALE_GATHER || coll == CORALE_GATHER_V) && rank != root;
	size_t n = (size_t)topo->map.ranks * (all ? count : 1), written = 0;
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action a;
	if (coll == CORALE_BARRIER || coll == CORALE_SEND || coll == CORALE_RECV ||
	    coll == CORALE_ALL_TO_ALL_V)
		return;
	n = nothing ? 0 : all ? n : count;
	unsigned char *hits = calloc(n + 1, 1);
	assert_non_null(hits);
	reduces = coll == CORALE_ALL_REDUCE || coll == CORALE_REDUCE_SCATTER || coll == CORALE_REDUCE ||
		  coll == CORALE_REDUCE_SCATTER_V;
	plan_env_init(&env, plan, &topo->map, rank, root, count);
	for (int p = 0; p < plan->nprograms; p++) {
		plan_cursor_start(&cursor, plan, p);
		while (plan_cursor_next(&cursor, plan, &env, &a)) {
			int partial = reduces && !(a.flags & PLAN_FINAL) &&
				      (a.flags & PLAN_REDUCE || a.from == PLAN_NONE);
			for (size_t i = 0, at; a.dst.space == PLAN_RECV && !partial && i < a.count;
			     i++, written++) {
				plan_span_run(&env, &a, &a.dst, i, &at);
				hits[at]++;
			}
		}
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(hits[i], 1);
	assert_int_equal(written, n);
	free(hits);
}

static void spot_check(const char *machine, size_t count)
{
	struct topo *topo;
	char error[200];
	int rows;
	assert_int_equal(machine_parse(machine, &topo, error, sizeof(error)), 0);
	int n = topo->map.ranks, ranks[] = { 0, n / 3, n - 1 };
	struct planner planner = { .topo = topo, .slot_bytes = 1 << 16, .slots = 4, .max_channels = 1 };
	const struct row *algo = row_table(&rows);
	for (int row = 0; row < rows; row++) {
		struct plan plan;
		struct plan_key key = planner_key(algo[row].coll, count, CORALE_FLOAT32, CORALE_SUM);
		if (algo[row].coll == CORALE_SEND || algo[row].coll == CORALE_RECV ||
		    planner_build(&planner, &key, row, &plan))
			continue;
		for (int i = 0; i < 3; i++) {
			compare_rank(topo, &plan, count, n / 2 + 1, ranks[i]);
			check_cover(topo, &plan, count, n / 2 + 1, ranks[i]);
		}
		compare_rank(topo, &plan, count, n / 2 + 1, n / 2 + 1);
		check_cover(topo, &plan, count, n / 2 + 1, n / 2 + 1);
	}
	topo_destroy(topo);
}

UNIT_TEST(test_many_ranks)
{
	spot_check("node:12 gpu:8", 1001);
	spot_check("node:[16,8,3,16,1,7] rail:10", 5003);
	spot_check("node:64 gpu:8", 9001);
	spot_check("node:1024 rail:1", 3001);
	spot_check("node:2048 gpu:8", 101);
	spot_check("node:2048 rank:1", 3);
}

/* Whole machines of a few hundred ranks through the checker, with as little data as shows the structure. */
UNIT_TEST(test_hundreds)
{
	int rows;
	row_table(&rows);
	struct topo *topo = cases_topo(131, SPLIT_EIGHTS);
	for (int row = 0; row < rows; row++) {
		struct plan_case c = { .topo = topo,
				       .row = row,
				       .count = 3,
				       .chunk = 2,
				       .channels = 1,
				       .calls = 1,
				       .root = 77 };
		cases_run(&c, NULL);
	}
	topo_destroy(topo);
}
