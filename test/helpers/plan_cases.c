/* SPDX-License-Identifier: BSD-3-Clause */
/* The machines and calls over which plan tests loop. */
#include "test/helpers/unit.h"
#include "plan_cases.h"
#include "base/collectives.h"
#include "test/helpers/row_find.h"

struct topo *cases_topo(int n, enum plan_split split)
{
	uint64_t *id = calloc((size_t)n, sizeof(*id));
	struct topo *topo;
	assert_non_null(id);
	for (int r = 0; r < n; r++) {
		int uneven = r < n / 2 ? 0 : r < n * 3 / 4 ? 1 : 2 + (r & 1);
		int ids[NUM_SPLITS] = { 7, r, r / 3, r / 8, r % 3, uneven };
		id[r] = (uint64_t)ids[split];
	}
	assert_int_equal(topo_create(n, id, &topo), 0);
	free(id);
	return topo;
}

static int is_on_gpus(int index)
{
	int rows;
	const struct row *row = &row_table(&rows)[index];
	return row->codelet || row->traits & ROW_ON_GPUS;
}

/* Several rows have the plan of one algorithm: one case is enough for all. */
static int is_first_of_plan(int row)
{
	int rows;
	const struct row *table = row_table(&rows);
	return row_find(table[row].coll, table[row].name) == row;
}

static struct planner make_planner(const struct plan_case *c)
{
	return (struct planner){ .topo = c->topo,
				 .slot_bytes = c->small_slots ? 1 : 1 << 16,
				 .slots = 4,
				 .max_channels = 1,
				 .gpus = is_on_gpus(c->row) };
}

static int has_in_place(int coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_ALL_GATHER || coll == CORALE_REDUCE_SCATTER ||
	       coll == CORALE_BROADCAST || coll == CORALE_REDUCE || coll == CORALE_GATHER ||
	       coll == CORALE_SCATTER || (coll_is_uneven(coll) && coll != CORALE_ALL_TO_ALL_V);
}

static int build(const struct plan_case *c, int row, struct plan *plan)
{
	int rows;
	struct planner planner = make_planner(c);
	struct plan_key key = planner_key(row_table(&rows)[row].coll, c->count, CORALE_FLOAT32, CORALE_SUM);
	int ret = planner_build(&planner, &key, row, plan);
	if (ret == CORALE_ENOTSUP)
		return 0;
	assert_int_equal(ret, 0);
	plan->channels = (uint8_t)(plan->spans ? 1 : c->channels);
	return 1;
}

int cases_build(const struct plan_case *c, struct plan *plan)
{
	int rows;
	const struct row *algo = &row_table(&rows)[c->row];
	return is_first_of_plan(c->row) && (!c->in_place || has_in_place(algo->coll)) &&
	       build(c, c->row, plan);
}

static size_t *make_v_counts(const struct plan_case *c)
{
	size_t n = (size_t)c->topo->map.ranks, *counts = malloc(n * n * sizeof(*counts));
	assert_non_null(counts);
	for (size_t i = 0; i < n * n; i++)
		counts[i] = i * 7 % 5 ? i * 13 % (c->count + 1) : 0;
	return counts;
}

static int row_of(corale_coll coll)
{
	int rows, row = 0;
	const struct row *algo = row_table(&rows);
	while (algo[row].coll != coll)
		row++;
	return row;
}

/* The edge between root and the rank half around from it, in the direction of the row. */
static int check_edges(const struct plan_case *c, const struct plan *plan,
		       const struct check_options *options, struct check_report *report, char *error,
		       size_t error_bytes)
{
	int n = c->topo->map.ranks, peer = (c->root + (n + 1) / 2) % n, sends = plan->key.coll == CORALE_SEND;
	struct plan other;
	if (n == 1)
		return 0;
	assert_true(build(c, row_of(sends ? CORALE_RECV : CORALE_SEND), &other));
	return check_edge(sends ? plan : &other, sends ? &other : plan, &c->topo->map, sends ? c->root : peer,
			  sends ? peer : c->root, options, report, error, error_bytes);
}

int cases_check(const struct plan_case *c, const struct plan *plan, struct check_report *report, char *error,
		size_t error_bytes)
{
	struct check_options options = { .count = c->count,
					 .chunk = c->chunk,
					 .unit = 1,
					 .root = c->root,
					 .in_place = c->in_place,
					 .references = 1,
					 .resident = c->resident,
					 .seed = c->seed,
					 .calls = c->calls };
	int coll = plan->key.coll;
	if (coll == CORALE_SEND || coll == CORALE_RECV)
		return check_edges(c, plan, &options, report, error, error_bytes);
	size_t *counts = coll_is_uneven(coll) ? make_v_counts(c) : NULL;
	options.v_counts = counts;
	int ret = check_plan(plan, &c->topo->map, &options, report, error, error_bytes);
	free(counts);
	return ret;
}

int cases_run(const struct plan_case *c, struct check_report *report)
{
	struct plan plan;
	struct check_report ignored;
	char error[512];
	if (!cases_build(c, &plan))
		return 0;
	if (cases_check(c, &plan, report ? report : &ignored, error, sizeof(error)))
		fail_msg("%s (in place %d, chunk %zu, channels %d, root %d, seed %u)", error, c->in_place,
			 c->chunk, c->channels, c->root, c->seed);
	return 1;
}
