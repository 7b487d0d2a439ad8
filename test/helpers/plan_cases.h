/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines and calls that the plan tests share. */
#ifndef PLAN_CASES_H
#define PLAN_CASES_H

#include "test/check/check.h"

/* Ways to put n ranks on nodes. */
enum plan_split {
	SPLIT_ONE_NODE,
	SPLIT_SINGLES, /* one rank a node */
	SPLIT_THREES, /* nodes of three, the last one smaller */
	SPLIT_EIGHTS, /* nodes of eight, the last one smaller */
	SPLIT_ROUND_ROBIN, /* rank r on node r mod 3 */
	SPLIT_UNEVEN, /* half of the ranks on one node, the rest in small interleaved ones */
	NUM_SPLITS
};

struct topo *cases_topo(int n, enum plan_split split);

/* One check of one algorithm: which, on what, and how. */
struct plan_case {
	const struct topo *topo;
	int row; /* of row_table */
	size_t count, chunk;
	int channels, in_place, root, calls, resident;
	int small_slots; /* slots so small that large-message variants are built */
	unsigned seed;
};

/* 1 if the case has a meaning; then *plan is its plan (asserts that it could be built). */
int cases_build(const struct plan_case *c, struct plan *plan);
/* Runs the checker; send and recv rows are checked with the other one, as all edges of root. */
int cases_check(const struct plan_case *c, const struct plan *plan, struct check_report *report, char *error,
		size_t error_bytes);
/* As cases_build and cases_check; fails the running test with the violation. 1 if it had a meaning. */
int cases_run(const struct plan_case *c, struct check_report *report);

#endif
