/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row that is deleted from the table is gone from everywhere: no list of choices names it, which is what corale-plan prints and what calls look up,
 * and another row runs its calls. This program has a table of its own in place of the library's: the same, less one row.
 */
#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "base/collectives.h"
#include "examples/plans/planned.h"
#include "plan/choose/choices.h"
#include "state/plans.h"

const struct row *whole_table(int *count);
#define row_table whole_table
#include "lib/plan/algo/row_table.c"
#undef row_table

enum { MOST_ROWS = 200, NONE = -1 };

static struct row rows[MOST_ROWS];
static int deleted = NONE;

const struct row *row_table(int *count)
{
	int n = 0, all;
	const struct row *whole = whole_table(&all);
	for (int i = 0; i < all; i++)
		if (i != deleted)
			rows[n++] = whole[i];
	*count = n;
	return rows;
}

struct machine {
	struct topo *topo;
	struct settings settings;
	struct gpu_machine machine;
	struct planner planner, single;
};

static void open_machine_with(struct machine *m, const char *text, char **variables)
{
	char error[200];
	assert_int_equal(machine_parse(text, &m->topo, error, sizeof error), 0);
	assert_int_equal(settings_parse(variables, &m->settings), 0);
	memset(&m->planner, 0, sizeof m->planner);
	if (m->topo->shared_memory) {
		planner_init(&m->planner, m->topo, &m->settings);
		return;
	}
	const struct remote remote = gpu_planners_remote(&m->topo->map, &m->settings);
	gpu_machine_init(&m->machine, &m->topo->map, &m->settings, rates_of_default_gpu());
	gpu_planners_init(m->topo, &m->settings, &m->machine, &remote, &m->planner, &m->single);
}

static void open_machine(struct machine *m, const char *text)
{
	char *none[] = { NULL };
	open_machine_with(m, text, none);
}

/* A row by what tells it from all others. */
struct name {
	const char *algo;
	const struct codelet *codelet;
	enum plan_protocol protocol;
	int traits;
};

static int is_row(const struct row *row, const struct name *name)
{
	return !strcmp(row->name, name->algo) && row->codelet == name->codelet &&
	       row->protocol == name->protocol && row->traits == name->traits;
}

static int list_names(const struct choices *list, const struct name *name)
{
	for (int i = 0; i < list->n; i++)
		if (list->best[i].row && is_row(list->best[i].row, name)) /* else none runs these sizes */
			return 1;
	return 0;
}

static int find_whole(corale_coll coll, const struct name *name)
{
	int all;
	const struct row *whole = whole_table(&all);
	for (int i = 0; i < all; i++)
		if (whole[i].coll == coll && is_row(&whole[i], name))
			return i;
	return NONE;
}

/* The list without a row; where nothing else can run some call there is none. */
static void check_deleted(const struct planner *planner, corale_coll coll, int memory,
			  const struct name *name)
{
	struct choices list;
	char error[256];
	deleted = find_whole(coll, name);
	assert_int_not_equal(deleted, NONE);
	const int ret = choices_of(planner, coll, CORALE_FLOAT32, memory, &list, error, sizeof error);
	deleted = NONE;
	if (ret == CORALE_ENOTSUP)
		return;
	assert_int_equal(ret, 0);
	if (list_names(&list, name))
		fail_msg("%s by %s %s runs though its row is gone", corale_coll_name(coll), name->algo,
			 plan_protocol_name(name->protocol));
}

/* How many rows a list names. */
static int check_list(const struct planner *planner, corale_coll coll, int memory)
{
	struct choices list;
	struct name names[CHOICES_MOST];
	char error[256];
	assert_int_equal(choices_of(planner, coll, CORALE_FLOAT32, memory, &list, error, sizeof error), 0);
	assert_in_range(list.n, 1, CHOICES_MOST);
	for (int i = 0; i < list.n; i++) { /* before the table is made anew */
		const struct row *row = list.best[i].row;
		names[i] = (struct name){ row->name, row->codelet, row->protocol, row->traits };
	}
	for (int i = 0; i < list.n; i++)
		check_deleted(planner, coll, memory, &names[i]);
	return list.n;
}

/* GPUs run no v-form that has a count. */
static int has_rows(const struct machine *m, int coll)
{
	return !m->planner.gpus || !coll_is_uneven(coll);
}

UNIT_TEST(test_deleted_rows)
{
	static const char *const machines[] = { "rank:4", "node:2 rank:4", "gpu:2",        "gpu:4",
						"gpu:8",  "node:2 gpu:8",  "node:16 gpu:1" };
	int named = 0;
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		struct machine m;
		open_machine(&m, machines[i]);
		for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
			for (int memory = 0; memory < (m.planner.machine ? PLAN_MEMORY_CLASSES : 1); memory++)
				if (!coll_is_pair(coll) && coll_has_count(coll) && memory < 4 &&
				    has_rows(&m, coll))
					named += check_list(&m.planner, (corale_coll)coll, memory);
		topo_destroy(m.topo);
	}
	assert_true(named > 100);
}

/* Equal machines have equal hashes; whatever the choice looks at changes that of the inputs, and a row less that of what is chosen. */
UNIT_TEST(test_hashes)
{
	static const char *const machines[] = { "rank:4", "node:2 rank:4", "gpu:4", "node:2 gpu:2" };
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		struct machine m, other;
		open_machine(&m, machines[i]);
		open_machine(&other, machines[i]);
		const uint64_t inputs = choices_hash_inputs(&m.planner),
			       sample = choices_hash_sample(&m.planner);
		assert_true(inputs == choices_hash_inputs(&other.planner));
		assert_true(sample == choices_hash_sample(&other.planner));
		other.topo->rail.send_ns += 1;
		assert_true(inputs != choices_hash_inputs(&other.planner));
		other.topo->rail.send_ns -= 1;
		other.planner.max_channels++;
		assert_true(inputs != choices_hash_inputs(&other.planner));
		other.planner.max_channels--;
		other.machine.slots_bytes += 4096;
		assert_true(!m.planner.machine == (inputs == choices_hash_inputs(&other.planner)));
		struct choices list;
		char error[256];
		assert_int_equal(
		    choices_of(&m.planner, CORALE_GATHER, CORALE_FLOAT32, 0, &list, error, sizeof error), 0);
		const struct row *row = choices_find(&list, 64 << 10)->row;
		const struct name name = { row->name, row->codelet, row->protocol, row->traits };
		deleted = find_whole(CORALE_GATHER, &name);
		assert_true(sample != choices_hash_sample(&m.planner));
		deleted = NONE;
		topo_destroy(m.topo);
		topo_destroy(other.topo);
	}
}

/* Over nodes names decide between a codelet and the row that may be lowered in its place, also where the other one is faster. */
UNIT_TEST(test_names_over_nodes)
{
	static const struct {
		const char *variable, *small, *large; /* rows */
	} cases[] = {
		{ "CORALE_DEBUG=warn", "bruck", "pairwise" },
		{ "CORALE_CODELETS=no", "bruck", "pairwise" },
		{ "CORALE_ALGO=all_to_all:bruck", "bruck", "pairwise" },
		{ "CORALE_ALGO=all_to_all:pairwise", "pairwise", "pairwise" },
		{ "CORALE_ALGO=^bruck", "pairwise", "pairwise" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char variable[64], error[256], *variables[] = { variable, NULL };
		struct machine m;
		struct choices list;
		snprintf(variable, sizeof variable, "%s", cases[i].variable);
		open_machine_with(&m, "node:16 gpu:8 nvlink:390 rail:50", variables);
		assert_int_equal(
		    choices_of(&m.planner, CORALE_ALL_TO_ALL, CORALE_FLOAT32, 0, &list, error, sizeof error),
		    0);
		const struct row *small = choices_find(&list, 8)->row,
				 *large = choices_find(&list, 1 << 20)->row;
		assert_string_equal(small->name, cases[i].small);
		assert_string_equal(large->name, cases[i].large);
		assert_int_equal(!small->codelet, !strcmp(cases[i].small, "bruck"));
		assert_true(large->codelet);
		topo_destroy(m.topo);
	}
}

/* What a list without codelets says of the largest call of each size class is what the planner chooses for it. */
static void check_exact(const struct planner *planner, corale_coll coll, const struct choices *list)
{
	const struct row *first_row = row_table(&(int){ 0 });
	char error[256];
	struct plan plan, built;
	for (uint8_t power = 3; power <= 36; power++) {
		const struct row_choice *choice = choices_find(list, (uint64_t)1 << power);
		const struct plan_key key = { .coll = (uint8_t)coll,
					      .type = CORALE_FLOAT32,
					      .size_class = power };
		if (choice->row->codelet)
			continue;
		assert_int_equal(planner_plan(planner, &key, NULL, &plan, error, sizeof error), 0);
		if (choice->row != first_row + plan.algo || choice->channels != plan.channels ||
		    choice->chunk_bytes != plan.chunk_bytes)
			fail_msg("%s, 2^%d bytes: the list says %s, %d channels, chunks of %u",
				 corale_coll_name(coll), power, choice->row->name, choice->channels,
				 choice->chunk_bytes);
		assert_int_equal(choices_build(planner, choice, &key, &built), 0);
		assert_memory_equal(&plan, &built, sizeof plan);
	}
}

UNIT_TEST(test_exact_lists)
{
	static const char *const machines[] = { "rank:8",       "node:2 rank:1", "node:4 rank:4", "gpu:4",
						"node:2 gpu:1", "node:3 gpu:4",  "node:16 gpu:8" };
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		struct machine m;
		open_machine(&m, machines[i]);
		for (int coll = 0; coll < CORALE_NUM_COLLS; coll++) {
			struct choices list;
			char error[256];
			if (coll_is_pair(coll) || !coll_has_count(coll) || !has_rows(&m, coll))
				continue;
			assert_int_equal(choices_of(&m.planner, (corale_coll)coll, CORALE_FLOAT32, 0, &list,
						    error, sizeof error),
					 0);
			check_exact(&m.planner, (corale_coll)coll, &list);
		}
		topo_destroy(m.topo);
	}
}

/* Types of a kind choose alike. */
UNIT_TEST(test_kinds)
{
	static const char *const machines[] = { "rank:4", "node:2 rank:4", "gpu:4", "node:2 gpu:2" };
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		struct choices of[CHOICES_KINDS] = { 0 }, list;
		struct machine m;
		char error[256];
		open_machine(&m, machines[i]);
		for (int type = 0; type < CORALE_NUM_TYPES; type++) {
			struct choices *first = &of[choices_kind((corale_type)type)];
			memset(&list, 0, sizeof list);
			assert_int_equal(choices_of(&m.planner, CORALE_ALL_REDUCE, (corale_type)type, 0,
						    &list, error, sizeof error),
					 0);
			*first = first->n ? *first : list;
			assert_memory_equal(first, &list, sizeof list);
		}
		topo_destroy(m.topo);
	}
}

/* Communicators of one machine have the same lists, also one after the other; those of another machine have others. */
UNIT_TEST(test_shared_lists)
{
	const struct choices *list, *same, *another;
	struct machine m, other;
	open_machine(&m, "node:2 rank:4");
	open_machine(&other, "node:2 rank:4");
	struct machine_choices *first = machine_choices_open(&m.planner),
			       *second = machine_choices_open(&other.planner);
	assert_ptr_equal(first, second);
	assert_int_equal(machine_choices_make(first, &m.planner, 0, CORALE_REDUCE, CORALE_INT8, 0, &list), 0);
	assert_int_equal(
	    machine_choices_make(second, &other.planner, 1, CORALE_REDUCE, CORALE_UINT8, 0, &same), 0);
	assert_ptr_equal(list, same);
	machine_choices_close(first);
	machine_choices_close(second);
	assert_ptr_equal(first, machine_choices_open(&m.planner));
	other.planner.reproducible = 1;
	second = machine_choices_open(&other.planner);
	assert_ptr_not_equal(first, second);
	assert_int_equal(
	    machine_choices_make(second, &other.planner, 0, CORALE_REDUCE, CORALE_INT8, 0, &another), 0);
	assert_memory_not_equal(list, another, sizeof *list);
	machine_choices_close(first);
	machine_choices_close(second);
	topo_destroy(m.topo);
	topo_destroy(other.topo);
}
