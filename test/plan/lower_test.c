/* SPDX-License-Identifier: BSD-3-Clause */
/* Lowered plans, expanded, are the cursor's actions: every row of the algorithm table, machine, rank, root and channel. */
#include <limits.h>

#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "examples/plans/plan_print.h"
#include "plan/lower.h"
#include "test/helpers/lowered_walk.h"
#include "base/collectives.h"
#include "test/helpers/plan_cases.h"
#include "test/helpers/row_find.h"

enum { MOST_RANKS = 1024 };

/* Walks one program of a list as an engine does. */
struct walk {
	struct lowered_walk at;
	int again, turn, turns;
	struct lowered_op op; /* as it is in this turn */
};

/* Goes past what begins or ends a REPEAT; 0: it is an operation. */
static int turn(struct walk *w, const struct lowered_op *o)
{
	if (o->op == LOWERED_REPEAT) {
		assert_int_equal(w->turns, 0);
		w->turns = o->times;
		w->again = w->at.pc;
		return 1;
	}
	if (o->op != LOWERED_AGAIN)
		return 0;
	assert_int_equal(o->body, w->at.pc - 1 - w->again);
	if (++w->turn < w->turns)
		w->at.pc = w->again;
	else
		w->turn = w->turns = 0;
	return 1;
}

/* The next operation that is not skipped, with its spans; 0 at the end. */
static int next(struct walk *w, const struct lowered_op **op, size_t *src, size_t *dst, size_t *count)
{
	for (const struct lowered_op *o; (o = lowered_walk_next(&w->at));) {
		if (turn(w, o))
			continue;
		struct lowered_slice from, to;
		w->op = *o;
		if (w->turn) /* else it may be of several blocks, which don't step */
			lowered_step(w->at.call, &w->op, w->turn);
		o = &w->op;
		lowered_cut(w->at.call, &o->src, w->at.channel, &from);
		lowered_cut(w->at.call, &o->dst, w->at.channel, &to);
		ptrdiff_t in = lowered_piece(w->at.call, &o->src, &from, w->at.trip, src);
		ptrdiff_t out = lowered_piece(w->at.call, &o->dst, &to, w->at.trip, dst);
		*count = (size_t)(o->src.space ? in : out) * (size_t)lowered_blocks(o);
		*op = o;
		if (in >= 0 && out >= 0)
			return 1;
	}
	return 0;
}

/* The ranks that an action names, as lists hold them. */
static int members(const struct plan_env *env, int who, int group, int rail, int own, int16_t *ranks)
{
	int size = who == PLAN_ALL ? plan_group_size(&env->map, group, env->rank) : who != PLAN_NONE, n = 0;
	for (int i = 0; i < size; i++) {
		int rank = who == PLAN_ALL ? plan_group_member(&env->map, group, env->rank, rail, i) : who;
		if (who != PLAN_ALL || own || rank != env->rank)
			ranks[n++] = (int16_t)rank;
	}
	return n;
}

static void expect_peers(const struct lowered *list, int first, int count, const int16_t *ranks, int n)
{
	assert_int_equal(count, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(list->peers[first + i].rank, ranks[i]);
}

/* Where blocks lie together is what an action says, run by run. */
static void expect_runs(const struct plan_env *env, const struct plan_action *a,
			const struct plan_location *place, const struct lowered_call *c,
			const struct lowered_op *o, const struct lowered_span *span, size_t first)
{
	for (size_t done = 0, n; (o->flags & LOWERED_BLOCKS) && place->space && done < a->count; done += n) {
		size_t at;
		int block;
		n = plan_span_run(env, a, place, done, &at);
		if (!n)
			return;
		assert_int_equal(
		    (size_t)lowered_together(c, o, span, (int)(done / env->count), &block) * env->count, n);
		assert_int_equal(first + (size_t)block * env->count, at + (size_t)span->block * env->count);
	}
}

static void expect_same(const struct plan_env *env, const struct lowered_call *call,
			const struct plan_action *a, const struct lowered *list, const struct lowered_op *o,
			size_t src, size_t dst, size_t count)
{
	int16_t ranks[MOST_RANKS];
	assert_int_equal(a->op, o->op);
	assert_int_equal(a->flags & ~PLAN_BACK, o->flags & ~(LOWERED_ALL | LOWERED_BLOCKS));
	assert_int_equal(a->from == PLAN_ALL, (o->flags & LOWERED_ALL) != 0);
	assert_int_equal(a->from_queue, o->from_queue);
	assert_int_equal(a->to_queue, o->to_queue);
	expect_peers(list, o->from_first, o->from_count, ranks,
		     members(env, a->from, a->from_group, a->rail, 1, ranks));
	expect_peers(list, o->to_first, o->to_count, ranks,
		     members(env, a->to, a->to_group, a->rail, 0, ranks));
	assert_int_equal(a->src.space, o->src.space);
	assert_int_equal(a->dst.space, o->dst.space);
	assert_int_equal(a->count, count);
	if (a->src.space)
		assert_int_equal(a->src.offset, src);
	if (a->dst.space)
		assert_int_equal(a->dst.offset, dst);
	expect_runs(env, a, &a->src, call, o, &o->src, src);
	expect_runs(env, a, &a->dst, call, o, &o->dst, dst);
}

/* A message fits into the slots that are cut for the call. */
static void expect_room(const struct plan *plan, const struct lowered_call *call, const struct plan_action *a)
{
	struct lowered_room room;
	if (call->send_counts || (a->from == PLAN_NONE && a->to == PLAN_NONE))
		return;
	lowered_room_init(&room, plan, call);
	assert_in_range(a->count * corale_type_bytes((corale_type)plan->key.type), 0, room.message);
}

static void compare_program(const struct plan *plan, struct plan_env *env, const struct lowered *list, int p,
			    int channel)
{
	struct lowered_call call;
	struct plan_cursor cursor;
	struct plan_action action;
	const struct lowered_op *op;
	size_t src, dst, count;
	env->channel = channel;
	lowered_call_init(&call, plan, env);
	struct walk w = { .at = { .list = list,
				  .call = &call,
				  .pc = list->first[p],
				  .end = list->first[p + 1],
				  .channel = channel } };
	plan_cursor_start(&cursor, plan, p);
	while (plan_cursor_next(&cursor, plan, env, &action)) {
		assert_true(next(&w, &op, &src, &dst, &count));
		expect_same(env, &call, &action, list, op, src, dst, count);
		expect_room(plan, &call, &action);
	}
	assert_false(next(&w, &op, &src, &dst, &count));
}

/* Counts of an all_to_all_v, by peer, for one rank; displacements too. */
static void set_edges(struct plan_env *env, const struct plan *plan, size_t count, size_t v[4][MOST_RANKS])
{
	for (int r = 0; r < env->map.ranks; r++) {
		v[0][r] = (size_t)(env->rank * 5 + r * 3) % (count + 2);
		v[1][r] = (size_t)r * (count + 3);
		v[2][r] = (size_t)(r * 5 + env->rank * 3) % (count + 2);
		v[3][r] = (size_t)r * (count + 5);
	}
	const size_t *const arrays[4] = { v[0], v[1], v[2], v[3] };
	plan_env_uneven(env, plan, arrays, v[0][env->rank]);
}

static void compare_list(const struct plan_case *c, const struct plan *plan, int rank,
			 const struct lowered *list)
{
	static size_t v[4][MOST_RANKS];
	struct plan_env env;
	plan_env_init(&env, plan, &c->topo->map, rank, c->root, c->count);
	env.chunk = c->chunk;
	env.unit = 1;
	env.chunks = plan_chunks(plan, &env, c->count);
	if (plan->key.coll == CORALE_ALL_TO_ALL_V)
		set_edges(&env, plan, c->count, v);
	for (int p = 0; p < plan->nprograms; p++)
		for (int channel = 0; channel < plan->channels; channel++)
			compare_program(plan, &env, list, p, channel);
}

/* 1 if the plan can be lowered; then all its programs and channels are compared, of lists with and without REPEATs. */
static int compare_rank(const struct plan_case *c, const struct plan *plan, int rank)
{
	struct lowered list, rolled;
	const char *why;
	int ret = lower_plan(plan, &c->topo->map, rank, c->root, &list, &why);
	assert_int_equal(lower_plan_rolled(plan, &c->topo->map, rank, c->root, &rolled, &why), ret);
	if (ret == CORALE_ENOTSUP)
		return 0;
	assert_int_equal(ret, 0);
	compare_list(c, plan, rank, &list);
	compare_list(c, plan, rank, &rolled);
	lowered_free(&list);
	lowered_free(&rolled);
	return 1;
}

static int folds_cells(const struct plan *plan)
{
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].cells)
			return 1;
	return 0;
}

static void compare_case(const struct plan_case *c)
{
	int rows, n = c->topo->map.ranks;
	struct plan plan;
	if (!cases_build(c, &plan))
		return;
	/* What is of no use to GPUs can't be lowered: programs that test a chunk's number, folds of cells. v-forms have the plans of even calls. */
	const int lowers = !folds_cells(&plan) && (plan.spans || coll_is_uneven(plan.key.coll) ||
						   !(row_table(&rows)[c->row].traits & ROW_ON_HOSTS));
	for (int rank = 0; rank<n; rank += n> 16 ? 5 : 1)
		assert_int_equal(compare_rank(c, &plan, rank), lowers);
}

static void compare_machine(int n, int split)
{
	static const size_t counts[] = { 0, 1, 5, 64 };
	int rows;
	struct topo *topo = cases_topo(n, (enum plan_split)split);
	row_table(&rows);
	for (int row = 0; row < rows; row++)
		for (int i = 0; i < 4; i++)
			for (int channels = 1; channels <= 3; channels++) {
				struct plan_case c = { .topo = topo,
						       .row = row,
						       .count = counts[i],
						       .chunk = 3,
						       .channels = channels,
						       .small_slots = i == 3,
						       .root = (row * 7 + i) % n };
				compare_case(&c);
			}
	topo_destroy(topo);
}

UNIT_TEST(few_ranks)
{
	for (int n = 1; n <= 12; n++)
		for (int split = 0; split < NUM_SPLITS; split++)
			compare_machine(n, split);
}

UNIT_TEST(many_ranks)
{
	for (int n = 13; n <= 64; n += 17)
		for (int split = 0; split < NUM_SPLITS; split++)
			compare_machine(n, split);
}

/* Of a thousand ranks some, and how long their lists are, but where nearly each rank has a part of the vector. An all_to_all_v goes edge by edge between nodes. */
static void compare_thousand(const char *machine, int longest)
{
	struct topo *topo;
	char error[200];
	int rows;
	const struct row *table = row_table(&rows);
	assert_int_equal(machine_parse(machine, &topo, error, sizeof error), 0);
	const int n = topo->map.ranks, ranks[] = { 0, n / 3, n / 2 + 1, n - 1 };
	for (int row = 0; row < rows; row++) {
		struct plan_case c = {
			.topo = topo, .row = row, .count = 5, .chunk = 3, .channels = 1, .root = n / 3
		};
		struct plan plan;
		if (table[row].traits & ROW_ON_HOSTS || table[row].coll == CORALE_ALL_TO_ALL_V ||
		    !cases_build(&c, &plan))
			continue;
		for (int i = 0; i < 4; i++) {
			struct lowered list;
			const char *why;
			assert_int_equal(lower_plan_rolled(&plan, &topo->map, ranks[i], c.root, &list, &why),
					 0);
			compare_list(&c, &plan, ranks[i], &list);
			for (int p = 0; p < list.nprograms; p++)
				assert_in_range(list.first[p + 1] - list.first[p], 0,
						plan.parts <= topo->map.max_node_size ? longest : INT_MAX);
			lowered_free(&list);
		}
	}
	topo_destroy(topo);
}

UNIT_TEST(a_thousand_ranks)
{
	compare_thousand("node:1024", 64);
	compare_thousand("node:128 gpu:8", 64);
	compare_thousand("node:64 gpu:16", 64);
}

/* What a list costs on 8 GPUs. */
UNIT_TEST(lists_are_short)
{
	int rows;
	struct topo *topo = cases_topo(8, SPLIT_ONE_NODE);
	row_table(&rows);
	for (int row = 0; row < rows; row++) {
		struct plan_case c = { .topo = topo, .row = row, .count = 64, .chunk = 3, .channels = 1 };
		struct plan plan;
		struct lowered list;
		const char *why;
		if (!cases_build(&c, &plan) || lower_plan(&plan, &topo->map, 3, 0, &list, &why))
			continue;
		assert_true(list.nops <= 64);
		lowered_free(&list);
	}
	topo_destroy(topo);
}

/* What an exchange sends goes ahead of what it waits for; what is passed on, or goes to a rank that is near, does not. */
UNIT_TEST(sends_go_ahead)
{
	static const struct {
		const char *name;
		int ahead;
	} rows[] = { { "oneshot", 1 }, { "twoshot", 1 }, { "ring", 0 } };
	int n;
	const struct row *table = row_table(&n);
	struct topo *topo = cases_topo(4, SPLIT_ONE_NODE);
	for (int row = 0; row < n; row++)
		for (size_t i = 0; table[row].coll == CORALE_ALL_REDUCE && i < sizeof rows / sizeof *rows;
		     i++) {
			struct plan_case c = {
				.topo = topo, .row = row, .count = 64, .chunk = 3, .channels = 1
			};
			struct plan plan;
			struct lowered list;
			const char *why;
			if (strcmp(table[row].name, rows[i].name) || !cases_build(&c, &plan))
				continue;
			assert_int_equal(lower_plan(&plan, &topo->map, 0, 0, &list, &why), 0);
			lower_ahead(&list, 1, 3);
			int ahead = 0, loops = 0;
			for (int k = 0; k < list.nops; k++) {
				loops += list.ops[k].op == PLAN_LOOP && list.ops[k].ahead == 3;
				ahead += list.ops[k].op != PLAN_LOOP && list.ops[k].ahead;
				assert_true(!list.ops[k].ahead || !list.ops[k].from_count);
			}
			assert_int_equal(loops, rows[i].ahead);
			assert_int_equal(ahead > 0, rows[i].ahead);
			lowered_free(&list);
		}
	topo_destroy(topo);
}

/* ---- A plan of another radix ------------------------------------------------------------------------------- */

static uint8_t of_digit(struct plan *plan, enum plan_base base, int round, int stride, int digit)
{
	return plan_expr(plan, (struct plan_expr){ .base = (uint8_t)base,
						   .var = (uint8_t)round,
						   .stride = (int8_t)stride,
						   .radix = 4,
						   .digit = (uint8_t)digit });
}

/* Bruck's all_gather of radix 4: in a round three messages each way, and a rank has four times as many blocks. */
static void build_radix_4(struct plan *plan)
{
	const struct plan_key key = planner_key(CORALE_ALL_GATHER, 64, CORALE_FLOAT32, CORALE_SUM);
	plan_init(plan, &key);
	plan->chunk_bytes = 1 << 16;
	const uint8_t ring = plan_queue(plan, PLAN_CREDIT, 4), me = plan_shift(plan, PLAN_WORLD, 0, 0, 0);
	plan_program(plan, PLAN_SM);
	plan_step(plan, (struct plan_step){
			    .op = PLAN_MOVE, .src = { PLAN_SEND }, .dst = { PLAN_RECV, .block = me } });
	const int round = plan_loop(plan, plan_rounds(plan, PLAN_WORLD, 4, 0));
	for (int digit = 1; digit < 4; digit++)
		plan_step(plan,
			  (struct plan_step){ .op = PLAN_MOVE,
					      .flags = PLAN_STABLE,
					      .blocks = of_digit(plan, PLAN_BRUCK_BLOCKS, round, 0, digit),
					      .src = { PLAN_RECV, .block = me },
					      .to = of_digit(plan, PLAN_BRUCK_PEER, round, -1, digit),
					      .to_queue = ring });
	for (int digit = 1; digit < 4; digit++) {
		const uint8_t behind = of_digit(plan, PLAN_BRUCK_PEER, round, 1, digit);
		plan_step(plan,
			  (struct plan_step){ .op = PLAN_MOVE,
					      .flags = PLAN_FRESH,
					      .blocks = of_digit(plan, PLAN_BRUCK_BLOCKS, round, 0, digit),
					      .dst = { PLAN_RECV, .block = behind },
					      .from = behind,
					      .from_queue = ring });
	}
	plan_end(plan);
	assert_int_equal(plan_finish(plan), 0);
}

UNIT_TEST(radix_4_is_right)
{
	struct check_report report;
	char error[512];
	for (int n = 2; n <= 40; n++) {
		struct topo *topo = cases_topo(n, n % 2 ? SPLIT_SINGLES : SPLIT_THREES);
		struct plan_case c = { .topo = topo, .count = 5, .chunk = 5, .channels = 1, .calls = 2 };
		struct plan plan;
		build_radix_4(&plan);
		if (cases_check(&c, &plan, &report, error, sizeof error))
			fail_msg("%d ranks: %s", n, error);
		for (int rank = 0; rank < n; rank++)
			assert_int_equal(compare_rank(&c, &plan, rank), 1);
		topo_destroy(topo);
	}
}

/* Half as many rounds as of radix 2, of three messages each way: so many latencies, and the work of all messages. */
UNIT_TEST(radix_4_has_few_rounds)
{
	struct topo *topo;
	struct plan radix_4, radix_2;
	char error[200], text[4096];
	assert_int_equal(
	    machine_parse("node:64 rail_us:20 rail_send_us:0.5 rail_recv_us:0.5", &topo, error, sizeof error),
	    0);
	const struct plan_case c = { .topo = topo, .row = row_find(CORALE_ALL_GATHER, "bruck"), .count = 2 };
	assert_true(cases_build(&c, &radix_2));
	build_radix_4(&radix_4);
	plan_print(&radix_4, text, sizeof text);
	assert_non_null(strstr(text, "rank me-2*4^i (queue 0)"));
	const double latency = topo->rail.latency_ns, message = topo->rail.send_ns + topo->rail.recv_ns,
		     steps = 3 * 6 * topo->step_ns, cost_4 = cost_of_plan(topo, &radix_4, 2),
		     cost_2 = cost_of_plan(topo, &radix_2, 2);
	assert_true(cost_2 > 6 * (latency + message));
	assert_true(cost_4 > 3 * (latency + 3 * message));
	assert_true(cost_4 < 3 * (latency + 3 * (message + topo->rail.gap_ns)) + latency / 2 + steps);
	topo_destroy(topo);
}
