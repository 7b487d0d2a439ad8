/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker: proves a plan right without data. It runs the plan's programs for all ranks against
 * bounded queues, with symbolic elements (the ordered fold of contributors), and reports the first violation.
 */
#ifndef CHECK_H
#define CHECK_H

#include "plan/choose/planner.h"

struct check_options {
	size_t count; /* elements; small, odd values are the interesting ones */
	size_t chunk; /* elements per chunk (instead of the plan's), so that small counts make many chunks */
	size_t unit; /* elements at whose multiples parts start (1 makes every part non-empty) */
	int root;
	int in_place;
	int references; /* messages marked PLAN_STABLE are read when received, not when sent */
	int resident; /* channels that run at a time per rank; 0: all */
	unsigned seed; /* of the order in which runnable programs advance; 0: round-robin */
	int calls; /* so many calls of the plan one after the other (cross-call hazards); 0: 1 */
	const size_t *
	    v_counts; /* all_to_all_v: from a to b at a * size + b; other v-forms: rank r's block at r * size; else NULL */
};

struct check_report {
	long steps; /* actions executed by all ranks */
	long elements_sent; /* payload elements sent by the busiest rank */
	int deepest_rank_steps; /* actions of the busiest rank */
	int in_rank_order; /* every reduced element is one left fold of ranks 0, 1, ... */
};

/* 0, or CORALE_EINTERNAL with the violation in error: ranks, program, action, what was expected. */
int check_plan(const struct plan *plan, const struct plan_map *map, const struct check_options *options,
	       struct check_report *report, char *error, size_t error_bytes);

/* The same for calls of different plans one after the other (options->calls is not used), on the same queues. */
int check_sequence(const struct plan *const *plans, int calls, const struct plan_map *map,
		   const struct check_options *options, struct check_report *report, char *error,
		   size_t error_bytes);

/* The two plans of one edge: send on rank from, recv on rank to. */
int check_edge(const struct plan *send, const struct plan *recv, const struct plan_map *map, int from, int to,
	       const struct check_options *options, struct check_report *report, char *error,
	       size_t error_bytes);

#endif
