/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: how they are built, cut, walked and printed. */
#include "test/helpers/unit.h"
#include "corale.h"
#include "plan/plan_eval.h"
#include "examples/plans/plan_print.h"
#include "plan/choose/planner.h"
#include "plan/machine/topo.h"
#include "examples/plans/planned.h"

static struct plan new_plan(void)
{
	struct plan plan;
	struct plan_key key = planner_key(CORALE_ALL_REDUCE, 1000, CORALE_FLOAT32, CORALE_SUM);
	plan_init(&plan, &key);
	plan.chunk_bytes = 4096;
	return plan;
}

static struct topo *new_topo(int n, int per_node)
{
	uint64_t id[64];
	struct topo *topo;
	for (int r = 0; r < n; r++)
		id[r] = (uint64_t)(r / per_node);
	assert_int_equal(topo_create(n, id, &topo), 0);
	return topo;
}

UNIT_TEST(test_cut)
{
	for (size_t length = 0; length < 70; length++) {
		for (size_t n = 1; n < 9; n++) {
			for (size_t unit = 1; unit < 18; unit += 5) {
				size_t at = 0, begin;
				for (size_t i = 0; i < n; i++) {
					size_t piece = plan_cut(length, unit, n, i, &begin);
					assert_int_equal(begin, at);
					assert_true(begin % unit == 0 || begin == length);
					assert_true(i == 0 || piece <= plan_cut(length, unit, n, 0, &begin));
					at += piece;
				}
				assert_int_equal(at, length);
			}
		}
	}
}

UNIT_TEST(test_doubling)
{
	for (int n = 1; n < 200; n++) {
		int steps = plan_log2(n), part = 0;
		for (int me = 0; me < n; me++) {
			int give = plan_doubling(PLAN_DOUBLING_GIVE, n, me, 0);
			int take = plan_doubling(PLAN_DOUBLING_TAKE, n, me, 0);
			if (give >= 0)
				assert_int_equal(plan_doubling(PLAN_DOUBLING_TAKE, n, give, 0), me);
			if (take >= 0)
				assert_int_equal(plan_doubling(PLAN_DOUBLING_GIVE, n, take, 0), me);
			part += give < 0;
			for (int step = 0; step < steps; step++) {
				int partner = plan_doubling(PLAN_DOUBLING, n, me, step);
				assert_int_equal(partner < 0, give >= 0);
				if (partner < 0)
					continue;
				assert_in_range(partner, 0, n - 1);
				assert_int_not_equal(partner, me);
				assert_int_equal(plan_doubling(PLAN_DOUBLING, n, partner, step), me);
			}
		}
		assert_int_equal(part, 1 << steps);
	}
}

/* Each position but the root's is the child of its parent, once; a tree of n has ceil(log2(n)) levels. */
UNIT_TEST(test_tree)
{
	for (int n = 1; n < 200; n++) {
		int children = 0, deepest = 0;
		for (int me = 0; me < n; me++) {
			int depth = 0, own = 0, members = 1;
			for (int level = 0; level < 9; level++) {
				int child = plan_tree(PLAN_TREE_CHILD, n, me, level);
				assert_int_equal(child >= 0, own == level && child >= 0);
				if (child < 0)
					continue;
				assert_in_range(child, me + 1, n - 1);
				assert_int_equal(plan_tree(PLAN_TREE_PARENT, n, child, 0), me);
				own++;
				children++;
				members += plan_subtree(n, child);
			}
			assert_int_equal(members, plan_subtree(n, me));
			for (int up = me; up; up = plan_tree(PLAN_TREE_PARENT, n, up, 0))
				depth++;
			deepest = depth > deepest ? depth : deepest;
		}
		assert_int_equal(plan_tree(PLAN_TREE_PARENT, n, 0, 0), PLAN_NONE);
		assert_int_equal(plan_tree(PLAN_TREE_CHILD, n, 0, -1), PLAN_NONE);
		assert_int_equal(children, n - 1);
		assert_int_equal(deepest, plan_log2(n));
	}
}

/* A window is its two halves, the first of them no shorter; window 1 is the whole. */
UNIT_TEST(test_windows)
{
	for (size_t length = 0; length < 40; length++)
		for (int window = 1; window < 64; window++) {
			size_t begin, first, second;
			size_t n = plan_cut_inner(length, 3, 5, 5 + window - 1, &begin);
			size_t a = plan_cut_inner(length, 3, 5, 5 + 2 * window - 1, &first);
			size_t b = plan_cut_inner(length, 3, 5, 5 + 2 * window, &second);
			assert_true(window > 1 || (begin == 0 && n == length));
			assert_int_equal(first, begin);
			assert_int_equal(second, begin + a);
			assert_int_equal(a + b, n);
			assert_true(!b || second % 3 == 0);
			assert_true(a + 3 > b && a < b + 6);
		}
}

/* Partners have the two halves of what they had before a step; in the end everyone has another part of the whole. */
UNIT_TEST(test_halving)
{
	for (int n = 1; n < 130; n++) {
		int steps = plan_log2(n), last[128] = { 0 };
		for (int me = 0; me < n; me++) {
			int window = plan_doubling(PLAN_HALVING_KEPT, n, me, -1);
			if (plan_doubling(PLAN_DOUBLING_GIVE, n, me, 0) != PLAN_NONE) {
				assert_int_equal(window, PLAN_NONE);
				continue;
			}
			assert_int_equal(window, 1);
			for (int step = 0; step < steps; step++) {
				int partner = plan_doubling(PLAN_DOUBLING, n, me, step);
				int kept = plan_doubling(PLAN_HALVING_KEPT, n, me, step);
				int given = plan_doubling(PLAN_HALVING_GIVEN, n, me, step);
				assert_int_equal(kept / 2, window);
				assert_int_equal(given, kept ^ 1);
				assert_int_equal(plan_doubling(PLAN_HALVING_KEPT, n, partner, step), given);
				window = kept;
			}
			assert_in_range(window, 1 << steps, (2 << steps) - 1);
			last[window - (1 << steps)]++;
		}
		for (int i = 0; i < 1 << steps; i++)
			assert_int_equal(last[i], 1);
	}
}

/* Every element of a vector lies in exactly one (part, channel, chunk, piece). */
UNIT_TEST(test_spans_tile)
{
	struct topo *topo = new_topo(3, 3);
	for (size_t count = 0; count < 90; count += 7) {
		struct plan plan = new_plan();
		struct plan_env env;
		unsigned char hits[96] = { 0 };
		int var[PLAN_MAX_LOOPS] = { 0 };
		plan.parts = 3;
		plan.inner = 2;
		plan.channels = 2;
		struct plan_span span = { PLAN_RECV, 0, plan_var(&plan, 0, 0), plan_var(&plan, 1, 0),
					  plan_var(&plan, 2, 0) };
		plan_env_init(&env, &plan, &topo->map, 1, 0, count);
		env.unit = 2;
		env.chunk = 5;
		env.chunks = plan_chunks(&plan, &env, count);
		for (env.channel = 0; env.channel < 2; env.channel++)
			for (var[0] = 0; var[0] < 4; var[0]++) /* one more than there is: none */
				for (var[1] = 0; var[1] < 10; var[1]++)
					for (var[2] = 0; var[2] < 2; var[2]++) {
						struct plan_location place;
						ptrdiff_t n = plan_locate(&plan, &env, var, &span, &place);
						assert_int_equal(n < 0, var[0] == 3 || var[1] >= env.chunks);
						for (ptrdiff_t i = 0; i < n; i++)
							hits[place.offset + (size_t)i]++;
					}
		for (size_t i = 0; i < sizeof(hits); i++)
			assert_int_equal(hits[i], i < count);
	}
	topo_destroy(topo);
}

static void expect_runs(const struct plan_env *env, const struct plan_action *a, const size_t *blocks)
{
	for (size_t done = 0, n; done < a->count; done += n) {
		size_t at;
		n = plan_span_run(env, a, &a->dst, done, &at);
		assert_in_range(n, 1, a->count - done);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(at + i, blocks[(done + i) / env->count] * env->count +
						     (done + i) % env->count);
	}
}

/* Several blocks go on at the buffer's start behind its last one, or back at its end before the first one; cells leave out as many as a run has. */
UNIT_TEST(test_blocks_in_runs)
{
	for (int n = 2; n < 12; n++) {
		struct topo *topo = new_topo(n, 1);
		struct plan plan = new_plan();
		struct plan_env env;
		size_t blocks[24];
		plan_env_init(&env, &plan, &topo->map, 0, 0, 3);
		for (int first = 0; first < n; first++)
			for (int many = 1; many <= n; many++) {
				struct plan_action a = { .dst = { PLAN_RECV, first, 3 * (size_t)first },
							 .count = 3 * (size_t)many };
				for (int i = 0; i < many; i++)
					blocks[i] = (size_t)((first + i) % n);
				expect_runs(&env, &a, blocks);
				a.flags = PLAN_BACK;
				for (int i = 0; i < many; i++)
					blocks[i] = (size_t)plan_wrap(first - i, n);
				expect_runs(&env, &a, blocks);
				a.flags = 0;
				a.dst.space = PLAN_SCRATCH;
				a.run = 1 + first % 3;
				for (int i = 0; i < many; i++)
					blocks[i] = (size_t)(first + i + i / a.run * a.run);
				expect_runs(&env, &a, blocks);
			}
		topo_destroy(topo);
	}
}

/* Cells that are folded go on with the first one behind the last; each keeps the piece of the span. */
UNIT_TEST(test_cells)
{
	struct topo *topo = new_topo(5, 1);
	const int var[PLAN_MAX_LOOPS] = { 0 };
	for (int rank = 0; rank < 5; rank++)
		for (int spans = 0; spans < 2; spans++) {
			struct plan plan = new_plan();
			struct plan_env env;
			plan.scratch_cells = 5;
			plan.spans = (uint8_t)spans;
			plan_env_init(&env, &plan, &topo->map, rank, 0, 3);
			env.chunk = 7;
			const uint8_t ahead =
			    plan_expr(&plan, (struct plan_expr){ .base = PLAN_AHEAD, .wrap = 1 });
			assert_int_equal(plan_value(&plan, &env, var, ahead), (5 - rank) % 5);
			const struct plan_action a = { .src = { PLAN_SCRATCH, (5 - rank) % 5, 0 },
						       .cells = 5 };
			struct plan_action at = a;
			at.src.offset = (size_t)a.src.block * plan_cell_elements(&plan, &env) + 2;
			for (int i = 0; i < 5; i++) {
				const struct plan_location cell = plan_cell_at(&plan, &env, &at, i);
				assert_int_equal(cell.space, PLAN_SCRATCH);
				assert_int_equal((rank + cell.block) % 5, i); /* the rank so far ahead */
				assert_int_equal(cell.offset, cell.block * (spans ? 3 : 7) + 2);
			}
		}
	topo_destroy(topo);
}

/* Rounds meet: whom I send to gets as many blocks from me as it expects; in the end each rank has had all n, once. */
UNIT_TEST(test_bruck)
{
	const struct plan_expr to = { .base = PLAN_BRUCK_PEER, .stride = -1, .radix = 2, .digit = 1 },
			       from = { .base = PLAN_BRUCK_PEER, .stride = 1, .radix = 2, .digit = 1 },
			       blocks = { .base = PLAN_BRUCK_BLOCKS, .radix = 2, .digit = 1 },
			       set = { .base = PLAN_BRUCK_SET, .radix = 2, .digit = 1 },
			       of_three = {
				       .base = PLAN_BRUCK_BLOCKS, .stride = 3, .radix = 2, .digit = 1
			       }; /* blocks a member */
	for (int n = 2; n < 200; n++) {
		int had = 1;
		for (int round = 0; round < plan_log2(n - 1) + 1; round++) {
			const int peer = plan_bruck(&to, n, n / 3, round),
				  many = plan_bruck(&blocks, n, 0, round);
			assert_int_equal(plan_bruck(&from, n, peer, round), n / 3);
			assert_in_range(many, 1, had);
			assert_int_equal(plan_bruck(&of_three, n, 0, round), 3 * many);
			assert_int_equal(plan_wrap(n / 3 - peer, n), had);
			had += many;
			int numbers = 0;
			for (int i = 0; i < n; i++)
				numbers += i >> round & 1;
			assert_int_equal(plan_bruck(&set, n, 0, round), numbers);
		}
		assert_int_equal(had, n);
	}
}

/* As test_bruck, of other radices: all distances of a round together multiply what a rank has. Distances that no member is away are none. */
UNIT_TEST(test_radix)
{
	for (int radix = 2; radix < 9; radix++)
		for (int n = 2; n < 200; n++) {
			int had = 1;
			for (int round = 0; round < plan_count_rounds(n, radix); round++) {
				const int before = had;
				for (int digit = 1; digit < radix; digit++) {
					struct plan_expr x = { .base = PLAN_BRUCK_DISTANCE,
							       .radix = (uint8_t)radix,
							       .digit = (uint8_t)digit };
					const int distance = plan_bruck(&x, n, 0, round);
					assert_int_equal(distance, digit * before);
					x.wrap = 1;
					assert_int_equal(
					    plan_bruck(&x, n, 0, plan_count_rounds(n, radix) - 1 - round),
					    distance);
					x.wrap = 0;
					x.base = PLAN_BRUCK_BLOCKS;
					const int many = plan_bruck(&x, n, 0, round);
					x.base = PLAN_BRUCK_PEER;
					x.stride = -1;
					const int peer = plan_bruck(&x, n, n / 3, round);
					assert_int_equal(peer, distance < n ? plan_wrap(n / 3 - distance, n)
									    : PLAN_NONE);
					assert_int_equal(many < 0, peer < 0);
					had += many > 0 ? many : 0;
				}
			}
			assert_int_equal(had, n);
		}
}

/* A base that lacks its text, or operands that its form has, has been left out of the table. */
UNIT_TEST(test_bases)
{
	for (int base = 0; base < PLAN_BASES; base++) {
		const struct plan_base_info *info = &plan_bases[base];
		assert_non_null(info->text);
		assert_int_equal(info->operands > 0, base >= PLAN_SIMPLE_BASES);
		assert_int_equal(info->operands > 0,
				 info->form == PLAN_OF_VARIABLE || info->form == PLAN_OF_OPERANDS);
		assert_int_equal(strstr(info->text, "%a") != NULL, info->operands > 0);
		assert_int_equal(strstr(info->text, "%b") != NULL, info->operands > 1);
		assert_int_equal(strstr(info->text, "%v") != NULL, info->form == PLAN_AT_STEP);
	}
}

UNIT_TEST(test_values)
{
	struct topo *topo = new_topo(8, 3); /* nodes of 3, 3, 2 */
	struct plan plan = new_plan();
	struct plan_env env;
	int var[PLAN_MAX_LOOPS] = { 2, 1, 0, 0 };
	plan_env_init(&env, &plan, &topo->map, 7, 4,
		      100); /* rank 7: node 2, local 1; root 4: node 1, local 1 */
	uint8_t self = plan_shift(&plan, PLAN_NODE, 0, 0, 0), node = plan_shift(&plan, PLAN_RAIL, 0, 0, 1);
	uint8_t rail = plan_expr(&plan, (struct plan_expr){ .base = PLAN_RAIL_OF, .var = 1, .a = self });
	uint8_t none = plan_expr(&plan, (struct plan_expr){ .base = PLAN_RAIL_OF, .var = 0, .a = self });
	uint8_t at = plan_expr(&plan, (struct plan_expr){ .base = PLAN_RANK_AT, .a = node, .b = self });
	const struct {
		uint8_t e;
		int value;
	} cases[] = {
		{ plan_const(&plan, 0), 0 },
		{ plan_const(&plan, -3), -3 },
		{ plan_shift(&plan, PLAN_WORLD, 0, 1, 0), 1 }, /* 7 + 2 mod 8 */
		{ plan_shift(&plan, PLAN_WORLD, 0, -4, -1), 6 }, /* 7 - 8 - 1 mod 8 */
		{ plan_shift(&plan, PLAN_NODE, 1, 1, 0), 0 }, /* 1 + 1 mod 2 */
		{ plan_shift(&plan, PLAN_RAIL, 1, 1, 0), 0 },
		{ plan_var(&plan, 0, 5), 7 },
		{ plan_base(&plan, PLAN_ROOT, PLAN_NODE, 0), 1 },
		{ plan_base(&plan, PLAN_ROOT, PLAN_RAIL, 0), 1 },
		{ plan_base(&plan, PLAN_SIZE, PLAN_NODE, 0), 2 },
		{ plan_base(&plan, PLAN_SIZE, PLAN_RAIL, -1), 2 },
		{ plan_base(&plan, PLAN_OWNED, PLAN_NODE, 0), 2 },
		{ plan_base(&plan, PLAN_DOUBLING_STEPS, PLAN_WORLD, 0), 3 },
		{ plan_base(&plan, PLAN_POSITION, PLAN_WORLD, 0), 3 }, /* 7 - 4 */
		{ plan_base(&plan, PLAN_POSITION, PLAN_RAIL, 0), 1 },
		{ plan_rounds(&plan, PLAN_WORLD, 2, 0), 3 },
		{ plan_rounds(&plan, PLAN_RAIL, 2, -1), 1 },
		{ plan_base(&plan, PLAN_TREE_PARENT, PLAN_WORLD, 0), 6 }, /* of position 3: 2 */
		{ plan_base(&plan, PLAN_TREE_PARENT, PLAN_RAIL, 0), 1 },
		{ plan_base(&plan, PLAN_TREE_PARENT, PLAN_NODE, 0), PLAN_NONE }, /* local 1, as the root's */
		{ plan_term(&plan, PLAN_TREE_CHILD, PLAN_NODE, 0, 0, 0), 0 },
		{ plan_term(&plan, PLAN_TREE_CHILD, PLAN_NODE, 1, 1, 0), PLAN_NONE },
		{ plan_term(&plan, PLAN_TREE_CHILD, PLAN_WORLD, 0, 0, 0), PLAN_NONE },
		{ rail, PLAN_NONE }, /* 1 + 1 * 2 = 3: no such part */
		{ none, PLAN_NONE },
		{ at, 1 }, /* node 0, local 1 */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(plan_value(&plan, &env, var, cases[i].e), cases[i].value);
	assert_int_not_equal(plan_const(&plan, 0), PLAN_EXPR_NONE);
	assert_int_equal(plan_const(&plan, -3), plan_const(&plan, -3));
	topo_destroy(topo);
}

static void count_to(struct plan *plan, int n)
{
	plan_loop(plan, plan_const(plan, n));
}

/* signal(v0, v1) for v0 below 3, v1 below 2, but neither in loops of no trips nor behind a false predicate. */
UNIT_TEST(test_cursor)
{
	struct topo *topo = new_topo(8, 8);
	struct plan plan = new_plan();
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action action;
	plan_queue(&plan, PLAN_CREDIT, 1);
	plan_program(&plan, PLAN_SM);
	count_to(&plan, 3);
	count_to(&plan, 0);
	count_to(&plan, 5);
	plan_step(&plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = plan_const(&plan, 7) });
	plan_end(&plan);
	plan_end(&plan);
	plan_loop_if(&plan, plan_const(&plan, 2), PLAN_NE, plan_var(&plan, 0, 0), plan_const(&plan, 1));
	plan_step(&plan,
		  (struct plan_step){
		      .op = PLAN_SIGNAL,
		      .to = plan_expr(&plan, (struct plan_expr){
						 .base = PLAN_CONST, .stride = 1, .var = 1, .offset = 1 }) });
	plan_end(&plan);
	plan_step(&plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = plan_var(&plan, 0, 4) });
	plan_end(&plan);
	assert_int_equal(plan_finish(&plan), 0);
	plan_env_init(&env, &plan, &topo->map, 0, 0, 100);
	plan_cursor_start(&cursor, &plan, 0);
	static const int wanted[] = { 1, 2, 4, 5, 1, 2, 6 };
	for (int i = 0; i < 7; i++) {
		assert_int_equal(plan_cursor_next(&cursor, &plan, &env, &action), 1);
		assert_int_equal(action.to, wanted[i]);
	}
	assert_int_equal(plan_cursor_next(&cursor, &plan, &env, &action), 0);
	topo_destroy(topo);
}

/* A table that is full, or loops that do not close, show when the plan is finished. */
UNIT_TEST(test_broken_plans)
{
	struct plan plan = new_plan();
	assert_int_equal(plan_finish(&plan), CORALE_EINTERNAL); /* no program */

	plan = new_plan();
	plan_program(&plan, PLAN_SM);
	for (int i = 0; i < 2 * PLAN_MAX_EXPRS; i++)
		plan_const(&plan, i);
	assert_int_equal(plan_finish(&plan), CORALE_EINTERNAL);

	plan = new_plan();
	plan_program(&plan, PLAN_SM);
	for (int i = 0; i < PLAN_MAX_STEPS; i++) {
		count_to(&plan, 2);
		plan_end(&plan);
	}
	assert_int_equal(plan_finish(&plan), CORALE_EINTERNAL);

	plan = new_plan();
	for (int i = 0; i < PLAN_MAX_PROGRAMS + 1; i++)
		plan_program(&plan, PLAN_SM);
	assert_int_equal(plan_finish(&plan), CORALE_EINTERNAL);

	for (int depth = 1; depth < PLAN_MAX_LOOPS + 3; depth++) {
		plan = new_plan();
		plan_program(&plan, PLAN_SM);
		for (int i = 0; i < depth; i++)
			count_to(&plan, 2);
		for (int i = 0; i < depth - (depth == 1); i++)
			plan_end(&plan);
		assert_int_equal(plan_finish(&plan),
				 depth == 1 || depth > PLAN_MAX_LOOPS ? CORALE_EINTERNAL : 0);
	}
}

static void expect_refusal(struct plan_step step)
{
	struct plan plan = new_plan();
	plan_queue(&plan, PLAN_CREDIT, 2);
	plan_program(&plan, PLAN_SM);
	plan_const(&plan, 1);
	plan_step(&plan, step);
	assert_int_equal(plan_finish(&plan), CORALE_EINTERNAL);
}

UNIT_TEST(test_broken_steps)
{
	struct plan_span send = { .space = PLAN_SEND }, recv = { .space = PLAN_RECV },
			 block = { .space = PLAN_RECV, .block = 1 };
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .src = send });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .dst = recv });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .src = recv, .dst = send });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .from = 1, .to = 1 });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .from = 1, .src = send, .dst = recv });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .from = PLAN_EXPR_ALL, .dst = recv });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .src = send, .dst = recv, .to = 9 });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .src = send, .to = 1, .to_queue = 1 });
	expect_refusal(
	    (struct plan_step){ .op = PLAN_MOVE, .src = send, .dst = { PLAN_SCRATCH, .block = 1 } });
	expect_refusal((struct plan_step){ .op = PLAN_SIGNAL });
	expect_refusal((struct plan_step){ .op = PLAN_WAIT, .from = 1, .dst = recv });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .blocks = 9, .src = block, .to = 1 });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .blocks = 1, .src = send, .to = 1 });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .blocks = 1, .src = block, .dst = block });
	expect_refusal((struct plan_step){
	    .op = PLAN_MOVE, .flags = PLAN_REDUCE, .blocks = 1, .from = PLAN_EXPR_ALL, .dst = block });
	expect_refusal((struct plan_step){ .op = PLAN_SIGNAL, .blocks = 1, .to = 1 });
	expect_refusal((struct plan_step){ .op = PLAN_MOVE, .blocks = 1, .run = 1, .src = block, .to = 1 });
	expect_refusal((struct plan_step){
	    .op = PLAN_MOVE, .flags = PLAN_REDUCE, .cells = 1, .src = block, .dst = recv });
	expect_refusal(
	    (struct plan_step){ .op = PLAN_MOVE, .flags = PLAN_REDUCE, .cells = 1, .from = 1, .dst = recv });
	expect_refusal((struct plan_step){ .op = 77 });
}

UNIT_TEST(test_mixed_ring)
{
	struct plan plan = new_plan();
	uint8_t ring = plan_queue(&plan, PLAN_CREDIT, 2);
	plan_program(&plan, PLAN_SM);
	plan_step(&plan, (struct plan_step){ .op = PLAN_SIGNAL, .to = PLAN_EXPR_ALL, .to_queue = ring });
	assert_int_equal(plan_finish(&plan), 0);
	assert_int_equal(plan.queues[0].all, 1);
	plan_step(&plan,
		  (struct plan_step){ .op = PLAN_SIGNAL, .to = plan_const(&plan, 0), .to_queue = ring });
	assert_int_equal(plan_finish(&plan), CORALE_EINTERNAL);
}

/* The length is what it would need, whatever the room; what fits is terminated. */
UNIT_TEST(test_print_length)
{
	struct topo *topo = new_topo(8, 3);
	struct planner planner = { .topo = topo, .slot_bytes = 1 << 16, .slots = 4, .max_channels = 1 };
	char whole[8192], some[8192], error[200];
	struct plan plan;
	struct plan_key key = planner_key(CORALE_ALL_REDUCE, 1 << 20, CORALE_FLOAT32, CORALE_SUM);
	assert_int_equal(planner_plan(&planner, &key, NULL, &plan, error, sizeof(error)), 0);
	size_t length = plan_print(&plan, whole, sizeof(whole));
	assert_int_equal(strlen(whole), length);
	assert_int_equal(plan_print(&plan, NULL, 0), length);
	for (size_t room = 1; room <= length; room += 37) {
		memset(some, 'x', sizeof(some));
		assert_int_equal(plan_print(&plan, some, room), length);
		assert_int_equal(strlen(some), room - 1);
		assert_memory_equal(some, whole, room - 1);
		assert_int_equal(some[room], 'x');
	}
	topo_destroy(topo);
}

int main(void)
{
	_Static_assert(sizeof(struct plan_step) == 32, "a step has 32 bytes");
	_Static_assert(sizeof(struct plan) <= 4096, "a plan travels by value");
	return unit_run(NULL, NULL);
}
