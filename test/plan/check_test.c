/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker must see what is wrong: every plan is broken in every way that a slip of the pen could break it, and
 * each of the broken plans must be refused. And the flags STABLE and FRESH must stand wherever they are true.
 */
#include "test/helpers/unit.h"
#include "base/collectives.h"
#include "test/helpers/plan_cases.h"
#include "examples/plans/plan_print.h"
#include "plan/plan_eval.h"
#include "test/helpers/row_find.h"

/* A way to break a step; 0 if it does not apply to this step. */
typedef int mutate(struct plan *plan, struct plan_step *step);

static int drop(struct plan *plan, struct plan_step *step)
{
	step->pred = PLAN_NE; /* 0 != 0 */
	step->pred_a = step->pred_b = PLAN_EXPR_NONE;
	return 1;
}

static uint8_t shifted(struct plan *plan, uint8_t e)
{
	if (e == PLAN_EXPR_NONE || e == PLAN_EXPR_ALL)
		return e;
	struct plan_expr expr = plan->exprs[e];
	const enum plan_form form = plan_bases[expr.base].form;
	if (form == PLAN_ALONE || form == PLAN_OF_VARIABLE || form == PLAN_OF_OPERANDS)
		return e;
	expr.offset++;
	return plan_expr(plan, expr);
}

static int shift_to(struct plan *plan, struct plan_step *step)
{
	uint8_t before = step->to;
	step->to = shifted(plan, before);
	return step->to != before;
}

static int shift_from(struct plan *plan, struct plan_step *step)
{
	uint8_t before = step->from;
	step->from = shifted(plan, before);
	return step->from != before;
}

static int shift_src_part(struct plan *plan, struct plan_step *step)
{
	uint8_t *field = step->src.part    ? &step->src.part
			 : step->src.inner ? &step->src.inner
					   : &step->src.block;
	uint8_t before = *field;
	*field = shifted(plan, before);
	return step->src.space != PLAN_SCRATCH && *field != before;
}

static int shift_dst_part(struct plan *plan, struct plan_step *step)
{
	uint8_t *field = step->dst.part    ? &step->dst.part
			 : step->dst.inner ? &step->dst.inner
					   : &step->dst.block;
	uint8_t before = *field;
	*field = shifted(plan, before);
	return step->dst.space != PLAN_SCRATCH && *field != before;
}

static int shift_dst_chunk(struct plan *plan, struct plan_step *step)
{
	uint8_t before = step->dst.chunk;
	step->dst.chunk = shifted(plan, before);
	return step->dst.space != PLAN_SCRATCH && step->dst.chunk != before;
}

static int one_block_more(struct plan *plan, struct plan_step *step)
{
	uint8_t before = step->blocks;
	step->blocks = shifted(plan, before);
	return step->blocks != before;
}

static int forget_final(struct plan *plan, struct plan_step *step)
{
	int was = step->flags & PLAN_FINAL;
	step->flags &= (uint8_t)~PLAN_FINAL;
	return was;
}

static int add_final(struct plan *plan, struct plan_step *step)
{
	int was = step->flags & PLAN_FINAL;
	step->flags |= PLAN_FINAL;
	return !was && step->flags & PLAN_REDUCE;
}

static int forget_src(struct plan *plan, struct plan_step *step)
{
	if (step->op != PLAN_MOVE || !step->from || !step->src.space || !step->dst.space)
		return 0;
	step->src = (struct plan_span){ 0 };
	return 1;
}

static int claim_stable(struct plan *plan, struct plan_step *step)
{
	if (step->op != PLAN_MOVE || !step->to || step->flags & PLAN_STABLE)
		return 0;
	step->flags |= PLAN_STABLE;
	return step->dst.space == PLAN_RECV || (step->src.space && !(step->flags & PLAN_REDUCE));
}

static int claim_fresh(struct plan *plan, struct plan_step *step)
{
	if (step->op != PLAN_MOVE || !step->from || step->flags & (PLAN_FRESH | PLAN_REDUCE) ||
	    step->dst.space != PLAN_RECV)
		return 0;
	step->flags |= PLAN_FRESH;
	return 1;
}

static const struct mutation {
	const char *name;
	mutate *apply;
} mutations[] = { { "step dropped", drop },
		  { "to the next peer", shift_to },
		  { "from the next peer", shift_from },
		  { "source of the next part", shift_src_part },
		  { "result to the next part", shift_dst_part },
		  { "result to the next chunk", shift_dst_chunk },
		  { "one block more", one_block_more },
		  { "FINAL forgotten", forget_final },
		  { "FINAL too early", add_final },
		  { "own contribution forgotten", forget_src },
		  { "STABLE without reason", claim_stable },
		  { "FRESH without reason", claim_fresh } };

/* True if any rank runs the step in this call. */
static int is_used(const struct plan_case *c, const struct plan *plan, int step)
{
	for (int rank = 0; rank < c->topo->map.ranks; rank++) {
		struct plan_env env;
		plan_env_init(&env, plan, &c->topo->map, rank, c->root, c->count);
		env.chunk = c->chunk;
		env.unit = 1;
		env.chunks = plan_chunks(plan, &env, c->count);
		for (int p = 0; p < plan->nprograms; p++) {
			struct plan_cursor cursor;
			struct plan_action action;
			plan_cursor_start(&cursor, plan, p);
			while (plan_cursor_next(&cursor, plan, &env, &action))
				if (cursor.pc - 1 == step)
					return 1;
		}
	}
	return 0;
}

/* A broken plan may be right in one way to run it: it is found if any of a few ways shows it. */
static int is_found(const struct plan_case *c, const struct plan *plan)
{
	struct plan_case way = *c;
	struct check_report report;
	char error[512];
	int has_in_place = plan->key.coll <= CORALE_BROADCAST || plan->key.coll >= CORALE_REDUCE;
	for (int i = 0; i < 4; i++) {
		way.in_place = has_in_place && i & 1;
		way.seed = i & 2 ? 5 : 0;
		if (cases_check(&way, plan, &report, error, sizeof(error)))
			return 1;
	}
	return 0;
}

static int mutate_plan(const struct plan_case *c, const struct plan *plan, const struct mutation *m)
{
	int tried = 0;
	char text[8192];
	for (int i = 0; i < plan->nsteps; i++) {
		struct plan broken = *plan;
		if (plan->steps[i].op == PLAN_LOOP || plan->steps[i].op == PLAN_END || !is_used(c, plan, i) ||
		    !m->apply(&broken, &broken.steps[i]))
			continue;
		if (plan_finish(&broken)) /* found even before it runs */
			continue;
		tried++;
		if (!is_found(c, &broken)) {
			plan_print(plan, text, sizeof(text));
			fail_msg("step %d: %s, and nobody noticed, on %d nodes of\n%s", i, m->name,
				 c->topo->map.nodes, text);
		}
	}
	return tried;
}

/* Every mutation of every step of every row, on an uneven machine, with and without partial sums of their own type. */
static void test_mutations(void **state)
{
	int rows, tried = 0, ran = 0;
	const struct mutation *m = *state;
	row_table(&rows);
	struct topo *topos[] = { cases_topo(6, SPLIT_ONE_NODE), cases_topo(7, SPLIT_THREES),
				 cases_topo(11, SPLIT_UNEVEN) };
	for (int i = 0; i < rows * 3; i++) {
		struct plan_case c = {
			.topo = topos[i / rows], .row = i % rows, .chunk = 16, .channels = 1, .calls = 2
		}; /* what is left after three halvings can be halved */
		struct plan plan;
		c.count = (size_t)c.topo->map.ranks * 32 + 1;
		c.root = 1;
		if (!cases_build(&c, &plan))
			continue;
		ran++;
		assert_int_equal(is_found(&c, &plan), 0);
		tried += mutate_plan(&c, &plan, m);
	}
	for (int i = 0; i < 3; i++)
		topo_destroy(topos[i]);
	assert_true(ran > 0);
	assert_true(tried > 0);
}

static void expect(const struct plan_case *c, const struct plan *plan, const char *what)
{
	char error[512] = "";
	struct check_report report;
	assert_int_equal(cases_check(c, plan, &report, error, sizeof(error)), CORALE_EINTERNAL);
	if (!strstr(error, what))
		fail_msg("\"%s\" does not say \"%s\"", error, what);
}

static int find_row(corale_coll coll, const char *name)
{
	int row = row_find(coll, name);
	if (row < 0)
		fail_msg("no algorithm %s", name);
	return row;
}

static void setup(struct plan_case *c, struct plan *plan, corale_coll coll, const char *name)
{
	*c = (struct plan_case){
		.topo = cases_topo(5, SPLIT_ONE_NODE), .count = 21, .chunk = 2, .channels = 1, .calls = 3
	};
	c->row = find_row(coll, name);
	assert_true(cases_build(c, plan));
}

static void test_parity_depth(void **state)
{
	struct plan_case c;
	struct plan plan;
	setup(&c, &plan, CORALE_ALL_REDUCE, "oneshot");
	plan.queues[0].depth = 1;
	expect(&c, &plan, "parity slot");
	topo_destroy((struct topo *)c.topo);
}

/* The root of a broadcast hears from nobody, so no number of slots is enough without credits. */
static void test_parity_one_way(void **state)
{
	struct plan_case c;
	struct plan plan;
	setup(&c, &plan, CORALE_BROADCAST, "flat");
	plan.queues[0].sync = PLAN_PARITY;
	plan.queues[0].depth = 2;
	expect(&c, &plan, "parity slot");
	topo_destroy((struct topo *)c.topo);
}

static void test_ring_depth(void **state)
{
	struct plan_case c;
	struct plan plan;
	setup(&c, &plan, CORALE_ALL_REDUCE, "ring");
	plan.queues[0].depth = 1;
	expect(&c, &plan, "deadlock");
	topo_destroy((struct topo *)c.topo);
}

/* Two programs on one path would take each other's messages. */
static void test_shared_path(void **state)
{
	struct plan_case c;
	struct plan plan;
	setup(&c, &plan, CORALE_ALL_REDUCE, "ce");
	for (int i = 0; i < plan.nsteps; i++) {
		if (plan.steps[i].to && plan.steps[i].op == PLAN_MOVE)
			plan.steps[i].to_queue = 0;
		if (plan.steps[i].from && plan.steps[i].op == PLAN_MOVE)
			plan.steps[i].from_queue = 0;
	}
	expect(&c, &plan, "uses too");
	topo_destroy((struct topo *)c.topo);
}

/* A forgotten token lets the copy engines send what is not folded yet. */
static void test_missing_token(void **state)
{
	struct plan_case c;
	struct plan plan;
	setup(&c, &plan, CORALE_ALL_REDUCE, "ce");
	for (int i = 0; i < plan.nsteps; i++)
		if (plan.steps[i].op == PLAN_WAIT || plan.steps[i].op == PLAN_SIGNAL)
			drop(&plan, &plan.steps[i]);
	expect(&c, &plan, "");
	topo_destroy((struct topo *)c.topo);
}

/* Calls of different plans one after the other, in which slow ranks lag behind by a call. */
/* The plan of an all_to_all is not fit to run in place: what engines send then is a copy. */
static void test_overwritten(void **state)
{
	struct topo *topo = cases_topo(4, SPLIT_ONE_NODE);
	const struct plan_case c = { .topo = topo,
				     .row = row_find(CORALE_ALL_TO_ALL, "pairwise"),
				     .count = 5,
				     .chunk = 2,
				     .channels = 1 };
	struct plan plan;
	char error[512];
	assert_true(cases_build(&c, &plan));
	for (int references = 0; references < 2; references++) {
		const struct check_options options = {
			.count = 5, .chunk = 2, .unit = 1, .in_place = 1, .references = references
		};
		assert_int_equal(check_plan(&plan, &topo->map, &options, NULL, error, sizeof(error)),
				 CORALE_EINTERNAL);
		if (!strstr(error, "FRESH") && !strstr(error, references ? "STABLE" : "written over it"))
			fail_msg("%s", error);
	}
	topo_destroy(topo);
}

static void test_sequences(void **state)
{
	int rows;
	const struct row *algo = row_table(&rows);
	enum { CALLS = 40 };
	for (int n = 2; n <= 9; n++) {
		struct topo *topo = cases_topo(n, n % 2 ? SPLIT_THREES : SPLIT_ONE_NODE);
		struct plan plans[64];
		const struct plan *calls[CALLS], *usable[64];
		size_t v_counts[81];
		int usables = 0;
		for (size_t i = 0; i < 81; i++)
			v_counts[i] = i * 5 % 14;
		for (int row = 0; row < rows; row++) {
			struct plan_case c = {
				.topo = topo, .row = row, .count = 13, .chunk = 2, .channels = 1
			};
			if (!coll_is_pair(algo[row].coll) && cases_build(&c, &plans[usables])) {
				usable[usables] = &plans[usables];
				usables++;
			}
		}
		for (unsigned seed = 1; seed < 12; seed++) {
			struct check_options options = { .count = 13,
							 .chunk = 2,
							 .unit = 1,
							 .references = 1,
							 .seed = seed,
							 .v_counts = v_counts };
			char error[512];
			for (unsigned i = 0; i < CALLS; i++)
				calls[i] = usable[(i * i * seed + i * 7 + seed) % (unsigned)usables];
			if (check_sequence(calls, CALLS, &topo->map, &options, NULL, error, sizeof(error)))
				fail_msg("%s", error);
		}
		topo_destroy(topo);
	}
}

int main(void)
{
	enum { MUTATIONS = sizeof(mutations) / sizeof(mutations[0]), OTHERS = 7 };
	struct CMUnitTest tests[MUTATIONS + OTHERS] = {
		cmocka_unit_test(test_parity_depth),  cmocka_unit_test(test_parity_one_way),
		cmocka_unit_test(test_ring_depth),    cmocka_unit_test(test_shared_path),
		cmocka_unit_test(test_missing_token), cmocka_unit_test(test_sequences),
		cmocka_unit_test(test_overwritten),
	};
	for (int i = 0; i < MUTATIONS; i++)
		tests[OTHERS + i] = (struct CMUnitTest){ mutations[i].name, test_mutations, NULL, NULL,
							 (void *)&mutations[i] };
	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
