/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every algorithm of every collective through the checker: 1 to 64 ranks, even and uneven nodes, odd counts, in and
 * out of place, all roots while they are few, partial sums in float32, several channels, random schedules, repeated
 * calls. Small numbers of ranks get all combinations, large ones the ones that matter there.
 */
#include "test/helpers/unit.h"
#include "base/collectives.h"
#include "test/helpers/plan_cases.h"
#include "test/helpers/thin.h"

static int coll_of(int row)
{
	int rows;
	return row_table(&rows)[row].coll;
}

static int is_rooted(int row)
{
	int coll = coll_of(row);
	return coll == CORALE_BROADCAST || coll == CORALE_SEND || coll == CORALE_RECV ||
	       coll == CORALE_REDUCE || coll == CORALE_GATHER || coll == CORALE_SCATTER;
}

/* All combinations for one row on one machine. */
static int run_all(const struct topo *topo, int row)
{
	int ran = 0, n = topo->map.ranks;
	const size_t counts[] = { 0, 1, (size_t)n, 3 * (size_t)n + 1 };
	for (int i = 0; i < 4 * 2 * 2; i++) {
		struct plan_case c = {
			.topo = topo, .row = row, .count = counts[i / 4], .chunk = 2, .channels = 1
		};
		c.in_place = i & 1;
		c.calls = 4;
		if (i & 2) {
			c.small_slots = 1;
			c.channels = 2;
			c.resident = 1;
			c.chunk = 3;
			c.seed = (unsigned)(i + n);
		}
		for (int root = 0; root < (is_rooted(row) ? n : 1); root++) {
			c.root = root;
			ran += cases_run(&c, NULL);
		}
	}
	return ran;
}

/* In place and out of place, a few chunks, one random schedule; chunks so large that the number of messages stays small. */
static int run_some(const struct topo *topo, int row)
{
	int ran = 0, n = topo->map.ranks;
	struct plan plan;
	struct plan_case c = { .topo = topo, .row = row, .count = 2 * (size_t)n + 3, .channels = 1 };
	c.chunk = c.count;
	c.root = n * 2 / 3;
	if (!cases_build(&c, &plan))
		return 0;
	int blocks =
	    c.count > 4 && (coll_of(row) == CORALE_ALL_GATHER || coll_of(row) == CORALE_REDUCE_SCATTER ||
			    coll_of(row) == CORALE_ALL_TO_ALL || coll_is_uneven(coll_of(row)) ||
			    coll_of(row) == CORALE_GATHER || coll_of(row) == CORALE_SCATTER);
	if (blocks)
		c.count = 3;
	c.chunk = (c.count / (size_t)plan.parts + 2) / 2;
	c.calls = plan.nqueues && plan.queues[0].sync == PLAN_PARITY ? 4 : 1;
	ran += cases_run(&c, NULL);
	c.in_place = 1;
	c.seed = (unsigned)n;
	c.small_slots = n & 1;
	return ran + cases_run(&c, NULL);
}

struct range {
	corale_coll coll;
	int first, last;
	int (*run)(const struct topo *topo, int row);
};

static void run_range(void **state)
{
	const struct range *range = *state;
	const int few = range->first == 1,
		  first = few ? 0 : thin_first(range->last - range->first + 1) % thin_step(),
		  step = few ? 1 : thin_step(); /* all small numbers of ranks are taken */
	int rows, ran = 0;
	row_table(&rows);
	for (int n = range->first + first; n <= range->last; n += step) {
		for (int split = 0; (few || thin_takes((uint64_t)n, 3)) && split < NUM_SPLITS; split++) {
			struct topo *topo = cases_topo(n, (enum plan_split)split);
			for (int row = 0; row < rows; row++)
				if (coll_of(row) == (int)range->coll)
					ran += range->run(topo, row);
			topo_destroy(topo);
		}
	}
	assert_true(ran > 0);
}

int main(void)
{
	enum { RANGES = 3 };
	static const struct range ranges[RANGES] = { { 0, 1, 8, run_all },
						     { 0, 9, 32, run_some },
						     { 0, 33, 64, run_some } };
	static struct range all[CORALE_NUM_COLLS * RANGES];
	static char names[CORALE_NUM_COLLS * RANGES][64];
	struct CMUnitTest tests[CORALE_NUM_COLLS * RANGES];
	for (int i = 0; i < CORALE_NUM_COLLS * RANGES; i++) {
		all[i] = ranges[i % RANGES];
		all[i].coll = (corale_coll)(i / RANGES);
		snprintf(names[i], sizeof(names[i]), "%s on %d to %d ranks", corale_coll_name(all[i].coll),
			 all[i].first, all[i].last);
		tests[i] = (struct CMUnitTest){ names[i], run_range, NULL, NULL, &all[i] };
	}
	return cmocka_run_group_tests_name("algo", tests, NULL, NULL);
}
