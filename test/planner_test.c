/*
 * The planner: keys, CORALE_ALGO, reproducible and equal choices, messages that fit their slots; the cost model beside
 * the simulator; and machines of up to 16,384 ranks, where samples of ranks are compared with their peers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan_cases.h"
#include "plan_eval.h"
#include "sim.h"

static struct planner new_planner(const struct topo *topo)
{
	return (struct planner){ .topo = topo, .slot_bytes = 1 << 16, .slots = 4, .max_channels = 1 };
}

static void test_key(void **state)
{
	(void)state;
	static const struct {
		size_t count;
		int size_class;
	} cases[] = { { 0, 0 },
		      { 1, 2 },
		      { 2, 3 },
		      { 3, 4 },
		      { 1024, 12 },
		      { 1025, 13 },
		      { (size_t)1 << 31, 33 },
		      { ((size_t)1 << 31) + 1, 34 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct plan_key key =
		    planner_key(CORALE_ALL_REDUCE, cases[i].count, CORALE_FLOAT32, CORALE_SUM);
		assert_int_equal(key.size_class, cases[i].size_class);
	}
	struct plan_key a = planner_key(CORALE_ALL_REDUCE, 9, CORALE_FLOAT32, CORALE_NUM_OPS + 3);
	struct plan_key b = planner_key(CORALE_ALL_REDUCE, 10, CORALE_FLOAT32, CORALE_NUM_OPS);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void test_algo_grammar(void **state)
{
	(void)state;
	static const char *const good[] = { "",
					    "ring",
					    "^ring",
					    "hier",
					    "all_reduce:ring",
					    "allreduce:ring",
					    "AllReduce:ring",
					    "all_reduce:ring,broadcast:flat",
					    "all_reduce:^ring, oneshot" };
	static const char *const bad[] = { "rin",         "rings", "all_reduce:",  "all_reduce:pairwise",
					   "reduce:ring", "^",     "all_reduce:^", "ring,,flot",
					   ":ring_x" };
	char error[300];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (planner_check_algo(good[i], error, sizeof(error)))
			fail_msg("\"%s\": %s", good[i], error);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!planner_check_algo(bad[i], error, sizeof(error)))
			fail_msg("\"%s\" was accepted", bad[i]);
}

static void expect_choice(const struct topo *topo, const char *text, corale_coll coll, const char *name)
{
	int rows;
	struct planner planner = new_planner(topo);
	struct plan plan;
	char error[300];
	snprintf(planner.algo, sizeof(planner.algo), "%s", text);
	struct plan_key key = planner_key(coll, 100, CORALE_FLOAT32, CORALE_SUM);
	int ret = planner_plan(&planner, &key, &plan, error, sizeof(error));
	if (!name) {
		assert_int_equal(ret, CORALE_ENOTSUP);
		assert_non_null(strstr(error, text));
		return;
	}
	assert_int_equal(ret, 0);
	if (strncmp(algo_table(&rows)[plan.algo].name, name, strlen(name)))
		fail_msg("CORALE_ALGO=%s chose %s", text, algo_table(&rows)[plan.algo].name);
}

static void test_algo_choice(void **state)
{
	(void)state;
	struct topo *topo = cases_topo(8, SPLIT_THREES);
	expect_choice(topo, "ring", CORALE_ALL_REDUCE, "ring");
	expect_choice(topo, "ring", CORALE_ALL_GATHER, "ring");
	expect_choice(topo, "ring", CORALE_BARRIER, ""); /* it has none: anything goes */
	expect_choice(topo, "broadcast:flat", CORALE_BROADCAST, "flat");
	expect_choice(topo, "broadcast:scatter,all_reduce:ring", CORALE_BROADCAST, "scatter");
	expect_choice(topo, "hier", CORALE_ALL_REDUCE, "hier_");
	expect_choice(topo, "^oneshot,^twoshot,^ring,^hier", CORALE_ALL_REDUCE, "doubling");
	expect_choice(topo, "ce", CORALE_ALL_REDUCE, NULL); /* for one node only */
	expect_choice(topo, "all_gather:^oneshot,all_gather:^ring,all_gather:^hier", CORALE_ALL_GATHER, NULL);
	topo_destroy(topo);
}

/* With CORALE_REPRODUCIBLE every sum is one left fold in rank order, on any machine. */
static void test_reproducible(void **state)
{
	(void)state;
	for (int n = 2; n < 20; n += 3) {
		for (int split = 0; split < NUM_SPLITS; split++) {
			struct topo *topo = cases_topo(n, (enum plan_split)split);
			struct planner planner = new_planner(topo);
			planner.reproducible = planner.partials_float32 = 1;
			for (size_t count = 1; count < 100000; count *= 10) {
				for (int coll = CORALE_ALL_REDUCE; coll <= CORALE_REDUCE_SCATTER; coll += 2) {
					struct plan plan;
					struct check_options options = { .count = 23, .chunk = 2, .unit = 1 };
					struct check_report report;
					char error[512];
					struct plan_key key =
					    planner_key((corale_coll)coll, count, CORALE_FLOAT16, CORALE_SUM);
					assert_int_equal(
					    planner_plan(&planner, &key, &plan, error, sizeof(error)), 0);
					assert_int_equal(plan.wire_type, CORALE_FLOAT16);
					assert_int_equal(
					    check_plan(&plan, &topo->map, &options, &report, error, 512), 0);
					assert_int_equal(report.in_rank_order, 1);
				}
			}
			topo_destroy(topo);
		}
	}
}

/* No message is larger than a slot, whatever the algorithm, type and size. */
static void test_messages_fit(void **state)
{
	(void)state;
	int rows;
	algo_table(&rows);
	struct topo *topos[] = { cases_topo(4, SPLIT_ONE_NODE), cases_topo(11, SPLIT_UNEVEN) };
	for (int i = 0; i < 2 * rows * 2; i++) {
		struct planner planner = new_planner(topos[i % 2]);
		planner.partials_float32 = i / 2 / rows;
		planner.slot_bytes = i % 3 ? 5000 : 1 << 14;
		planner.max_channels = 3;
		for (size_t count = 5; count < 3000000; count *= 9) {
			struct plan plan;
			struct plan_env env;
			int row = i / 2 % rows;
			struct plan_key key =
			    planner_key(algo_table(&rows)[row].coll, count, CORALE_BFLOAT16, CORALE_SUM);
			if (planner_build(&planner, &key, row, &plan))
				continue;
			plan_env_init(&env, &plan, &planner.topo->map, planner.topo->map.ranks - 1, 0, count);
			for (int p = 0; p < plan.nprograms; p++) {
				struct plan_cursor cursor;
				struct plan_action a;
				plan_cursor_start(&cursor, &plan, p);
				while (plan_cursor_next(&cursor, &plan, &env, &a)) {
					int wire = a.flags & (PLAN_TO_WIRE | PLAN_FROM_WIRE) ? plan.wire_type
											     : plan.key.type;
					if (a.op == PLAN_MOVE && (a.from != PLAN_NONE || a.to != PLAN_NONE))
						assert_true(a.count * corale_type_bytes((corale_type)wire) <=
							    planner.slot_bytes);
				}
			}
		}
	}
	topo_destroy(topos[0]);
	topo_destroy(topos[1]);
}

/* Equal inputs, equal plans, to the last byte: ranks plan each for itself. */
static void test_deterministic(void **state)
{
	(void)state;
	struct topo *topos[] = { cases_topo(11, SPLIT_UNEVEN), cases_topo(11, SPLIT_UNEVEN) };
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++) {
		for (size_t count = 1; count < 1u << 28; count *= 16) {
			struct plan plans[2];
			char error[200];
			struct plan_key key = planner_key((corale_coll)coll, count, CORALE_INT32, CORALE_MAX);
			for (int i = 0; i < 2; i++) {
				struct planner planner = new_planner(topos[i]);
				memset(&plans[i], i, sizeof(plans[i]));
				assert_int_equal(
				    planner_plan(&planner, &key, &plans[i], error, sizeof(error)), 0);
			}
			assert_memory_equal(&plans[0], &plans[1], sizeof(plans[0]));
		}
	}
	topo_destroy(topos[0]);
	topo_destroy(topos[1]);
}

/* The model is within a factor of three of the simulation, which never beats the lower bound. */
static void test_cost(void **state)
{
	(void)state;
	static const char *const machines[] = { "rank:4", "node:2 rank:2", "node:4 gpu:8 nvlink:390 rail:50",
						"node:[8,8,4,3] nvlink:390 rail:50", "node:9 rail:2" };
	int rows;
	const struct algo *algo = algo_table(&rows);
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		struct topo *topo;
		char error[200];
		assert_int_equal(topo_parse(machines[i], &topo, error, sizeof(error)), 0);
		struct planner planner = new_planner(topo);
		planner.slot_bytes = 1 << 18;
		for (size_t bytes = 8; bytes < 1 << 25; bytes *= 64) {
			for (int row = 0; row < rows; row++) {
				struct plan plan;
				struct sim_result result;
				struct sim_options options = { .count = bytes / 4 };
				struct plan_key key =
				    planner_key(algo[row].coll, bytes / 4, CORALE_FLOAT32, CORALE_SUM);
				if (algo[row].coll == CORALE_SEND || algo[row].coll == CORALE_RECV ||
				    planner_build(&planner, &key, row, &plan))
					continue;
				assert_int_equal(sim_run(topo, &plan, &options, &result), 0);
				double model = cost_of_plan(topo, &plan, bytes / 4);
				double bound = cost_lower_bound(topo, algo[row].coll, bytes);
				if (model > 3 * result.ns || model < result.ns / 3 ||
				    result.ns < bound * 0.999)
					fail_msg("%s, %s by %s, %zu bytes: model %.0f, simulated %.0f, bound "
						 "%.0f ns",
						 machines[i], corale_coll_name(algo[row].coll),
						 algo[row].name, bytes, model, result.ns, bound);
				sim_result_free(&result);
			}
		}
		topo_destroy(topo);
	}
}

static void test_sim_finds_deadlock(void **state)
{
	(void)state;
	struct plan_case c = { .topo = cases_topo(5, SPLIT_ONE_NODE), .count = 100, .channels = 1 };
	struct plan plan;
	struct sim_result result;
	struct sim_options options = { .count = 100 };
	int rows;
	while (strcmp(algo_table(&rows)[c.row].name, "ring"))
		c.row++;
	assert_true(cases_build(&c, &plan));
	assert_int_equal(sim_run(c.topo, &plan, &options, &result), 0);
	sim_result_free(&result);
	plan.rings[0].depth = 1;
	assert_int_equal(sim_run(c.topo, &plan, &options, &result), CORALE_EINTERNAL);
	topo_destroy((struct topo *)c.topo);
}

/* ---- Many ranks ---------------------------------------------------------------- */

/* What a rank sends to, or expects from, one peer on one ring: a number for the whole list, and its length. */
struct traffic {
	long messages;
	uint64_t hash;
};

/* Where in the result the elements of a message belong, where both ends know that. */
static size_t position(const struct plan *plan, const struct plan_env *env, const struct plan_action *a)
{
	int coll = plan->key.coll;
	if (a->op != PLAN_MOVE ||
	    (coll != CORALE_ALL_REDUCE && coll != CORALE_BROADCAST && coll != CORALE_ALL_GATHER))
		return 0;
	const struct plan_place *place = a->dst.space ? &a->dst : &a->src;
	int own = coll == CORALE_ALL_GATHER && place->space == PLAN_SEND;
	return place->offset + (own ? (size_t)env->rank * env->count : 0);
}

static void add_message(struct traffic *t, const struct plan_action *a, int wire, size_t at)
{
	uint64_t payload = a->op == PLAN_MOVE ? 2 * (uint64_t)a->count + 2 + !!(a->flags & wire) : 1;
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
				add_message(&out[a.to_ring], &a, PLAN_TO_WIRE, position(plan, &env, &a));
			if (a.from != PLAN_NONE && is_meant(topo, rank, a.from, other, a.from_group, a.rail))
				add_message(&in[a.from_ring], &a, PLAN_FROM_WIRE, position(plan, &env, &a));
		}
	}
}

/* What a sends to b is what b expects of a, message by message, and the other way round. */
static void compare_pair(const struct topo *topo, const struct plan *plan, size_t count, int root, int a,
			 int b)
{
	struct traffic out[2][PLAN_MAX_RINGS] = { 0 }, in[2][PLAN_MAX_RINGS] = { 0 };
	int rows;
	walk(topo, plan, count, root, a, b, out[0], in[0]);
	walk(topo, plan, count, root, b, a, out[1], in[1]);
	for (int ring = 0; ring < plan->nrings; ring++)
		if (memcmp(&out[0][ring], &in[1][ring], sizeof(struct traffic)) ||
		    memcmp(&out[1][ring], &in[0][ring], sizeof(struct traffic)))
			fail_msg("%s by %s on %d ranks: ranks %d and %d disagree on ring %d: %ld sent, %ld "
				 "expected; %ld "
				 "sent, %ld expected",
				 corale_coll_name((corale_coll)plan->key.coll),
				 algo_table(&rows)[plan->algo].name, topo->map.ranks, a, b, ring,
				 out[0][ring].messages, in[1][ring].messages, out[1][ring].messages,
				 in[0][ring].messages);
}

/* Peers of a rank that are worth a look: neighbours, its node, its rail, the doubling partners, somebody far away. */
static void compare_rank(const struct topo *topo, const struct plan *plan, size_t count, int root, int rank)
{
	int n = topo->map.ranks, size = topo->map.max_node_size;
	int peers[] = { rank + 1, rank + n - 1, rank + size,      rank + n - size,
			rank ^ 1, rank ^ 64,    rank + n / 2 + 3, root };
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
		if (peers[i] % n != rank)
			compare_pair(topo, plan, count, root, rank, peers[i] % n);
}

/* Every element of the result is written by the rank: by final folds or by messages that carry results. */
static void check_cover(const struct topo *topo, const struct plan *plan, size_t count, int root, int rank)
{
	int coll = plan->key.coll, all = coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL, reduces = 0;
	size_t n = (size_t)topo->map.ranks * (all ? count : 1), written = 0;
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action a;
	if (coll == CORALE_BARRIER || coll == CORALE_SEND || coll == CORALE_RECV ||
	    coll == CORALE_ALL_TO_ALL_V)
		return;
	n = all ? n : count;
	unsigned char *hits = calloc(n + 1, 1);
	assert_non_null(hits);
	reduces = coll == CORALE_ALL_REDUCE || coll == CORALE_REDUCE_SCATTER;
	plan_env_init(&env, plan, &topo->map, rank, root, count);
	for (int p = 0; p < plan->nprograms; p++) {
		plan_cursor_start(&cursor, plan, p);
		while (plan_cursor_next(&cursor, plan, &env, &a)) {
			int partial = reduces && !(a.flags & PLAN_FINAL) &&
				      (a.flags & PLAN_REDUCE || a.from == PLAN_NONE);
			for (size_t i = 0; a.dst.space == PLAN_RECV && !partial && i < a.count;
			     i++, written++)
				hits[a.dst.offset + i]++;
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
	assert_int_equal(topo_parse(machine, &topo, error, sizeof(error)), 0);
	int n = topo->map.ranks, ranks[] = { 0, n / 3, n - 1 };
	struct planner planner = new_planner(topo);
	const struct algo *algo = algo_table(&rows);
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
	}
	topo_destroy(topo);
}

static void test_many_ranks(void **state)
{
	(void)state;
	spot_check("node:12 gpu:8", 1001);
	spot_check("node:[16,8,3,16,1,7] rail:10", 5003);
	spot_check("node:64 gpu:8", 9001);
	spot_check("node:1024 rail:1", 3001);
	spot_check("node:2048 gpu:8", 101);
}

/* Whole machines of a few hundred ranks through the checker, with as little data as shows the structure. */
static void test_hundreds(void **state)
{
	(void)state;
	int rows;
	algo_table(&rows);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key),          cmocka_unit_test(test_algo_grammar),
		cmocka_unit_test(test_algo_choice),  cmocka_unit_test(test_reproducible),
		cmocka_unit_test(test_messages_fit), cmocka_unit_test(test_deterministic),
		cmocka_unit_test(test_cost),         cmocka_unit_test(test_sim_finds_deadlock),
		cmocka_unit_test(test_many_ranks),   cmocka_unit_test(test_hundreds),
	};
	return cmocka_run_group_tests_name("planner", tests, NULL, NULL);
}
