/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of the algorithm table as candidates: each has a planner of its own, in which one row is forced. */
#include <string.h>

#include "choices.h"
#include "plan/choose/planner.h"

/* CORALE_ALGO's text for one row. A name stands for longer names that begin with it, too, so those are excluded. */
static void force(const struct row *table, int rows, int row, char *text, size_t bytes)
{
	const struct row *algo = &table[row];
	const char *coll = corale_coll_name(algo->coll);
	size_t length = (size_t)snprintf(text, bytes, "%s:%s", coll, algo->name);
	for (int i = 0; i < rows && length < bytes; i++)
		if (i != row && table[i].coll == algo->coll && !table[i].codelet &&
		    !strncmp(table[i].name, algo->name, strlen(algo->name)))
			length +=
			    (size_t)snprintf(text + length, bytes - length, ",%s:^%s", coll, table[i].name);
	choices_must("room for CORALE_ALGO", length < bytes ? 0 : CORALE_EINTERNAL);
}

static void add(const struct choices_job *job, const char *kind, int row, struct choices_candidate *c)
{
	int rows;
	const struct row *table = row_table(&rows);
	memset(c, 0, sizeof(*c));
	c->kind = kind;
	c->row = row;
	c->run = choices_ours;
	c->plans.planner = job->comm->plans.planner;
	if (row >= 0)
		force(table, rows, row, c->plans.planner.algo, sizeof(c->plans.planner.algo));
}

int choices_open(const struct choices_job *job, corale_coll coll, int vs_mpi,
		 struct choices_candidate *candidates)
{
	int rows, n = 0;
	const struct row *table = row_table(&rows);
	add(job, "choice", -1, &candidates[n++]);
	for (int row = 0; row < rows; row++) {
		if (table[row].coll != coll || table[row].codelet || !strcmp(table[row].name, "local"))
			continue;
		choices_must("room for all algorithms",
			     n + vs_mpi < CHOICES_MOST_CANDIDATES ? 0 : CORALE_EINTERNAL);
		add(job, "forced", row, &candidates[n++]);
	}
	if (vs_mpi) {
		add(job, "mpi", -1, &candidates[n]);
		candidates[n++].run = choices_mpi;
	}
	return n;
}

void choices_close(struct choices_candidate *candidates, int n)
{
	for (int i = 0; i < n; i++)
		plans_free(&candidates[i].plans);
}

/* Where the forced row does not apply the planner takes another one, which is not what is to be timed. */
int choices_plan(struct choices_candidate *c, const struct choices_call *call)
{
	const struct comm *comm = call->job->comm;
	const corale_type type = call->count ? CORALE_FLOAT32 : 0;
	const struct plan_key key = planner_key(call->coll, call->count, type, CORALE_SUM);
	struct plans_entry *entry;
	int rows, ret = 0;
	c->call = call;
	c->timed = 0;
	c->algo = "mpi";
	if (c->run != choices_ours)
		return 0;
	ret = plans_find(&c->plans, comm->rank, &key, NULL, &entry);
	if (ret)
		return ret;
	c->algo = c->row < 0 || entry->plan.algo == c->row ? row_table(&rows)[entry->plan.algo].name : NULL;
	c->model_us = cost_of_plan(comm->topo, &entry->plan, call->count) / 1e3;
	return 0;
}
