/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a row with a codelet (row.h): whatever the call, one that can run it, the fastest by the model or
 * the one that was asked for.
 */
#include <math.h>

#include "test/helpers/unit.h"
#include "base/collectives.h"
#include "codelet_kind.h"
#include "kernels/codelets.h"
#include "test/helpers/plan_cases.h"
#include "plan/choose/choices.h"
#include "plan/choose/planner.h"
#include "test/helpers/row_find.h"
#include "examples/plans/planned.h"

enum { POWERS = 34 /* 8 GiB is 2^33 */, SIZES = 2 + 3 * POWERS };
#define WINDOW ((uint64_t)62 << 20)

/* A call that the planner is asked about. */
struct question {
	struct gpu_machine machine;
	corale_coll coll;
	uint64_t bytes;
	int words, memory;
};

static struct gpu_machine machine_of(int ranks, uint64_t window)
{
	struct codelet_layout l;
	codelet_layout_init(&l, ranks, window);
	return (struct gpu_machine){ .rates = rates_of_default_gpu(),
				     .ranks = ranks,
				     .max_blocks = 132,
				     .words_bytes = l.words_bytes,
				     .lines_bytes = l.lines_bytes,
				     .slots_bytes = l.slots_bytes };
}

/* 0, 3, and each power of 2 with its neighbours. */
static uint64_t size(int i)
{
	if (i < 2)
		return i ? 3 : 0;
	return ((uint64_t)1 << (i - 2) / 3) + (uint64_t)(i - 2) % 3 - 1;
}

static int is_sum(corale_coll coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_REDUCE_SCATTER;
}

static int is_move(corale_coll coll)
{
	return coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL || coll == CORALE_BROADCAST;
}

enum { ALL_MEMORY = PLAN_MEMORY_REGISTERED | PLAN_MEMORY_SCRATCH | PLAN_MEMORY_EXPORTED };

static int has_blocks(corale_coll coll)
{
	return coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL || coll == CORALE_REDUCE_SCATTER;
}

static int goes_direct(const struct question *q)
{
	int slow = (q->memory & PLAN_MEMORY_REGISTERED) && !(q->memory & PLAN_MEMORY_SCRATCH);
	return q->memory & PLAN_MEMORY_EXPORTED || slow ||
	       (q->machine.zero_ctas && is_move(q->coll) && q->memory & PLAN_MEMORY_REGISTERED);
}

static struct plan_call call_of(const struct question *q)
{
	return (struct plan_call){ q->coll, q->bytes, q->words, q->memory, PLAN_ALIGNED_16 };
}

static const struct row *chosen_row(const struct question *q)
{
	const struct plan_call call = call_of(q);
	return planner_codelet(&q->machine, &call);
}

static const struct codelet *choice(const struct question *q)
{
	const struct row *way = chosen_row(q);
	return codelet_kind(way);
}

/* The row of a codelet that can run the call, or NULL; there is never another one. */
static const struct row *row_of(const struct question *q, const struct codelet *codelet)
{
	const struct plan_call call = call_of(q);
	const struct row *found = NULL, *row = NULL;
	while ((row = row_next_codelet(q->coll, row)))
		if (codelet_kind(row) == codelet && row_us(row, &q->machine, &call) >= 0) {
			assert_null(found);
			found = row;
		}
	return found;
}

static double time_of(const struct question *q, const struct codelet *codelet)
{
	const struct row *way = row_of(q, codelet);
	const struct plan_call call = call_of(q);
	return way ? row_us(way, &q->machine, &call) : -1;
}

static int one_shot_able(const struct question *q)
{
	const uint64_t lines = (q->bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA;
	if (q->coll != CORALE_ALL_TO_ALL_V && lines * CODELET_LINE <= q->machine.lines_bytes)
		return 1;
	return has_blocks(q->coll) && q->machine.ranks > 1 &&
	       q->machine.lines_bytes >= CODELET_LINE; /* piece by piece */
}

static int two_shot_able(const struct question *q)
{
	return q->coll == CORALE_ALL_REDUCE ||
	       (q->coll == CORALE_BROADCAST && q->machine.ranks > 1 && q->machine.ranks <= CODELET_FEW_RANKS);
}

static int fifo_able(const struct question *q)
{
	return !is_sum(q->coll);
}

static int copies_able(const struct question *q)
{
	if (is_sum(q->coll))
		return (q->memory & PLAN_MEMORY_SCRATCH) != 0;
	return is_move(q->coll) && (goes_direct(q) || (q->memory & PLAN_MEMORY_SCRATCH));
}

static int bulk_able(const struct question *q)
{
	const uint64_t exchanges = has_blocks(q->coll) ? 1 : 2;
	return (is_sum(q->coll) || (q->machine.ranks > 1 && q->machine.max_blocks <= 32)) &&
	       q->coll != CORALE_ALL_TO_ALL_V && q->machine.slots_bytes / exchanges >= 2 * CODELET_LINE;
}

static int chain_able(const struct question *q)
{
	return bulk_able(q) && q->coll == CORALE_BROADCAST;
}

/* What the kernels and the engine have: said once more, so that it can't be changed in one place alone. Other codelets: what they say themselves. */
static int able(const struct question *q, const struct codelet *codelet)
{
	static const struct {
		const struct codelet *codelet;
		int (*able)(const struct question *);
	} known[] = { { &one_shot_codelet, one_shot_able }, { &two_shot_codelet, two_shot_able },
		      { &fifo_codelet, fifo_able },         { &copies_codelet, copies_able },
		      { &bulk_codelet, bulk_able },         { &chain_codelet, chain_able } };
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].codelet == codelet)
			return known[i].able(q);
	return time_of(q, codelet) >= 0;
}

static int wants_scratch(const struct question *q, const struct codelet *codelet)
{
	const struct row *way = row_of(q, codelet);
	const struct plan_call call = call_of(q);
	return way && row_uses_scratch(way, &q->machine, &call);
}

static int stores_direct(const struct question *q)
{
	const struct plan_call call = call_of(q);
	return row_stores_direct(chosen_row(q), &q->machine, &call);
}

static void complain(const struct question *q, const struct codelet *codelet, const char *what)
{
	fail_msg("%d ranks, %s of %llu bytes, words %d, memory %d: %s %s", q->machine.ranks,
		 corale_coll_name(q->coll), (unsigned long long)q->bytes, q->words, q->memory,
		 codelet_kind_name(codelet), what);
}

static void check_free_choice(const struct question *q)
{
	const struct codelet *chosen = choice(q);
	if (!able(q, chosen))
		complain(q, chosen, "can't run it");
	if (stores_direct(q) && !is_move(q->coll) && q->coll != CORALE_ALL_REDUCE)
		complain(q, chosen, "would store into buffers whose addresses are not compared");
	for (int i = 0; i < CODELETS; i++) {
		const struct codelet *codelet = codelet_list[i];
		const double us = time_of(q, codelet);
		if ((us >= 0) != able(q, codelet))
			complain(q, codelet, us >= 0 ? "has a time" : "has no time");
		if (us >= 0 && us < time_of(q, chosen))
			complain(q, codelet, "would be faster");
	}
}

static int can_by(const struct question *q, enum plan_protocol protocol)
{
	const struct row *row = NULL;
	const struct plan_call call = call_of(q);
	while ((row = row_next_codelet(q->coll, row)))
		if (row_is_by(row, protocol) && row_us(row, &q->machine, &call) >= 0)
			return 1;
	return 0;
}

static void check_forced(struct question q)
{
	const struct codelet *free_choice = choice(&q);
	for (int p = PLAN_LL128; p < PLAN_GRANTED; p++) {
		q.machine.forced = p;
		const struct row *row = chosen_row(&q);
		if (can_by(&q, (enum plan_protocol)p) ? !row || !row_is_by(row, p)
						      : choice(&q) != free_choice)
			complain(&q, choice(&q), "was chosen where a protocol was forced");
	}
	q.machine.forced = 0;
	q.machine.zero_ctas = 1;
	if (choice(&q) !=
	    (is_move(q.coll) && (q.memory & PLAN_MEMORY_REGISTERED) ? &copies_codelet : free_choice))
		complain(&q, choice(&q), "was chosen where no blocks may move data");
}

static void check_scratch(const struct question *q)
{
	for (int i = 0; i < CODELETS; i++) {
		const struct codelet *codelet = codelet_list[i];
		const int wants = wants_scratch(q, codelet),
			  packets = codelet == &one_shot_codelet || codelet == &two_shot_codelet;
		if (codelet == &copies_codelet && able(q, codelet) &&
		    wants != (is_sum(q->coll) || !goes_direct(q)))
			complain(q, codelet, wants ? "wants scratch" : "wants no scratch");
		if (wants && codelet != &copies_codelet && (packets || q->bytes == 0))
			complain(q, codelet, "wants scratch");
	}
}

/* Larger calls never go back to packets, and wherever scratch is wanted a larger call wants it, too. */
static void check_sizes(struct question *q)
{
	int left_packets = 0, wanted = 0;
	for (int i = 0; i < SIZES; i++) {
		q->bytes = size(i);
		check_free_choice(q);
		check_forced(*q);
		check_scratch(q);
		const struct codelet *chosen = choice(q);
		if (left_packets && chosen == &one_shot_codelet && i > 2)
			complain(q, chosen, "is chosen again for a larger call");
		left_packets |= chosen != &one_shot_codelet;
		int wants = wants_scratch(q, test_slots_codelet(q->coll));
		if (wanted && !wants && i > 4)
			complain(q, test_slots_codelet(q->coll), "wants scratch for a smaller call only");
		wanted |= wants;
	}
}

static void check_machine(struct gpu_machine machine)
{
	struct question q = { .machine = machine };
	for (int coll = 0; coll <= CORALE_ALL_TO_ALL_V; coll++)
		for (q.words = 0; q.words < 2; q.words++)
			for (q.memory = 0; q.memory <= (machine.ranks > 1 ? ALL_MEMORY : 0); q.memory++) {
				if ((q.memory & PLAN_MEMORY_EXPORTED) && !(q.memory & PLAN_MEMORY_REGISTERED))
					continue;
				q.coll = (corale_coll)coll;
				check_sizes(&q);
			}
}

UNIT_TEST(test_every_call)
{
	for (int ranks = 1; ranks <= CODELET_MAX_RANKS; ranks++)
		check_machine(machine_of(ranks, WINDOW));
}

/* Windows of which next to nothing is left for packets. */
UNIT_TEST(test_small_windows)
{
	for (int ranks = 1; ranks <= CODELET_MAX_RANKS; ranks += 7)
		check_machine(machine_of(ranks, (uint64_t)4 << 20));
	check_machine((struct gpu_machine){
	    .rates = rates_of_default_gpu(), .ranks = 4, .max_blocks = 1, .slots_bytes = 512 });
}

#define blocks_of(...) plan_most_blocks(&(struct plan_blocks_asked){ __VA_ARGS__ })

/* As few as the policy `efficient` leaves; what is given goes first. */
UNIT_TEST(test_few_blocks)
{
	const int few = blocks_of(.efficient = 1);
	assert_in_range(few, 1, 8);
	assert_int_equal(blocks_of(.in_host = 0), 0);
	assert_int_equal(blocks_of(.given = few + 12, .efficient = 1), few + 12);
	assert_int_equal(blocks_of(.given = 1, .usual = 32, .least = 16), 1);
	assert_int_equal(blocks_of(.usual = 32, .efficient = 1), few);
	assert_int_equal(blocks_of(.least = 40), 0); /* all are more */
	assert_int_equal(blocks_of(.usual = 32, .least = 16), 32);
	assert_int_equal(blocks_of(.usual = 32, .least = 40), 40);
	assert_int_equal(blocks_of(.usual = 32, .in_host = 1), PLAN_HOST_WINDOW_BLOCKS);
	assert_int_equal(blocks_of(.usual = 32, .least = 12, .in_host = 1), 12);
	assert_int_equal(blocks_of(.given = 32, .in_host = 1), PLAN_MOST_HOST_WINDOW_BLOCKS);
	assert_int_equal(blocks_of(.given = 3, .least = 12, .in_host = 1), 3);
	for (int ranks = 1; ranks <= 8; ranks++) {
		struct gpu_machine machine = machine_of(ranks, WINDOW);
		machine.max_blocks = few;
		check_machine(machine);
	}
}

/* The last bytes that fit into packets, and one more. */
UNIT_TEST(test_room)
{
	for (int ranks = 2; ranks <= CODELET_MAX_RANKS; ranks++) {
		struct question q = { .machine = machine_of(ranks, WINDOW),
				      .coll = CORALE_ALL_REDUCE,
				      .words = 1 };
		q.machine.forced = PLAN_LL128; /* words have no two-shot in lines */
		q.bytes = q.machine.lines_bytes / CODELET_LINE * CODELET_LINE_DATA;
		assert_ptr_equal(choice(&q), &one_shot_codelet);
		q.bytes++;
		assert_ptr_equal(choice(&q), &two_shot_codelet);
	}
}

UNIT_TEST(test_tiny_calls_are_packets)
{
	for (int coll = 0; coll < CORALE_ALL_TO_ALL_V; coll++) {
		struct question q = { .machine = machine_of(4, WINDOW),
				      .coll = (corale_coll)coll,
				      .bytes = 8 };
		assert_ptr_equal(choice(&q), &one_shot_codelet);
	}
	struct question barrier = { .machine = machine_of(4, WINDOW), .coll = CORALE_BARRIER };
	assert_ptr_equal(choice(&barrier), &one_shot_codelet);
}

/* What runs lowered, whatever the call, unless BULK is asked for, or blocks are few and bytes many. */
UNIT_TEST(test_lowered_only)
{
	static const corale_coll colls[] = { CORALE_REDUCE, CORALE_GATHER, CORALE_SCATTER };
	for (int i = 0; i < 3 * SIZES; i++) {
		struct question q = { .machine = machine_of(4, WINDOW),
				      .coll = colls[i % 3],
				      .bytes = size(i / 3) };
		q.memory = i & ALL_MEMORY;
		q.machine.forced = i % PLAN_PROTOCOLS;
		q.machine.zero_ctas = i / 8 % 2;
		assert_ptr_equal(choice(&q), q.machine.forced == PLAN_BULK ? &bulk_codelet : NULL);
	}
	for (int i = 0; i < 3; i++) {
		struct question q = { .machine = machine_of(4, WINDOW), .coll = colls[i], .bytes = 16 << 20 };
		q.machine.max_blocks = 8;
		assert_ptr_equal(choice(&q), &bulk_codelet);
		q.bytes = 64 << 10;
		assert_ptr_equal(choice(&q), NULL);
	}
}

/* ---- The plans that GPUs run, through the checker ---------------------------------------------------------- */

static void check_row(const struct topo *topo, const char *algo, const struct plan *built)
{
	const size_t counts[] = { 0, 1, 4 * (size_t)topo->map.ranks + 1 };
	struct plan plan = *built;
	struct check_report report;
	char error[512];
	for (int i = 0; i < 3 * 2 * 2; i++) {
		struct plan_case c = { .topo = topo,
				       .row = row_find((corale_coll)plan.key.coll, algo),
				       .count = counts[i % 3],
				       .chunk = 2,
				       .channels = 1 + i / 3 % 2,
				       .root = topo->map.ranks - 1,
				       .seed = (unsigned)(i / 6 * 5),
				       .calls = 2 };
		plan.channels = (uint8_t)c.channels;
		if (cases_check(&c, &plan, &report, error, sizeof error))
			fail_msg("%s by %s on %d ranks: %s", corale_coll_name((corale_coll)plan.key.coll),
				 algo, topo->map.ranks, error);
	}
}

/* 1 unless the row is for other numbers of ranks. */
static int check_codelet(const struct planner *planner, int index)
{
	static const char *const engines[] = { "SM", "CE" };
	int rows;
	const struct row *row = row_table(&rows) + index;
	struct plan_key key = planner_key(row->coll, 1000, CORALE_FLOAT32, CORALE_SUM);
	struct plan plan;
	const int ret = planner_build(planner, &key, index, &plan);
	if (ret == CORALE_ENOTSUP)
		return 0;
	assert_int_equal(ret, 0);
	assert_int_equal(plan.codelet, row->codelet ? row->codelet->index : 0);
	assert_int_equal(plan.protocol, row->protocol);
	assert_int_equal(plan.algo, index);
	for (int p = 0; p < plan.nprograms && row->codelet->engine == PLAN_SM; p++)
		assert_int_equal(plan.programs[p].engine, PLAN_SM);
	check_row(planner->topo, row->name, &plan);
	if (planner->topo->map.ranks == 2)
		printf("# %s %s, %s, %s, codelet %s%s%s\n", corale_coll_name(row->coll), row->name,
		       engines[row->codelet->engine], plan_protocol_name(row->protocol), row->codelet->name,
		       row->differs ? ", but " : "", row->differs ? row->differs : "");
	return 1;
}

/* All that may run lowered. */
static void check_lowered(const struct planner *planner)
{
	int rows;
	const struct row *algo = row_table(&rows);
	struct plan plan;
	for (int row = 0; row < rows; row++) {
		struct plan_key key = planner_key(algo[row].coll, 1000, CORALE_FLOAT32, CORALE_SUM);
		if (algo[row].codelet || coll_is_pair(algo[row].coll) || coll_is_uneven(algo[row].coll) ||
		    planner_build(planner, &key, row, &plan))
			continue;
		assert_int_equal(plan.codelet, codelet_index_lowered);
		check_row(planner->topo, algo[row].name, &plan);
		if (planner->topo->map.ranks == 2)
			printf("# %s %s, SM, LL128 or FIFO, lowered\n", corale_coll_name(algo[row].coll),
			       algo[row].name);
	}
}

enum { MOST_ROWS = 256 };

UNIT_TEST(test_rows_are_checked)
{
	static const struct settings settings;
	int rows, checked[MOST_ROWS] = { 0 };
	const struct row *table = row_table(&rows);
	assert_in_range(rows, 1, MOST_ROWS);
	for (int ranks = 2; ranks <= 9; ranks++) {
		struct gpu_machine machine = machine_of(ranks, WINDOW);
		struct topo *topo = cases_topo(ranks, SPLIT_ONE_NODE);
		struct planner planner;
		topo_set_gpus(topo, machine.rates);
		planner_init_gpus(&planner, topo, &settings, &machine);
		for (int i = 0; i < rows; i++)
			if (table[i].codelet && !(table[i].traits & ROW_OVER_NODES))
				checked[i] += check_codelet(&planner, i);
		check_lowered(&planner);
		topo_destroy(topo);
	}
	for (int i = 0; i < rows; i++)
		if (table[i].codelet && !(table[i].traits & ROW_OVER_NODES))
			assert_true(checked[i]);
}

/* The plan of a call has its way, and the launch's blocks and chunks. */
UNIT_TEST(test_plan_of_call)
{
	static const struct settings settings;
	for (int ranks = 1; ranks <= 9; ranks++) {
		struct question q = { .machine = machine_of(ranks, WINDOW), .memory = PLAN_MEMORY_SCRATCH };
		struct topo *topo = cases_topo(ranks, SPLIT_ONE_NODE);
		struct planner planner;
		char error[256];
		q.machine.scratch_bytes = (uint64_t)256 << 20;
		topo_set_gpus(topo, q.machine.rates);
		planner_init_gpus(&planner, topo, &settings, &q.machine);
		for (int i = 0; i < CORALE_NUM_COLLS * SIZES; i++) {
			q.coll = (corale_coll)(i % CORALE_NUM_COLLS);
			q.bytes = size(i / CORALE_NUM_COLLS) / 4 * 4;
			q.words = 1;
			const struct plan_call call = call_of(&q);
			const struct row *way = chosen_row(&q);
			struct plan_key key = planner_key(q.coll, q.bytes / 4, CORALE_FLOAT32, CORALE_SUM);
			struct plan plan;
			if (coll_is_pair(q.coll) || (coll_is_uneven(q.coll) && q.coll != CORALE_ALL_TO_ALL_V))
				continue;
			assert_int_equal(planner_plan(&planner, &key, &call, &plan, error, sizeof error), 0);
			assert_int_equal(plan.codelet, way ? way->codelet->index : 0);
			assert_int_equal(plan.protocol, way ? way->protocol : PLAN_ANY_PROTOCOL);
			if (!way || ranks == 1)
				continue;
			const struct launch launch = launch_of(way, &q.machine, &call);
			if (way->codelet->engine == PLAN_SM)
				assert_int_equal(plan.channels, launch.grid.blocks);
			assert_in_range(launch.grid.blocks, 1, 160);
			assert_true(launch.piece * launch.pieces >=
				    (call.coll == CORALE_ALL_REDUCE && way->codelet->engine == PLAN_CE
					 ? launch_copied_part(q.bytes, ranks)
					 : q.bytes));
			assert_true(launch_to_peer(&launch) <= q.bytes);
		}
		topo_destroy(topo);
	}
}

/* ---- Walk and rates ------------------------------------------------------------------------------------------------ */

/* How far the walk of a row's plan may be from the row's measured rates. Small blocks and broadcasts have rates that were fitted to larger calls; for more than
 * four ranks nobody has measured any. */
static double most_apart(const struct question *q)
{
	const int is_broadcast = q->coll == CORALE_BROADCAST;
	const uint64_t least = is_broadcast ? 4 << 20 : 1 << 20;
	if (is_broadcast && (q->bytes < least || q->machine.ranks > 4))
		return 5;
	return q->coll == CORALE_ALL_REDUCE || (q->bytes >= least && q->machine.ranks <= 4) ? 1.5 : 2.5;
}

static void check_walk(const struct question *q, const struct planner *planner)
{
	const struct plan_call call = call_of(q);
	const size_t count = q->bytes / 4;
	const struct plan_key key = planner_key(q->coll, count, CORALE_FLOAT32, CORALE_SUM);
	struct plan plan;
	char error[256];
	assert_int_equal(planner_plan(planner, &key, &call, &plan, error, sizeof error), 0);
	const double walked = cost_of_plan(planner->topo, &plan, count) / 1e3,
		     rated = row_us(chosen_row(q), &q->machine, &call), most = most_apart(q);
	if (walked > most * rated || rated > most * walked)
		fail_msg(
		    "%d ranks, %s of %llu bytes by %s: the walk of its plan says %.1f us, its rates %.1f us",
		    q->machine.ranks, corale_coll_name(q->coll), (unsigned long long)q->bytes,
		    codelet_list[plan.codelet]->name, walked, rated);
}

/* Codelets are chosen by rates, lowered plans by a walk of their steps: both in the same microseconds. */
UNIT_TEST(test_walk_is_like_rates)
{
	static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_REDUCE_SCATTER,
					     CORALE_BROADCAST, CORALE_ALL_TO_ALL };
	static const struct settings settings;
	for (int ranks = 2; ranks <= 8; ranks = ranks == 4 ? 8 : ranks + 1) {
		struct question q = { .machine = machine_of(ranks, WINDOW), .words = 1 };
		struct topo *topo = cases_topo(ranks, SPLIT_ONE_NODE);
		struct planner planner;
		q.machine.scratch_bytes = (uint64_t)256 << 20;
		topo_set_gpus(topo, q.machine.rates);
		planner_init_gpus(&planner, topo, &settings, &q.machine);
		for (int i = 0; i < 5; i++)
			for (int power = 3; power <= 28; power++) {
				q.coll = colls[i];
				q.bytes = (uint64_t)1 << power;
				q.memory = PLAN_MEMORY_SCRATCH;
				check_walk(&q, &planner);
				q.memory = ALL_MEMORY;
				check_walk(&q, &planner);
			}
		topo_destroy(topo);
	}
}

/* Whatever CORALE_PROTO may say is a protocol's name, and nothing else is. */
UNIT_TEST(test_protocols_have_rows)
{
	for (int p = PLAN_LL; p < PLAN_GRANTED; p++)
		assert_int_equal(plan_protocol_forced(plan_protocol_name((enum plan_protocol)p)), p);
	static const char *const none[] = { "",     "auto", "lowered", "one_shot", "two_shot",
					    "fifo", "any",  "granted", "copies",   "ll128" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(plan_protocol_forced(none[i]), 0);
}

/* The list is by index. */
UNIT_TEST(test_list_of_codelets)
{
	for (int i = 0; i < CODELETS; i++) {
		assert_non_null(codelet_list[i]);
		assert_int_equal(codelet_list[i]->index, i);
	}
}

/* A GPU that nobody has measured is slower in everything, and no codelet exceeds the rate of its link. */
static void check_rates(const struct row *row)
{
	for (int ranks = 2; ranks <= 4; ranks += 2) {
		const struct gpu_machine machine = machine_of(ranks, WINDOW);
		const struct codelet_rate rate = row->codelet->rate(row, &machine);
		assert_true(rate.of[RATES_UNKNOWN].start_us > rate.of[RATES_HOPPER].start_us);
		assert_true(rate.of[RATES_UNKNOWN].gbs < rate.of[RATES_HOPPER].gbs);
		assert_true(rate.of[RATES_UNKNOWN].gbs > 0);
		assert_true(rate.of[RATES_HOPPER].gbs <= rates_link_gbs(rates_of_gpu("NVIDIA H200")));
		assert_true(rate.of[RATES_UNKNOWN].gbs <= rates_link_gbs(rates_of_gpu(NULL)));
		assert_in_range(rate.exchanges, 1, 2);
	}
}

UNIT_TEST(test_rates)
{
	const struct rates *known = rates_of_gpu("NVIDIA H200"), *other = rates_of_gpu("NVIDIA H200 NVL");
	assert_true(rates_are_known(known));
	assert_true(known == rates_of_default_gpu());
	assert_false(rates_are_known(other));
	assert_true(rates_of_gpu(NULL) == other);
	const struct rates *hopper = rates_of_gpu("NVIDIA H100 80GB HBM3");
	assert_true(rates_are_known(hopper) && hopper != known);
	assert_int_equal(hopper->generation, known->generation);
	assert_memory_equal(&hopper->block_gbs, &known->block_gbs, sizeof known->block_gbs);
	assert_true(fabs(hopper->memory_gbs / known->memory_gbs - 3.35 / 4.8) < 0.001);
	assert_true(fabs(hopper->links.reduce_gbs / known->links.reduce_gbs - 3.35 / 4.8) < 0.001);
	assert_true(hopper->links.node_gbs == known->links.node_gbs && hopper->blocks == known->blocks);
	assert_true(rates_of_gpu("NVIDIA H100 PCIe") == other && rates_of_gpu("NVIDIA H100 NVL") == other);
	assert_true(rates_of_gpu("NVIDIA H100") == other);
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		for (const struct row *row = NULL; (row = row_next_codelet((corale_coll)coll, row));)
			check_rates(row);
	for (int i = 0; i < RATES_BLOCK_KINDS; i++)
		assert_true(other->block_gbs[i] < known->block_gbs[i] && other->block_gbs[i] > 0);
}

static int is_refused(corale_coll coll, int codelets, const char *proto, const char *algo)
{
	struct settings s = { .codelets = codelets };
	struct gpu_machine machine = machine_of(4, WINDOW);
	snprintf(s.proto, sizeof s.proto, "%s", proto);
	snprintf(s.algo, sizeof s.algo, "%s", algo);
	gpu_machine_apply(&machine, &s);
	return machine.refused[coll] >> codelet_of_kind(&fifo_codelet, coll)->index & 1;
}

UNIT_TEST(test_settings)
{
	static const corale_coll colls[] = { CORALE_ALL_TO_ALL, CORALE_ALL_TO_ALL_V };
	for (int i = 0; i < 2; i++) {
		assert_false(is_refused(colls[i], 1, "", ""));
		assert_true(is_refused(colls[i], 0, "", ""));
		assert_true(is_refused(colls[i], 1, "", "^pairwise"));
	}
	assert_true(is_refused(CORALE_ALL_TO_ALL, 1, "LL", ""));
	assert_false(is_refused(CORALE_ALL_TO_ALL_V, 1, "LL", ""));
}

UNIT_TEST(test_chunks)
{
	for (int ranks = 2; ranks <= CODELET_MAX_RANKS; ranks++) {
		uint32_t before = 1;
		for (int i = 0; i < SIZES; i++) {
			uint32_t chunks = launch_chain_chunks(rates_of_default_gpu(), ranks, size(i));
			assert_in_range(chunks, before, ranks > 2 ? 256 : 1);
			before = chunks;
		}
	}
}

/* ---- Lists of choices -------------------------------------------------------------------------------------------- */

/* What a list says is what was chosen for each size, and it has room for all. */
static void check_list(const struct question *asked)
{
	struct question q = *asked;
	struct choices list;
	choices_of_codelets(&q.machine, q.coll, q.words, q.memory, &list);
	assert_in_range(list.n, 1, CHOICES_MOST);
	assert_true(list.best[list.n - 1].up_to == UINT64_MAX);
	for (int i = 0; i < SIZES; i++) {
		q.bytes = size(i);
		const struct row *row = choices_find(&list, q.bytes)->row;
		if (row != chosen_row(&q))
			complain(&q, codelet_kind(row), "is what the list says, not what is chosen");
	}
	for (int i = 0; i < list.n - 1; i++) {
		const uint64_t up_to = list.best[i].up_to;
		q.bytes = up_to;
		assert_ptr_equal(chosen_row(&q), list.best[i].row);
		q.bytes = up_to + 1;
		assert_ptr_equal(chosen_row(&q), list.best[i + 1].row);
	}
}

UNIT_TEST(test_lists)
{
	static const int blocks[] = { 132, 16, 4, 1 };
	for (int i = 0; i < 8 * 4 * CORALE_NUM_COLLS * 2 * PLAN_MEMORY_CLASSES; i++) {
		struct question q = { .machine = machine_of(1 + i % 8, i & 8 ? WINDOW : WINDOW / 4) };
		q.machine.max_blocks = blocks[i / 8 % 4];
		q.machine.rates = rates_of_gpu(i & 16 ? "NVIDIA H200" : NULL);
		q.coll = (corale_coll)(i / 32 % CORALE_NUM_COLLS);
		q.words = i / 32 / CORALE_NUM_COLLS % 2;
		q.memory = i / 32 / CORALE_NUM_COLLS / 2;
		if (!(q.memory & PLAN_MEMORY_EXPORTED) || q.memory & PLAN_MEMORY_REGISTERED)
			check_list(&q);
	}
}

/* How many of the size classes that a list leaves to packets lie below the largest call that they can run. */
static int count_lowered(const struct planner *planner, corale_coll coll)
{
	struct choices list;
	char error[200];
	int lowered = 0;
	assert_int_equal(choices_of(planner, coll, CORALE_FLOAT32, 0, &list, error, sizeof error), 0);
	for (int power = 3; power <= 30; power++) {
		const struct plan_call call = { coll, (uint64_t)1 << power, 1, 0, PLAN_ALIGNED_16 };
		const struct plan_key key = planner_key(coll, call.bytes / 4, CORALE_FLOAT32, CORALE_SUM);
		const struct row *row = choices_find(&list, call.bytes)->row;
		struct plan plan;
		lowered += planner_codelet(planner->machine, &call) && !row->codelet;
		assert_int_equal(planner_plan(planner, &key, &call, &plan, error, sizeof error), 0);
		assert_int_equal(plan.codelet, row->codelet ? row->codelet->index : 0);
		if (!row->codelet)
			assert_int_equal(plan.algo, row - row_table(&(int){ 0 }));
	}
	return lowered;
}

/* A codelet that is all that can run a call, and far slower than a lowered plan, does not run it: a root that sends everything to each rank. */
UNIT_TEST(test_lowered_competes)
{
	static const struct settings settings;
	struct gpu_machine machine = machine_of(4, (uint64_t)1 << 30);
	struct topo *topo = cases_topo(4, SPLIT_ONE_NODE);
	struct planner planner;
	machine.rates = rates_of_gpu("NVIDIA H200");
	topo_set_gpus(topo, machine.rates);
	planner_init_gpus(&planner, topo, &settings, &machine);
	assert_int_equal(count_lowered(&planner, CORALE_BROADCAST), 0);
	for (int i = 0; i < CODELETS; i++)
		if (codelet_list[i] != &one_shot_codelet)
			gpu_machine_refuse(&machine, codelet_list[i]);
	assert_true(count_lowered(&planner, CORALE_BROADCAST) > 0);
	machine.forced = PLAN_LL128;
	assert_int_equal(count_lowered(&planner, CORALE_BROADCAST), 0);
	machine.forced = 0;
	machine.zero_ctas = 1;
	assert_int_equal(count_lowered(&planner, CORALE_BROADCAST), 0);
	topo_destroy(topo);
}

UNIT_TEST(test_print)
{
	char text[512];
	struct choices list;
	struct question q = { .machine = machine_of(8, WINDOW), .coll = CORALE_ALL_GATHER };
	choices_of_codelets(&q.machine, q.coll, 1, 0, &list);
	choices_print(&list, text, sizeof text);
	assert_int_equal(list.n, 2);
	assert_memory_equal(text, "one_shot LL128 to ", 18);
	assert_non_null(strstr(text, "; then fifo FIFO"));
	q.machine.forced = PLAN_FIFO; /* into registered memory, too */
	choices_of_codelets(&q.machine, q.coll, 1, 1, &list);
	choices_print(&list, text, sizeof text);
	assert_string_equal(text, "fifo FIFO");
}
