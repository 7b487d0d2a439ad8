/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of a plan, in words. */
#include <stdio.h>

#include "planner.h"
#include "planner_algo.h"
#include "base/text.h"

/* What became of a row: its time, or why it was out. */
static size_t explain_row(const struct planner *planner, const struct plan_key *key, int row, char *buf,
			  size_t bytes)
{
	const struct row *algo = row_table(&(int){ 0 }) + row;
	struct plan plan;
	int n;
	if (!planner_algo_allows(planner->algo, row))
		n = snprintf(buf, bytes, ", %s (CORALE_ALGO forbids it)", algo->name);
	else if (planner->reproducible && !(algo->traits & ROW_ALL_AT_ONCE))
		n = snprintf(buf, bytes, ", %s (not in rank order, which CORALE_REPRODUCIBLE demands)",
			     algo->name);
	else if (planner_build(planner, key, row, &plan))
		n = 0;
	else
		n = text_format(buf, bytes, ", %s %.1f us", algo->name,
				cost_of_plan(planner->topo, &plan, planner_class_count(key)) / 1000);
	return n > 0 ? (size_t)n : 0;
}

size_t planner_explain(const struct planner *planner, const struct plan *plan, char *buf, size_t bytes)
{
	int rows;
	const struct row *algo = row_table(&rows);
	const struct plan_key *key = &plan->key;
	size_t most = (size_t)1 << key->size_class, length;
	int n = text_format(
	    buf, bytes, "%s of %s, up to %zu bytes: %s, %d channels, chunks of %u bytes; at least %.1f us",
	    corale_coll_name((corale_coll)key->coll), corale_type_name((corale_type)key->type), most,
	    algo[plan->algo].name, plan->channels, plan->chunk_bytes,
	    cost_lower_bound(planner->topo, (corale_coll)key->coll, most) / 1000);
	length = n > 0 ? (size_t)n : 0;
	for (int row = 0; row < rows; row++) {
		int room = length < bytes;
		if (algo[row].coll == key->coll && !algo[row].codelet)
			length += explain_row(planner, key, row, room ? buf + length : NULL,
					      room ? bytes - length : 0);
	}
	return length;
}
